"""From settings to a run: inputs become shards, the output a sink, and stages worker pools."""

from __future__ import annotations

import os
import signal
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal

from minrisk._core.errors import InputError, Wording
from minrisk._core.options import Options, flag
from minrisk._core.process import MAX_THREADS
from minrisk.io import remote
from minrisk.io.files import Output, as_input_error, file_key
from minrisk.io.formats import JSON_LINES, OutputFormat
from minrisk.io.inputs import ERRORS, MANIFEST, InputFile
from minrisk.io.outputs import (
    MatrixWriter,
    QueueSink,
    Shard,
    Sink,
    StreamSink,
    Writable,
    folder_shards,
)
from minrisk.io.records import Reader, ShardedReader
from minrisk.io.run_store import RunStore, manifest_name
from minrisk.io.writers import Writer
from minrisk.pipeline.batches import BATCH, OnError
from minrisk.pipeline.processes import Processes
from minrisk.pipeline.run import Policy, Run
from minrisk.pipeline.runner import Inline, Runner
from minrisk.pipeline.stages import Parse, Stage, Write
from minrisk.pipeline.workers import WorkerPool
from minrisk.version import __version__

THREADS_HELP = "Number of threads of each process; one per core unless given."
_GB = 1 << 30


@dataclass(frozen=True)
class WorkerConfig(Options):
    """The workers of a run."""

    workers: int | None = flag(
        None, metavar="W", ge=1,
        help="Number of worker processes; unless given, none for a file, and for a folder one per "
        "core, GPU or model.")
    engine: Literal["local", "ray"] | None = flag(
        None, help="Runner: processes of this machine, or a Ray cluster (minrisk[ray]).")
    address: str | None = flag(
        None, metavar="HOST:PORT", advanced=True,
        help="Address of a Ray cluster, or `auto` for the one that this machine is part of; unless "
        "given, Ray runs here for this run only.")
    gpus_per_worker: float | None = flag(None, metavar="G", ge=0, advanced=True,
                                         help="Number of GPUs of each worker; may be a fraction.")
    threads: int | None = flag(None, metavar="T", ge=1, le=MAX_THREADS, advanced=True,
                               help=THREADS_HELP)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.address and self.engine != "ray":
            raise InputError(Wording("address= is of a Ray cluster; give engine='ray'"))

    @property
    def memory(self) -> int:
        """Bytes of segments that may be in memory."""
        return _GB

    def runner(self, wants_workers: bool = False) -> Runner:
        """The runner: this process, unless workers are wanted."""
        if self.engine == "ray":
            from minrisk.pipeline.ray import Ray  # here, because it is an extra and slow to import

            return Ray(self.address, self.memory)
        is_given = self.workers or self.engine or self.gpus_per_worker
        return Processes() if is_given or wants_workers else Inline()

    def pool(self, *stages: Stage, gpus: bool = True) -> WorkerPool:
        return WorkerPool(stages, self.workers, self.threads,
                          (self.gpus_per_worker or 0.0) if gpus else 0.0)


@dataclass(frozen=True)
class RunConfig(WorkerConfig):
    """The options of a run: its output, its workers, and the treatment of failures."""

    output: str | None = None  # a file, a folder, or "-"; None for a queue
    resume: bool = flag(False, help="Resume an interrupted run; failed segments are tried again.")
    overwrite: bool = flag(False, help="Replace an output that exists.")
    on_error: OnError = flag(
        "skip", help="Action after a failed segment: stop, or write its error in its place.")
    max_errors: int | None = flag(None, metavar="N", ge=0, advanced=True,
                                  help="Number of failed segments after which a run stops.")
    batch_size: int | None = flag(
        None, metavar="B", ge=1, advanced=True,
        help="Number of segments per batch; chosen by the metric or the sampler unless given.")
    segment_timeout: float | None = flag(
        None, metavar="S", gt=0, advanced=True,
        help="Seconds after which a segment fails; it then runs in a worker process.")
    buffer: float = flag(1.0, metavar="GB", gt=0, advanced=True,
                         help="Gigabytes of segments that may be in memory at a time.")
    work: str | None = flag(
        None, metavar="FOLDER", advanced=True,
        help="Local scratch folder for unfinished results when the output is a URL; in the user's "
        "cache unless given.")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.segment_timeout is not None and not hasattr(signal, "setitimer"):
            raise InputError(Wording("segment_timeout= needs a system with interval timers, which "
                                     "Windows lacks; run without it"))
        if self.resume and self.overwrite:
            raise InputError(Wording("resume= and overwrite= exclude each other; give one"))
        if self.is_stream and (self.resume or self.overwrite):
            name = "resume" if self.resume else "overwrite"
            raise InputError(Wording(f"{name}= needs output= to be a file or folder"))

    @property
    def is_folder(self) -> bool:
        return self.output is not None and names_folder(self.output)

    @property
    def is_stream(self) -> bool:
        """A queue, standard output, a pipe or a device, which cannot be read again."""
        return self.output is None or is_stream(self.output)

    @property
    def memory(self) -> int:
        return int(self.buffer * _GB)

    def wants_workers(self, job: Job) -> bool:
        """Whether to start workers where no number of them is given."""
        return self.segment_timeout is not None

    def pool(self, *stages: Stage, gpus: bool = True) -> WorkerPool:
        return replace(super().pool(*stages, gpus=gpus), segment_timeout=self.segment_timeout)

    def write(self, writer: Writer) -> Write:
        """The stage that writes the output."""
        return Write(writer)


