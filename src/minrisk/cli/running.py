"""How every command runs: options become a source, stages, a sink and a runner."""

from __future__ import annotations

import json
import os
import resource
import stat
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, redirect_stdout
from dataclasses import dataclass, fields
from functools import partial
from typing import Any, Literal, NamedTuple, Self

import click

from minrisk._core.errors import InputError, MinriskError
from minrisk._core.progress import progress_listener
from minrisk._core.threads import set_threads
from minrisk.cli.progress import Progress
from minrisk.cli.shared import bar_fits, check_files, code_for, option, together
from minrisk.io import remote
from minrisk.io.files import Output, as_input_error, check_writable
from minrisk.io.inputs import ERRORS, MANIFEST, InputFile
from minrisk.io.matrices import MatrixWriter
from minrisk.io.record import Reader, Result
from minrisk.io.run_store import RunStore, beside
from minrisk.io.shards import Shard, folder_shards
from minrisk.io.sink import Sink, StreamSink, Writable
from minrisk.pipeline.batches import BATCH, OnError
from minrisk.pipeline.processes import Processes
from minrisk.pipeline.run import Policy, Run
from minrisk.pipeline.runner import Inline, Runner
from minrisk.pipeline.stages import Parse, Stage
from minrisk.pipeline.workers import WorkerPool
from minrisk.version import __version__

_GB = 1 << 30
_SHOWN = ("pairs", "samples", "tokens", "prompt_tokens", "completion_tokens")  # in the summary
_POSITIVE = click.IntRange(min=1)
_output = partial(option, "Output")
_run = partial(option, "Run")
_scale = partial(option, "Scale")

output_option = _output(
    "-o", "--output", default="-", metavar="FILE", type=click.Path(),
    help="Output file or folder; standard output unless given. It is compressed if it ends in .gz, "
    ".xz or .zst. A folder (out/, s3://bucket/out/) gets a file for each INPUT.")

run_options = together(
    _run("--resume/--no-resume", help="Resume an interrupted run: finished segments stay, failed "
         "ones are tried again."),
    _run("--overwrite/--no-overwrite", help="Replace an output that exists."),
    _run("--on-error", type=click.Choice(["skip", "stop"]), default="skip", show_default=True,
         help="What to do when a segment fails: record the error in its place and go on, or stop."),
    _run("--max-errors", type=click.IntRange(min=0), metavar="N",
         help="Stop when more than N segments failed."),
    _run("--batch-size", type=_POSITIVE, metavar="B",
         help="Segments per batch; chosen by the metric or the sampler unless given."),
    _run("--threads", type=int, metavar="T",
         help="Threads of each process; one per core unless given."),
    _run("--segment-timeout", type=click.FloatRange(min=0, min_open=True), metavar="S",
         help="Seconds after which a segment fails; it then runs in a worker process."),
    _run("--report", metavar="FILE", type=click.Path(),
         help="Write a JSON report of the run: counts, workers, seconds of each stage."),
    _run("--config", metavar="FILE", type=click.Path(),
         help="YAML file with any of these options; the command line wins."),
    _run("-q/ ", "--quiet/--no-quiet", help="Print nothing but errors on standard error."),
    _run("--input", "configured", multiple=True, hidden=True),  # the key of a configuration file
)

scale_options = together(
    _scale("--workers", type=_POSITIVE, metavar="W",
           help="Number of worker processes; with a folder as output one per core, or one per GPU "
           "or model, otherwise none."),
    _scale("--engine", type=click.Choice(["local", "ray"]),
           help="Runner: processes of this machine, or a Ray cluster (minrisk[ray])."),
    _scale("--address", metavar="HOST:PORT", help="Address of a Ray cluster, or `auto` for the one "
           "that this machine is part of; unless given, Ray runs here for this run only."),
    _scale("--gpus-per-worker", type=click.FloatRange(min=0), metavar="G",
           help="GPUs of each worker; may be a fraction."),
    _scale("--buffer", type=click.FloatRange(min=0, min_open=True), default=1, metavar="GB",
           help="Gigabytes of segments on their way, at most; 1 unless given."),
    _scale("--work", metavar="FOLDER", type=click.Path(),
           help="Local scratch folder for unfinished results when the output is a URL; in the "
           "user's cache unless given."),
)


