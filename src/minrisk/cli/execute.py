"""From options to a run: every command makes a `Job`, and `execute` runs it.

The job's inputs become shards, the output a sink, and `pipeline.run` takes records from the one
through the job's stages into the other.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, redirect_stdout
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import click

from minrisk._core.errors import InputError, MinriskError
from minrisk._core.progress import progress_listener
from minrisk.cli.progress import Progress, has_room_for_bar
from minrisk.cli.run_options import RunOptions, names_folder
from minrisk.cli.run_report import stage_summary, write_report
from minrisk.io import remote
from minrisk.io.files import Output, as_input_error, check_writable, file_key
from minrisk.io.inputs import ERRORS, MANIFEST, InputFile
from minrisk.io.matrices import MatrixWriter
from minrisk.io.record import Reader, Result
from minrisk.io.run_store import RunStore, beside
from minrisk.io.shards import Shard, folder_shards
from minrisk.io.sink import Sink, StreamSink, Writable
from minrisk.pipeline.batches import BATCH
from minrisk.pipeline.run import Policy, Run
from minrisk.pipeline.stages import Parse
from minrisk.pipeline.workers import WorkerPool
from minrisk.version import __version__

SOME_FAILED = 3  # the exit code of a run that went to its end without some segments
_SHOWN = ("pairs", "samples", "tokens", "prompt_tokens", "completion_tokens")  # in the summary


@dataclass(frozen=True)
class Job:
    """What a command does with its input, whatever its output is."""

    files: Sequence[InputFile]
    reader: Callable[[tuple[InputFile, ...], int | None], Reader]  # None: of all files together
    pools: Sequence[WorkerPool]  # the first parses records, too
    settings: Mapping[str, Any]  # that can change a result
    signatures: Sequence[str]
    extension: str = ".jsonl"
    block: int = BATCH  # records that go to a worker together
    matrix: str | None = None
    also_read: Sequence[InputFile] = ()
    also_written: Sequence[str] = ()
    stream: Writable | None = None  # where results go instead of standard output
    is_streaming: bool = False  # a server does the work, and no request waits for another


class Outcome(NamedTuple):
    code: int  # the exit code
    counts: Mapping[str, int]  # of everything in the output


def execute(options: RunOptions, job: Job) -> Outcome:
    """Run a job: from its inputs to its output, with progress, a summary and a report."""
    shards = _shards(options, job)
    _check_files(options, job, shards)
    with ExitStack() as stack:
        sink = stack.enter_context(_sink(options, job, shards, stack))
        run = Run(sink, _with_parser(job.pools, shards[0].reader), options.runner(job.is_streaming),
                  Policy(options.batch_size or job.block, options.memory, options.on_error,
                         options.max_errors))
        remaining = [what.shard for what in sink.remaining()]
        progress = Progress(options.quiet, partial(_fraction, run, _size(remaining)),
                            has_room_for_bar(options.output))
        _introduce(progress, options, job, sink, len(shards), len(remaining))
        try:
            _run(run, progress, options)
        finally:
            if options.report:
                write_report(options.report, run, progress, job.signatures)
        for reason in run.broken.values():
            progress.note(f"unfinished: {reason}")
        failed = sink.counts["failed"] + len(run.broken)
        return Outcome(SOME_FAILED if failed else 0, sink.counts)


def _with_parser(pools: Sequence[WorkerPool], reader: Reader) -> list[WorkerPool]:
    first, *others = pools
    return [replace(first, stages=(Parse(reader), *first.stages)), *others]


def _shards(options: RunOptions, job: Job) -> list[Shard]:
    if options.is_folder:
        paths = [file.location if file.location == "-" or remote.is_url(file.location)
                 else file.name for file in job.files]
        return folder_shards(paths, job.extension, lambda n, file: job.reader((file,), n))
    reader = job.reader(tuple(job.files), None)
    return [Shard("", tuple(job.files), reader)]


def _check_files(options: RunOptions, job: Job, shards: Sequence[Shard]) -> None:
    """Nothing is destroyed, and what cannot be written is known now, rather than after days."""
    written = _outputs(options, shards)
    if job.matrix == "-":
        raise InputError("--matrix needs a file; standard output takes no .npz")
    others = [path for path in (job.matrix, options.report, *job.also_written) if path]
    for path in others:
        if path != "-" and any(_same_path(path, other) for other in written):
            raise InputError(f"{path} is part of the output; name two files")
    check_files([*(file.location for file in (*job.files, *job.also_read)), options.config],
                [*written, *others])
    if options.report:
        check_writable(options.report)


def check_files(read: Sequence[str | None], written: Sequence[str | None]) -> None:
    """Nothing is read twice, or destroyed before it is read."""
    paths = [path for path in read if path]
    if paths.count("-") > 1:
        raise InputError("standard input was given more than once; it can be read only once")
    keys = {file_key(path, "stdin"): path for path in paths}
    for output in filter(None, written):
        key = file_key(output, "stdout")
        if key is not None and key in keys:
            raise InputError(f"the output is the input {remote.shown(keys[key])}; "
                             "write to another file")


def _outputs(options: RunOptions, shards: Sequence[Shard]) -> list[str]:
    """All files of the output, with those beside it."""
    if options.is_folder:
        names = [*(shard.name for shard in shards), MANIFEST, ERRORS]
        return [os.path.join(options.output, name) for name in names]
    return [options.output, *([] if options.is_stream else [beside(options.output)])]


def _same_path(one: str, other: str) -> bool:
    return other != "-" and os.path.realpath(one) == os.path.realpath(other)


def _sink(options: RunOptions, job: Job, shards: list[Shard], stack: ExitStack) -> Any:
    matrix = job.matrix
    if options.is_stream:
        output = job.stream or stack.enter_context(Output(options.output))
        return StreamSink(output, shards[0], MatrixWriter(matrix) if matrix else None)
    if matrix and options.is_folder != names_folder(matrix):
        raise InputError("--matrix is a folder (scores/) where the output is one, and otherwise "
                         "a file")
    settings = {**job.settings, "matrix": matrix, **_identities(job), "version": __version__}
    common: dict[str, Any] = {"resume": options.resume, "overwrite": options.overwrite,
                              "matrix_of": partial(_matrix, matrix) if matrix else None}
    if options.is_folder:
        return RunStore.folder(options.output, options.work, shards, settings, **common)
    return RunStore.file(options.output, options.work, shards[0], settings, **common)


def _matrix(path: str, shard: Shard) -> MatrixWriter:
    if not names_folder(path):
        return MatrixWriter(path)
    file = os.path.join(path, f"{shard.name}.npz")
    with as_input_error("write", file):
        os.makedirs(os.path.dirname(file), exist_ok=True)
    return MatrixWriter(file)


def _identities(job: Job) -> dict[str, str]:
    return {f"input {file.name}": file.identity() for file in (*job.files, *job.also_read)}


def _size(shards: Sequence[Shard]) -> int | None:
    """Bytes of all inputs, if that can be known."""
    sizes = [source.size for shard in shards for source in shard.reader.open()]
    return None if None in sizes else sum(filter(None, sizes))


def _fraction(run: Run, size: int | None) -> float | None:
    return min(1.0, sum(run.read.values()) / size) if size else None


def _introduce(progress: Progress, options: RunOptions, job: Job, sink: Sink, shards: int,
               remaining: int) -> None:
    for line in job.signatures:
        progress.note(line)
    if isinstance(sink, RunStore):
        if sink.store.writer:
            progress.note(f"unfinished results are in {sink.store.work}")
        if options.resume:
            of = f"{shards - remaining} of {shards} shards and " if options.is_folder else ""
            retried = f", {sink.retried} failed ones are tried again" if sink.retried else ""
            progress.note(f"resuming {remote.shown(options.output)}: {of}"
                          f"{sink.counts['segments']} segments finished{retried}")


def _run(run: Run, progress: Progress, options: RunOptions) -> None:
    shown: set[str] = set()
    # what a metric prints is no result
    with redirect_stdout(sys.stderr), summary(progress, options.output, options.is_stream):
        try:
            for result in run.results():
                _count(progress, result)
                _show_warnings(run, shown)
        finally:
            _show_warnings(run, shown)
            if stages := stage_summary(run, progress):
                progress.note(stages)


def _count(progress: Progress, result: Result) -> None:
    failure = result.failure
    if failure and not progress.failed:
        progress.note(f"the first failure: {failure['file']}:{failure['line']}: "
                      f"{failure['reason']}")
    progress.count(**{name: n for name, n in result.counts.items() if name in _SHOWN})
    progress.advance(failed=failure is not None)


def _show_warnings(run: Run, shown: set[str]) -> None:
    """Each once, whichever worker it came from."""
    while run.warnings:
        message = run.warnings.pop(0)
        if message not in shown:
            shown.add(message)
            warnings.warn(message, stacklevel=2)


@contextmanager
def summary(progress: Progress, output: str, is_stream: bool) -> Iterator[None]:
    """Show the progress of the work inside, and how much was done, however it ends."""
    try:
        with progress_listener(progress.stage):
            yield
    except KeyboardInterrupt as stop:
        where = "standard output" if output == "-" else remote.shown(output)
        hint = "" if is_stream else "; --resume goes on"
        click.echo(f"\nminrisk: interrupted; segments in {where}: {progress.done}{hint}", err=True)
        if type(stop) is not KeyboardInterrupt:  # SIGTERM
            raise
        raise click.exceptions.Exit(130) from None
    except MinriskError:
        progress.finish()
        if progress.done and not is_stream:
            progress.note(f"{progress.done} finished segments are kept; --resume goes on")
        raise
    progress.finish()
