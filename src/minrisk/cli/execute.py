"""Runs the job of a command with `run.driver`; shows progress, a summary and a report."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass
from functools import cache, partial
from importlib import import_module
from typing import Any, NamedTuple

import click

from minrisk._core.errors import MinriskError, Wording
from minrisk._core.options import flag
from minrisk._core.process import progress_listener
from minrisk.cli import INTERRUPTED, SOME_FAILED
from minrisk.cli.options import as_flags, flags
from minrisk.io import remote
from minrisk.io.files import Output, check_writable
from minrisk.io.inputs import ERRORS
from minrisk.io.outputs import QueueSink, Shard, Sink
from minrisk.io.records import Result
from minrisk.io.run_store import RunStore
from minrisk.io.writers import Writer
from minrisk.run.driver import Job, Run, open_run
from minrisk.run.options import RunOptions
from minrisk.run.progress import RunProgress, count_of
from minrisk.run.stages import Map, written

QUIET_HELP = "Print only errors to standard error."
_SHOWN = ("pairs", "samples", "tokens", "prompt_tokens", "completion_tokens", "judge_requests",
          "judge_prompt_tokens", "judge_completion_tokens")  # counts in the summary


@dataclass(frozen=True)
class CommandRun(RunOptions):
    """The options of a run that a command starts."""

    is_command = True

    output: str | None = flag(
        "-", "-o", section="Output", metavar="FILE",
        help="Output file, compressed if it ends in .gz, .xz or .zst; or a folder (out/, "
        "s3://bucket/out/) for one file per INPUT. [default: standard output]")
    report: str | None = flag(
        None, metavar="FILE", advanced=True,
        help="File for a JSON report of the run: counts, workers, time of each stage.")
    config: str | None = flag(None, metavar="FILE",
                              help="YAML file with options; flags override it.")
    quiet: bool = flag(False, "-q", help=QUIET_HELP)

    def write(self, writer: Writer) -> Map:
        """The stage that writes; its error messages name flags instead of Python options."""
        return Map("render", partial(written, writer, partial(as_flags, known=flags.get())))


def command_progress(quiet: bool, fraction: Callable[[], float | None] = lambda: None,
                     output: str | None = None) -> RunProgress:
    """The progress of a command; a bar must not be mixed with results on the terminal."""
    is_shared = output == "-" and sys.stdout is not None and sys.stdout.isatty()
    return RunProgress(quiet, fraction, live=not is_shared, rephrase=as_flags)


class RunResult(NamedTuple):
    code: int  # the exit code
    counts: Mapping[str, int]  # totals over the whole output
    values: Sequence[Any] = ()  # the results, if they are not written to an output


def execute(options: CommandRun, job: Job, written: Sequence[str] = ()) -> RunResult:
    """Run the job, with progress, a summary and a report; `written` names further output files."""
    if options.report:
        check_writable(options.report)
        written = [*written, options.report]
    with open_run(options, job, read=[options.config] if options.config else [],
                  written=written) as run:
        remaining = [what.shard for what in run.sink.remaining()]
        size = cache(partial(_size, remaining))
        progress = command_progress(options.quiet, lambda: _fraction(run, size()), options.output)
        progress.total = None if options.quiet else run.expected()
        _introduce(progress, options, job, run.sink, len(remaining))
        try:
            first_failure = _run(run, progress, options)
        finally:
            if options.report:
                write_report(options.report, run, progress, job.signatures)
        for reason in run.broken.values():
            progress.error(Wording("unfinished: {reason}", reason=reason))
        if run.sink.counts["failed"]:
            progress.error(_failures(options, run.sink.counts, first_failure))
        failed = run.sink.counts["failed"] + len(run.broken)
        values = ([result.value for result in run.sink.queue]
                  if isinstance(run.sink, QueueSink) else [])
        return RunResult(SOME_FAILED if failed else 0, run.sink.counts, values)


def _failures(options: CommandRun, counts: Mapping[str, int], first: Result | None) -> str:
    """How many segments failed, and where to find the errors; or the first error itself."""
    count = f"{counts['failed']} of {counts['segments']} segments failed"
    if first is not None and not first.text.strip() and not options.is_folder:
        return f"{count}; the first: {first.message}"
    output = "the output" if options.output in (None, "-") else remote.redact_url(options.output)
    return f"{count}; errors are in {os.path.join(output, ERRORS) if options.is_folder else output}"


def _size(shards: Sequence[Shard]) -> int | None:
    """Bytes of all inputs; None if unknown."""
    sizes = [source.size for shard in shards for source in shard.reader.open()]
    return None if None in sizes else sum(filter(None, sizes))


def _fraction(run: Run, size: int | None) -> float | None:
    return min(1.0, sum(run.read.values()) / size) if size else None


def _introduce(progress: RunProgress, options: CommandRun, job: Job, sink: Sink,
               remaining: int) -> None:
    progress.note("; ".join(getattr(line, "brief", line) for line in job.signatures))
    if isinstance(sink, RunStore):
        if sink.store.writer:
            progress.note(f"unfinished results are in {sink.store.work}")
        if options.resume:
            shards = len(job.files)
            of = f"{shards - remaining} of {shards} shards and " if options.is_folder else ""
            retried = f", {sink.retried} failed ones are tried again" if sink.retried else ""
            progress.note(f"resuming {remote.redact_url(options.output)}: {of}"
                          f"{sink.counts['segments']} segments finished{retried}")


def _run(run: Run, progress: RunProgress, options: CommandRun) -> Result | None:
    """Show the progress of the run, and return its first failure."""
    first_failure = None
    # what a metric prints must not mix with results
    with redirect_stdout(sys.stderr), summary(progress, options.is_stream):
        try:
            for result in run.results():
                if result.failure and first_failure is None:
                    first_failure = result
                    progress.note(f"the first failure: {result.message}")
                progress.advance(failed=result.failure is not None, **{
                    name: n for name, n in result.counts.items() if name in _SHOWN})
        finally:
            if run.engine.has_workers and run.seconds:
                progress.note(stage_summary(run, progress))
    return first_failure


@contextmanager
def summary(progress: RunProgress, is_stream: bool) -> Iterator[None]:
    """Show progress and, however the work ends, how much was done."""
    try:
        with progress_listener(progress.stage):
            yield
    except KeyboardInterrupt as stop:
        click.echo(f"\nminrisk: interrupted after {count_of(progress.done, 'segment')}"
                   + ("" if is_stream else ", which are kept; --resume continues"), err=True)
        if type(stop) is not KeyboardInterrupt:  # SIGTERM
            raise
        raise click.exceptions.Exit(INTERRUPTED) from None
    except MinriskError:
        progress.finish()
        if progress.done and not is_stream:
            progress.note(f"{progress.done} finished segments are kept; --resume continues")
        raise
    progress.finish()


def stage_summary(run: Run, progress: RunProgress) -> str:
    """The time per stage, and how busy the workers were."""
    busy = _utilisation(run, progress)
    stages = [f"{name} {seconds:.1f} s" for name, seconds in run.seconds.items()]
    shares = [f"{pool.workers} workers for {pool.name} were busy {busy[pool.name]:.0%} of the time"
              for pool in run.pools if pool.name in busy]
    return "; ".join([", ".join(stages), *shares])


def write_report(path: str, run: Run, progress: RunProgress, signatures: Sequence[str]) -> None:
    is_finished = not list(run.sink.remaining())
    report = {
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
        output.write(json.dumps(report, indent=1, ensure_ascii=False) + "\n")


def peak_bytes() -> int | None:
    """The peak memory of this process; None if the system does not report it."""
    try:
        resource: Any = import_module("resource")
    except ImportError:
        return None
    peak: int = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def _utilisation(run: Run, progress: RunProgress) -> dict[str, float]:
    return {pool.name: sum(run.seconds.get(stage.name, 0.0) for stage in pool.stages)
            / (pool.workers * progress.seconds) for pool in run.pools if pool.workers}