@dataclass(frozen=True)
class RunOptions:
    """What the flags above say."""

    output: str = "-"
    resume: bool = False
    overwrite: bool = False
    on_error: OnError = "skip"
    max_errors: int | None = None
    batch_size: int | None = None
    threads: int | None = None
    segment_timeout: float | None = None
    report: str | None = None
    config: str | None = None
    quiet: bool = False
    workers: int | None = None
    engine: Literal["local", "ray"] | None = None
    address: str | None = None
    gpus_per_worker: float | None = None
    buffer: float = 1.0
    work: str | None = None

    @classmethod
    def of(cls, params: Mapping[str, Any]) -> Self:
        """From the values that click parsed, of which some commands have only a part."""
        found = cls(**{f.name: params[f.name] for f in fields(cls) if f.name in params})
        if found.quiet:
            warnings.simplefilter("ignore")
        set_threads(found.threads)
        found._check()
        return found

    @property
    def is_folder(self) -> bool:
        return _names_folder(self.output)

    @property
    def is_stream(self) -> bool:
        """Standard output, a pipe or a device, which cannot be read again."""
        if self.output == "-":
            return True
        return (not remote.is_url(self.output) and os.path.exists(self.output)
                and not self.is_folder and not stat.S_ISREG(os.stat(self.output).st_mode))

    @property
    def memory(self) -> int:
        return int(self.buffer * _GB)

    def runner(self, is_streaming: bool) -> Runner:
        """Without workers where there is one output, or where a server does the work."""
        if self.engine == "ray":
            from minrisk.pipeline.ray import Ray  # here, for it is an extra, and slow to import

            return Ray(self.address, self.memory)
        asked = self.workers or self.engine or self.segment_timeout or self.gpus_per_worker
        return Processes() if asked or (self.is_folder and not is_streaming) else Inline()

    def pool(self, *stages: Stage, gpus: bool = True) -> WorkerPool:
        return WorkerPool(stages, self.workers, self.threads,
                          (self.gpus_per_worker or 0.0) if gpus else 0.0, self.quiet,
                          self.segment_timeout)

    def _check(self) -> None:
        if self.resume and self.overwrite:
            raise InputError("--resume goes on with an output, --overwrite replaces it; give one")
        if self.is_stream and (self.resume or self.overwrite):
            flag = "--resume" if self.resume else "--overwrite"
            raise InputError(f"{flag} goes with a file or a folder; name one with -o")
        if self.address and self.engine != "ray":
            raise InputError("--address is of a Ray cluster; give --engine ray")


@dataclass(frozen=True)
class Job:
    """What a command does with its input, whatever its output is."""

    files: Sequence[InputFile]
    reader: Callable[[tuple[InputFile, ...], int | None], Reader]  # None: of all files together
    pools: Callable[[Parse], list[WorkerPool]]
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


def execute(ctx: click.Context, options: RunOptions, job: Job) -> Outcome:
    """Everything from the inputs to the summary."""
    shards = _shards(options, job)
    _check_files(options, job, shards)
    with ExitStack() as stack:
        sink = stack.enter_context(_sink(options, job, shards, stack))
        run = Run(sink, job.pools(Parse(shards[0].reader)), options.runner(job.is_streaming),
                  Policy(options.batch_size or job.block, options.memory, options.on_error,
                         options.max_errors))
        remaining = [what.shard for what in sink.remaining()]
        progress = Progress(options.quiet, partial(_fraction, run, _size(remaining)),
                            bar_fits(options.output))
        _introduce(progress, options, job, sink, len(shards), len(remaining))
        try:
            _work(ctx, run, progress, options)
        finally:
            if options.report:
                _report(options, run, progress, job.signatures)
        for reason in run.broken.values():
            progress.note(f"unfinished: {reason}")
        return Outcome(code_for(sink.counts["failed"] + len(run.broken)), sink.counts)


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
    if matrix and options.is_folder != _names_folder(matrix):
        raise InputError("--matrix is a folder (scores/) where the output is one, and otherwise "
                         "a file")
    settings = {**job.settings, "matrix": matrix, **_identities(job), "version": __version__}
    common: dict[str, Any] = {"resume": options.resume, "overwrite": options.overwrite,
                              "matrix_of": partial(_matrix, matrix) if matrix else None}
    if options.is_folder:
        return RunStore.folder(options.output, options.work, shards, settings, **common)
    return RunStore.file(options.output, options.work, shards[0], settings, **common)