@dataclass(frozen=True)
class Job:
    """The inputs and the stages of a run, for any output."""

    files: Sequence[InputFile]
    reader: ShardedReader
    pools: Sequence[WorkerPool]  # the first parses records, too
    settings: Mapping[str, Any]  # only those that can change a result
    signatures: Sequence[str]
    format: OutputFormat = JSON_LINES
    columns: Sequence[str] = ()  # of a format that has them
    block: int = BATCH  # maximum number of records that a worker gets together
    matrix: str | None = None
    parser: Reader | None = None  # sent to workers to parse records; the reader unless given
    also_read: Sequence[InputFile] = ()  # further files whose content can change a result
    stream: Writable | None = None  # replaces standard output
    is_streaming: bool = False  # a server does the work, and no request waits for another


@contextmanager
def open_run(config: RunConfig, job: Job, read: Sequence[str] = (),
             written: Sequence[str] = ()) -> Iterator[Run]:
    """Open the output of a run; it is complete afterwards, or can be resumed.

    Args:
        config: the output, and how the run works.
        job: the inputs and the stages.
        read, written: further files of the caller, which must not be files of the run.
    """
    shards = _shards(config, job)
    _check_files(config, job, shards, read, written)
    _check_formats(job, shards if config.is_folder else [], config.output)
    with ExitStack() as stack:
        sink: Sink = stack.enter_context(_sink(config, job, shards, stack))
        yield Run(sink, _with_parser(job.pools, job.parser or shards[0].reader),
                  config.runner(config.wants_workers(job)),
                  Policy(config.batch_size or job.block, config.memory, config.on_error,
                         config.max_errors))


def _with_parser(pools: Sequence[WorkerPool], reader: Reader) -> list[WorkerPool]:
    first, *others = pools
    return [replace(first, stages=(Parse(reader), *first.stages)), *others]


def is_stream(path: str) -> bool:
    """Whether a path is standard output, a pipe or a device."""
    return path == "-" or (not remote.is_url(path) and os.path.exists(path)
                           and not names_folder(path)
                           and not stat.S_ISREG(os.stat(path).st_mode))


def names_folder(path: str) -> bool:
    """Whether a path is a folder; a URL is one if it ends in a slash."""
    return path.endswith("/") or os.path.isdir(path)


def _shards(config: RunConfig, job: Job) -> list[Shard]:
    if config.is_folder:
        return folder_shards(job.files, job.reader.shards(), job.format)
    return [Shard("", tuple(job.files), job.reader)]


def _check_files(config: RunConfig, job: Job, shards: Sequence[Shard], read: Sequence[str],
                 written: Sequence[str]) -> None:
    """Check before the run that no output is an input, and that all outputs are different."""
    if job.matrix == "-":
        raise InputError(Wording("matrix= needs a file; standard output takes no .npz"))
    outputs = list(_outputs(config, shards))
    others = [path for path in (job.matrix, *written) if path]
    for path in others:
        if path != "-" and os.path.realpath(path) in [os.path.realpath(output)
                                                      for output in outputs if output != "-"]:
            raise InputError(f"{path} is part of the output; name two files")
    check_files([*(file.location for file in (*job.files, *job.also_read)), *read],
                [*outputs, *others])


def _check_formats(job: Job, shards: Sequence[Shard], output: str | None) -> None:
    """Check that the outputs can have their names, and that their formats can be written."""
    for name in [*(shard.name for shard in shards), *([output] if output and not shards else [])]:
        job.format.named(name).check_installed()


def check_files(read: Sequence[str], written: Sequence[str]) -> None:
    """Check that nothing is read twice, or destroyed before it is read."""
    if list(read).count("-") > 1:
        raise InputError("standard input was given more than once; it can be read only once")
    keys = {file_key(path, "stdin"): path for path in read}
    for output in written:
        key = file_key(output, "stdout")
        if key is not None and key in keys:
            raise InputError(f"the output is the input {remote.redact_url(keys[key])}; "
                             "write to another file")


def _outputs(config: RunConfig, shards: Sequence[Shard]) -> Iterable[str]:
    """All files of the output, with its manifest and list of errors."""
    if config.output is None:
        return []
    if config.is_folder:
        names = [*(shard.name for shard in shards), MANIFEST, ERRORS]
        return [os.path.join(config.output, name) for name in names]
    return [config.output, *([] if config.is_stream else [manifest_name(config.output)])]


def _sink(config: RunConfig, job: Job, shards: list[Shard], stack: ExitStack) -> Any:
    matrix, header = job.matrix, job.format.header(job.columns)
    if config.output is None:
        return QueueSink(shards[0])
    if config.is_stream:
        output = job.stream or stack.enter_context(Output(config.output))
        return StreamSink(output, shards[0], MatrixWriter(matrix) if matrix else None, header)
    if matrix and config.is_folder != names_folder(matrix):
        raise InputError(Wording("matrix= must be a folder if output= is a folder, and a file "
                                 "otherwise"))
    identities = {f"input {file.name}": file.identity()
                  for file in (*job.files, *job.also_read)}
    settings = {**job.settings, "matrix": matrix, **identities, "version": __version__}
    common: dict[str, Any] = {"resume": config.resume, "overwrite": config.overwrite,
                              "format": job.format, "header": header,
                              "matrix_of": partial(_matrix, matrix) if matrix else None}
    if config.is_folder:
        return RunStore.folder(config.output, config.work, shards, settings, **common)
    return RunStore.file(config.output, config.work, shards[0], settings, **common)


def _matrix(path: str, shard: Shard) -> MatrixWriter:
    if not names_folder(path):
        return MatrixWriter(path)
    file = os.path.join(path, f"{shard.name}.npz")
    with as_input_error("write", file):
        os.makedirs(os.path.dirname(file), exist_ok=True)
    return MatrixWriter(file)
