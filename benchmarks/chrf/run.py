"""Is exact chrF MBR cheaper than the peers' approximation? Measures, and writes results.json.

usage: python benchmarks/chrf/run.py [--quick] [--output FILE]
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import core
import data
import table
from contest import (
    DOUBLE,
    Competitor,
    DisagreementError,
    Entry,
    Worker,
    agreement,
    contest,
    rounded,
    say,
    timing,
    variants,
    workers,
)

import native

HERE = Path(__file__).parent
sys.path.append(str(HERE.parent))  # what all benchmarks share

import machine
import speed

IMPORT = "import time; t = time.perf_counter(); import {}; print(time.perf_counter() - t)"

FASTCHRF = Competitor("fastchrf", "fastchrf")
FASTCHRF_ALONE = Competitor("fastchrf 1 thread", "fastchrf", {"RAYON_NUM_THREADS": "1"})
MINRISK = Competitor("minrisk", "minrisk")
MBRS = Competitor("mbrs", "mbrs")


@dataclass(frozen=True)
class Plan:
    """How much of everything."""

    samples: int = 1024
    mbrs_samples: int = 256
    turns: int = 9
    sizes: tuple[int, ...] = tuple(16 << i for i in range(9))  # up to 4096
    sweep_turns: int = 5
    pairwise_up_to: int = 512  # beyond, fastchrf's pairs take too long for what they tell
    large: int = 16384
    large_turns: int = 3
    segments: int | None = None  # all of the file
    processes: int = 3
    imports: int = 15
    stage_repeats: int = 25


QUICK = Plan(samples=256, mbrs_samples=64, turns=2, sizes=(16, 64, 256), sweep_turns=2,
             pairwise_up_to=64, large=1024, large_turns=1, segments=6, processes=1, imports=3,
             stage_repeats=3)


def choose(plan: Plan, cores: Sequence[str]) -> dict[str, Any]:
    """From samples to the choice, exact and aggregate, everybody."""
    texts = data.fastchrf_samples(plan.samples)
    ours = variants(cores)
    with workers([*ours, FASTCHRF, FASTCHRF_ALONE]) as team:
        entries = [Entry(team[c.label], work) for c in [*ours, FASTCHRF]
                   for work in ("exact", "aggregate")]
        entries.append(Entry(team[FASTCHRF_ALONE.label], "aggregate"))
        return {"samples": len(texts), "characters": data.characters(texts),
                **contest(entries, texts, plan.turns)}


def choose_with_mbrs(plan: Plan) -> dict[str, Any] | None:
    """mbrs has a table of its own: where it is installed, and with fewer samples."""
    if not machine.installed("mbrs"):
        return None
    texts = data.fastchrf_samples(plan.mbrs_samples)
    with workers([MINRISK, MBRS]) as team:
        entries = [Entry(w, work) for w in team.values() for work in ("exact", "aggregate")]
        return {"samples": len(texts), "characters": data.characters(texts),
                **contest(entries, texts, plan.turns)}


def sweep(plan: Plan) -> list[dict[str, Any]]:
    """Two series of growing pools: one source's samples, and several sources' together."""
    one = data.fastchrf_samples(1024)
    series = {"fastchrf-samples": one, "ntrex-en-fr, pooled": data.pooled_samples(max(plan.sizes))}
    with workers([MINRISK, FASTCHRF]) as team:
        return [
            {"series": name,
             "points": [sweep_point(team, texts[:n], plan) for n in plan.sizes if n <= len(texts)]}
            for name, texts in series.items()
        ]


def sweep_point(team: dict[str, Worker], texts: list[str], plan: Plan) -> dict[str, Any]:
    say(f"  {len(texts)} samples")
    entries = [Entry(team["minrisk"], "exact"), Entry(team["minrisk"], "aggregate"),
               Entry(team["fastchrf"], "aggregate")]
    if len(texts) <= plan.pairwise_up_to:
        entries.append(Entry(team["fastchrf"], "exact"))
    return {"samples": len(texts), "characters": data.characters(texts),
            **contest(entries, texts, plan.sweep_turns)}


def large(plan: Plan) -> dict[str, Any]:
    """Time and memory of more pairs than anyone would hold as a matrix."""
    texts = data.pooled_samples(plan.large)
    with workers([MINRISK, FASTCHRF]) as team:
        for worker in team.values():
            worker.ask("set", texts=texts)
        ours = team["minrisk"].ask("answer", work="exact")
        spot = team["fastchrf"].ask("answer", work="spot")
        few = ours["utility"][:len(spot["utility"])]
        agrees = agreement({"utility": few, "best": few.index(max(few))}, spot,
                           "fastchrf, first hypotheses", DOUBLE)
        more = team["minrisk"].ask("time", work="exact", warmup=0, calls=plan.large_turns)
    return {"samples": len(texts), "characters": data.characters(texts),
            "checked_hypotheses": len(few), **agrees, **timing(more["seconds"]),
            "extra_bytes": ours["extra_bytes"]}


def processes(plan: Plan) -> list[dict[str, Any]]:
    """The command line over a whole file, from start to exit."""
    with tempfile.TemporaryDirectory() as name:
        path = data.SEGMENTS if plan.segments is None else _first_segments(name, plan.segments)
        return [whole_process(path, strategy, work, Path(name), plan)
                for strategy, work in (("standard", "exact"), ("aggregate", "aggregate"))]


def _first_segments(folder: str, count: int) -> Path:
    path = Path(folder) / "segments.jsonl"
    lines = (json.dumps(s) + "\n" for s in data.segments(count))
    path.write_text("".join(lines), encoding="utf-8")
    return path


def whole_process(path: Path, strategy: str, work: str, folder: Path,
                  plan: Plan) -> dict[str, Any]:
    command = [sys.executable, "-m", "minrisk", "decode", str(path), "--metric", "chrf",
               "--strategy", strategy, "-o"]
    output = folder / f"{strategy}.jsonl"
    spawn([*command, str(output)])
    chosen = [json.loads(line) for line in output.read_text(encoding="utf-8").splitlines()]
    check_choices(chosen, work)
    runs = [spawn([*command, "/dev/null"]) for _ in range(plan.processes)]
    say(f"    {strategy}: {min(r['seconds'] for r in runs):.2f} s")
    return {"strategy": strategy, "segments": len(chosen),
            **timing([r["seconds"] for r in runs]),
            "peak_bytes": max(r["peak_bytes"] for r in runs)}


def check_choices(chosen: list[dict[str, Any]], work: str, count: int = 5) -> None:
    """The first choices of the command line against those of the library."""
    with workers([MINRISK]) as team:
        for line, segment in zip(chosen, data.segments(count), strict=False):
            team["minrisk"].ask("set", texts=segment["samples"])
            answer = team["minrisk"].ask("answer", work=work)
            if line["index"] != answer["best"]:
                raise DisagreementError(f"the command line chose {line['index']}, the library "
                                        f"{answer['best']} of segment {line['id']}")


def spawn(command: list[str]) -> dict[str, Any]:
    done = subprocess.run([sys.executable, str(HERE / "spawn.py"), *command],
                          capture_output=True, text=True, check=True)
    result: dict[str, Any] = json.loads(done.stdout)
    if result["status"] != 0:
        raise RuntimeError(f"{' '.join(command)} failed:\n{done.stderr}")
    return result


def imports(plan: Plan) -> dict[str, Any]:
    """Fresh processes in turns; the first of each fills the caches."""
    seconds: dict[str, list[float]] = {"minrisk": [], "numpy": []}
    for _ in range(plan.imports + 1):
        for name, found in seconds.items():
            command = [sys.executable, "-c", IMPORT.format(name)]
            found.append(float(subprocess.check_output(command)))
    return {name: timing(found[1:]) for name, found in seconds.items()}


def limit(plan: Plan) -> dict[str, Any]:
    """What the kernels reach of what the machine could do."""
    if native.compiler() is None:
        return {"skipped": "no C++ compiler here"}
    texts = data.fastchrf_samples(plan.samples)
    return native.measure(texts, plan.stage_repeats, sorted({1, machine.cores()}))


def measure(plan: Plan, cores: Sequence[str]) -> dict[str, Any]:
    # the short ones first, where what is missing shows soonest
    parts: dict[str, Callable[[], Any]] = {
        "imports": lambda: imports(plan),
        "processes": lambda: processes(plan),
        "limit": lambda: limit(plan),
        "large": lambda: large(plan),
        "choice": lambda: choose(plan, cores),
        "choice_with_mbrs": lambda: choose_with_mbrs(plan),
        "sweep": lambda: sweep(plan),
    }
    results: dict[str, Any] = {"quick": plan == QUICK,
                               "machine": core.describe(list(cores), "fastchrf", "mbrs")}
    for name, part in parts.items():
        say(name)
        results[name] = part()
    return results


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a short run, to see that it works")
    parser.add_argument("--output", type=Path, help="results.json beside this script unless given")
    given = parser.parse_args()
    if given.quick and given.output is None:
        parser.error("--quick needs --output: its numbers are not for the repository")
    return given


def main() -> int:
    given = options()
    if absent := data.missing():
        say(f"nothing to measure: the research data are not here ({absent[0].name} is missing)")
        return 0
    cores = core.native_cores()
    if not cores:
        say("minrisk's native core is not installed; there is nothing to compare")
        return 1
    results = rounded(measure(QUICK if given.quick else Plan(), cores))
    output = given.output or HERE / "results.json"
    output.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    if given.output is None:
        table.update(table.README, results)
        speed.main()
    say(f"written to {output.name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