def _matrix(path: str, shard: Shard) -> MatrixWriter:
    if not _names_folder(path):
        return MatrixWriter(path)
    file = os.path.join(path, f"{shard.name}.npz")
    with as_input_error("write", file):
        os.makedirs(os.path.dirname(file), exist_ok=True)
    return MatrixWriter(file)


def _names_folder(path: str) -> bool:
    """Nobody asks a URL, which may have no folders at all: it says so by its slash."""
    return path.endswith("/") or os.path.isdir(path)


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


def _work(ctx: click.Context, run: Run, progress: Progress, options: RunOptions) -> None:
    told: set[str] = set()
    # what a metric prints is no result
    with redirect_stdout(sys.stderr), summing_up(ctx, progress, options):
        try:
            for result in run.results():
                _count(progress, result)
                _tell_warnings(run, told)
        finally:
            _tell_warnings(run, told)
            _summarise(run, progress)


def _count(progress: Progress, result: Result) -> None:
    failure = result.failure
    if failure and not progress.failed:
        progress.note(f"the first failure: {failure['file']}:{failure['line']}: "
                      f"{failure['reason']}")
    progress.count(**{name: n for name, n in result.counts.items() if name in _SHOWN})
    progress.advance(failed=failure is not None)


def _tell_warnings(run: Run, told: set[str]) -> None:
    """Each once, whichever worker it came from."""
    while run.warnings:
        message = run.warnings.pop(0)
        if message not in told:
            told.add(message)
            warnings.warn(message, stacklevel=2)


@contextmanager
def summing_up(ctx: click.Context, progress: Progress, options: RunOptions) -> Iterator[None]:
    """Show how far the work is, and say how much was done, however it ends."""
    output = options.output
    try:
        with progress_listener(progress.stage):
            yield
    except KeyboardInterrupt as stop:
        where = "standard output" if output == "-" else remote.shown(output)
        hint = "" if options.is_stream else "; --resume goes on"
        click.echo(f"\nminrisk: interrupted; segments in {where}: {progress.done}{hint}", err=True)
        if type(stop) is not KeyboardInterrupt:  # SIGTERM
            raise
        ctx.exit(130)
    except MinriskError:
        progress.finish()
        if progress.done and not options.is_stream:
            progress.note(f"{progress.done} finished segments are kept; --resume goes on")
        raise
    progress.finish()


def _summarise(run: Run, progress: Progress) -> None:
    """Where the time went, if there was more than one worker."""
    if isinstance(run.runner, Inline) or not run.seconds:
        return
    busy = _utilisation(run, progress)
    stages = [f"{name} {seconds:.1f} s" for name, seconds in run.seconds.items()]
    shares = [f"{pool.workers} workers for {pool.name} were busy {busy[pool.name]:.0%} of the time"
              for pool in run.pools if pool.name in busy]
    progress.note("; ".join([", ".join(stages), *shares]))


def _utilisation(run: Run, progress: Progress) -> dict[str, float]:
    return {pool.name: sum(run.seconds.get(stage.name, 0.0) for stage in pool.stages)
            / (pool.workers * progress.seconds) for pool in run.pools if pool.workers}


def _report(options: RunOptions, run: Run, progress: Progress, signatures: Sequence[str]) -> None:
    is_finished = not list(run.sink.remaining())
    found = {
        "signatures": list(signatures),
        "engine": run.runner.name,
        "workers": {pool.name: pool.workers for pool in run.pools},
        "threads": {pool.name: pool.threads for pool in run.pools},
        "this_run": {"segments": progress.done, "failed": progress.failed, **progress.counts,
                     "seconds": progress.seconds, "shards_broken": len(run.broken)},
        "output": {**run.sink.counts, "is_finished": is_finished},
        "seconds_of_stages": dict(run.seconds),
        "utilisation": _utilisation(run, progress),
        "driver_peak_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
    }
    with Output(options.report or "-") as output:
        output.write(json.dumps(found, indent=1, ensure_ascii=False) + "\n")
