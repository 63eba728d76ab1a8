"""Runs the job of a command with `run.driver`, and shows its progress."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from functools import partial
from typing import Any, NamedTuple

import click

from minrisk._core.errors import MinriskError, Wording
from minrisk._core.process import progress_listener
from minrisk.cli.exit_codes import INTERRUPTED, SOME_FAILED
from minrisk.cli.progress import Progress, has_room_for_bar
from minrisk.cli.run_options import CommandRun
from minrisk.cli.run_report import stage_summary, write_report
from minrisk.io import remote
from minrisk.io.files import check_writable
from minrisk.io.inputs import ERRORS
from minrisk.io.outputs import QueueSink, Shard, Sink
from minrisk.io.records import Result
from minrisk.io.run_store import RunStore
from minrisk.run.driver import Job, Run, open_run
from minrisk.run.progress import count_of

_SHOWN = ("pairs", "samples", "tokens", "prompt_tokens", "completion_tokens", "judge_requests",
          "judge_prompt_tokens", "judge_completion_tokens")  # in the summary


class RunResult(NamedTuple):
    code: int  # the exit code
    counts: Mapping[str, int]  # of everything in the output
    values: Sequence[Any] = ()  # the results, if there is no output


def execute(options: CommandRun, job: Job, written: Sequence[str] = ()) -> RunResult:
    """Do the work, with progress, a summary and a report; `written` are further files of it."""
    if options.report:
        check_writable(options.report)
        written = [*written, options.report]
    with open_run(options, job, read=[options.config] if options.config else [],
                  written=written) as run:
        remaining = [what.shard for what in run.sink.remaining()]
        progress = Progress(options.quiet, partial(_fraction, run, _size(remaining)),
                            has_room_for_bar(options.output))
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
        return RunResult(SOME_FAILED if failed else 0, run.sink.counts, _values(run.sink))


def _failures(options: CommandRun, counts: Mapping[str, int], first: Result | None) -> str:
    """How many segments failed, and where their errors are; the first where no output has them."""
    count = f"{counts['failed']} of {counts['segments']} segments failed"
    if first is not None and not first.text.strip() and not options.is_folder:
        return f"{count}; the first: {first.message}"
    output = "the output" if options.output in (None, "-") else remote.redact_url(options.output)
    return f"{count}; errors are in {os.path.join(output, ERRORS) if options.is_folder else output}"


def _values(sink: Sink) -> list[Any]:
    return [result.value for result in sink.queue] if isinstance(sink, QueueSink) else []


def _size(shards: Sequence[Shard]) -> int | None:
    """Bytes of all inputs, if that can be known."""
    sizes = [source.size for shard in shards for source in shard.reader.open()]
    return None if None in sizes else sum(filter(None, sizes))


def _fraction(run: Run, size: int | None) -> float | None:
    return min(1.0, sum(run.read.values()) / size) if size else None


def _introduce(progress: Progress, options: CommandRun, job: Job, sink: Sink,
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


def _run(run: Run, progress: Progress, options: CommandRun) -> Result | None:
    """Show the progress of the run, and return its first failure."""
    first_failure = None
    # what a metric prints is no result
    with redirect_stdout(sys.stderr), summary(progress, options.is_stream):
        try:
            for result in run.results():
                _count(progress, result)
                if result.failure and first_failure is None:
                    first_failure = result
        finally:
            if stages := stage_summary(run, progress):
                progress.note(stages)
    return first_failure


def _count(progress: Progress, result: Result) -> None:
    if result.failure and not progress.failed:
        progress.note(f"the first failure: {result.message}")
    progress.count(**{name: n for name, n in result.counts.items() if name in _SHOWN})
    progress.advance(failed=result.failure is not None)


@contextmanager
def summary(progress: Progress, is_stream: bool) -> Iterator[None]:
    """Show the progress of the work inside, and how much was done, however it ends."""
    try:
        with progress_listener(progress.stage):
            yield
    except KeyboardInterrupt as stop:
        click.echo(f"\nminrisk: interrupted after {count_of(progress.done, 'segment')}"
                   + ("" if is_stream else ", which are kept; --resume goes on"), err=True)
        if type(stop) is not KeyboardInterrupt:  # SIGTERM
            raise
        raise click.exceptions.Exit(INTERRUPTED) from None
    except MinriskError:
        progress.finish()
        if progress.done and not is_stream:
            progress.note(f"{progress.done} finished segments are kept; --resume goes on")
        raise
    progress.finish()
