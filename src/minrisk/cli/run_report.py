"""The report of a run: time per stage, and JSON for programs."""

from __future__ import annotations

import json
from collections.abc import Sequence

from minrisk.cli.progress import Progress
from minrisk.io.files import Output
from minrisk.io.platform import peak_bytes
from minrisk.run.driver import Run


def stage_summary(run: Run, progress: Progress) -> str:
    """The time per stage, if there was more than one worker."""
    if not run.engine.has_workers or not run.seconds:
        return ""
    busy = _utilisation(run, progress)
    stages = [f"{name} {seconds:.1f} s" for name, seconds in run.seconds.items()]
    shares = [f"{pool.workers} workers for {pool.name} were busy {busy[pool.name]:.0%} of the time"
              for pool in run.pools if pool.name in busy]
    return "; ".join([", ".join(stages), *shares])


def write_report(path: str, run: Run, progress: Progress, signatures: Sequence[str]) -> None:
    is_finished = not list(run.sink.remaining())
    found = {
        "signatures": list(signatures),
        "engine": run.engine.name,
        "workers": {pool.name: pool.workers for pool in run.pools},
        "threads": {pool.name: pool.threads for pool in run.pools},
        "this_run": {"segments": progress.done, "failed": progress.failed, **progress.counts,
                     "seconds": progress.seconds, "shards_broken": len(run.broken)},
        "output": {**run.sink.counts, "is_finished": is_finished},
        "seconds_of_stages": dict(run.seconds),
        "utilisation": _utilisation(run, progress),
        "driver_peak_bytes": peak_bytes(),
    }
    with Output(path) as output:
        output.write(json.dumps(found, indent=1, ensure_ascii=False) + "\n")


def _utilisation(run: Run, progress: Progress) -> dict[str, float]:
    return {pool.name: sum(run.seconds.get(stage.name, 0.0) for stage in pool.stages)
            / (pool.workers * progress.seconds) for pool in run.pools if pool.workers}
