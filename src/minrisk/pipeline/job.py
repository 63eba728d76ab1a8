"""From settings to a run: inputs become shards, the output a sink, and stages worker pools."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, Literal

from minrisk._core.errors import InputError
from minrisk._core.options import Options, option
from minrisk.io import remote
from minrisk.io.files import Output, as_input_error, file_key
from minrisk.io.inputs import ERRORS, MANIFEST, InputFile
from minrisk.io.matrices import MatrixWriter
from minrisk.io.record import Reader
from minrisk.io.run_store import RunStore, manifest_name
from minrisk.io.shards import Shard, folder_shards
from minrisk.io.sink import QueueSink, Sink, StreamSink, Writable
from minrisk.pipeline.batches import BATCH, OnError
from minrisk.pipeline.processes import Processes
from minrisk.pipeline.run import Policy, Run
from minrisk.pipeline.runner import Inline, Runner
from minrisk.pipeline.stages import Parse, Stage
from minrisk.pipeline.workers import WorkerPool
from minrisk.version import __version__

_GB = 1 << 30


@dataclass(frozen=True)
class RunConfig(Options):
    """Settings of a run: the output, the workers, and the treatment of failures."""

    name: ClassVar[str] = "run"  # in messages

    output: str | None = option(None, help="file or folder for results; a queue unless given")
    resume: bool = option(False, help="whether to resume an interrupted run")
    overwrite: bool = option(False, help="whether to replace an output that exists")
    on_error: OnError = option("skip", help="action after a segment fails")
    max_errors: int | None = option(None, ge=0, help="number of failures after which a run stops")
    batch_size: int | None = option(None, ge=1, help="number of segments per batch")
    threads: int | None = option(None, ge=1, le=1024, help="number of threads of each process")
    segment_timeout: float | None = option(None, gt=0, help="seconds after which a segment fails")
    workers: int | None = option(None, ge=1, help="number of worker processes")
    engine: Literal["local", "ray"] | None = option(None, help="runner: this machine, or Ray")
    address: str | None = option(None, help="address of a Ray cluster")
    gpus_per_worker: float | None = option(None, ge=0, help="number of GPUs of each worker")
    buffer: float = option(1.0, gt=0, help="gigabytes of segments that may be in memory")
    work: str | None = option(None, help="local folder for unfinished results of a URL")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.resume and self.overwrite:
            raise InputError("resume= and overwrite= exclude each other; give one")
        if self.is_stream and (self.resume or self.overwrite):
            name = "resume" if self.resume else "overwrite"
            raise InputError(f"{name}= needs output= to be a file or folder")
        if self.address and self.engine != "ray":
            raise InputError("address= is of a Ray cluster; give engine='ray'")

    @property
    def is_folder(self) -> bool:
        return self.output is not None and names_folder(self.output)

    @property
    def is_stream(self) -> bool:
        """A queue, standard output, a pipe or a device, which cannot be read again."""
        if self.output in (None, "-"):
            return True
        assert self.output is not None
        return (not remote.is_url(self.output) and os.path.exists(self.output)
                and not self.is_folder and not stat.S_ISREG(os.stat(self.output).st_mode))

    @property
    def memory(self) -> int:
        return int(self.buffer * _GB)

    def runner(self, work: Work) -> Runner:
        """The runner: this process, unless workers or an engine are given."""
        if self.engine == "ray":
            from minrisk.pipeline.ray import Ray  # here, because it is an extra and slow to import

            return Ray(self.address, self.memory)
        return Processes() if self.wants_workers(work) else Inline()

    def wants_workers(self, work: Work) -> bool:
        return bool(self.workers or self.engine or self.segment_timeout or self.gpus_per_worker)

    def pool(self, *stages: Stage, gpus: bool = True) -> WorkerPool:
        return WorkerPool(stages, self.workers, self.threads,
                          (self.gpus_per_worker or 0.0) if gpus else 0.0,
                          segment_timeout=self.segment_timeout)


@dataclass(frozen=True)
class Work:
    """The inputs and the stages of a run, for any output."""

    files: Sequence[InputFile]
    # called with files and the number of their shard, or None for all files
    reader: Callable[[tuple[InputFile, ...], int | None], Reader]
    pools: Sequence[WorkerPool]  # the first parses records, too
    settings: Mapping[str, Any]  # only those that can change a result
    signatures: Sequence[str]
    extension: str = ".jsonl"
    block: int = BATCH  # maximum number of records that a worker gets together
    matrix: str | None = None
    parser: Reader | None = None  # sent to workers to parse records; the reader unless given
    also_read: Sequence[InputFile] = ()  # further files whose content can change a result
    stream: Writable | None = None  # replaces standard output
    is_streaming: bool = False  # a server does the work, and no request waits for another


@contextmanager
def open_run(config: RunConfig, work: Work, read: Sequence[str] = (),
             written: Sequence[str] = ()) -> Iterator[Run]:
    """Open the output of a run; it is complete afterwards, or can be resumed.

    Args:
        config: the output, and how the run works.
        work: the inputs and the stages.
        read, written: further files of the caller, which must not be files of the run.
    """
    shards = _shards(config, work)
    _check_files(config, work, shards, read, written)
    with ExitStack() as stack:
        sink: Sink = stack.enter_context(_sink(config, work, shards, stack))
        yield Run(sink, _with_parser(work.pools, work.parser or shards[0].reader),
                  config.runner(work),
                  Policy(config.batch_size or work.block, config.memory, config.on_error,
                         config.max_errors))


def _with_parser(pools: Sequence[WorkerPool], reader: Reader) -> list[WorkerPool]:
    first, *others = pools
    return [replace(first, stages=(Parse(reader), *first.stages)), *others]


def names_folder(path: str) -> bool:
    """Whether a path is a folder; a URL is one if it ends in a slash."""
    return path.endswith("/") or os.path.isdir(path)


def _shards(config: RunConfig, work: Work) -> list[Shard]:
    if config.is_folder:
        paths = [file.location if remote.is_url(file.location) else file.name
                 for file in work.files]
        if not paths:
            raise InputError("a folder as output needs files as input, a shard for each; for "
                             "segments in memory, name a file")
        return folder_shards(paths, work.extension, lambda n, file: work.reader((file,), n))
    return [Shard("", tuple(work.files), work.reader(tuple(work.files), None))]


def _check_files(config: RunConfig, work: Work, shards: Sequence[Shard], read: Sequence[str],
                 written: Sequence[str]) -> None:
    """Check before the run that no output is an input, and that all outputs are different."""
    if work.matrix == "-":
        raise InputError("matrix= needs a file; standard output takes no .npz")
    outputs = list(_outputs(config, shards))
    others = [path for path in (work.matrix, *written) if path]
    for path in others:
        if path != "-" and os.path.realpath(path) in [os.path.realpath(output)
                                                      for output in outputs if output != "-"]:
            raise InputError(f"{path} is part of the output; name two files")
    check_files([*(file.location for file in (*work.files, *work.also_read)), *read],
                [*outputs, *others])


def check_files(read: Sequence[str], written: Sequence[str]) -> None:
    """Check that nothing is read twice, or destroyed before it is read."""
    if list(read).count("-") > 1:
        raise InputError("standard input was given more than once; it can be read only once")
    keys = {file_key(path, "stdin"): path for path in read}
    for output in written:
        key = file_key(output, "stdout")
        if key is not None and key in keys:
            raise InputError(f"the output is the input {remote.shown(keys[key])}; "
                             "write to another file")


def _outputs(config: RunConfig, shards: Sequence[Shard]) -> Iterable[str]:
    """All files of the output, with its manifest and list of errors."""
    if config.output is None:
        return []
    if config.is_folder:
        names = [*(shard.name for shard in shards), MANIFEST, ERRORS]
        return [os.path.join(config.output, name) for name in names]
    return [config.output, *([] if config.is_stream else [manifest_name(config.output)])]


def _sink(config: RunConfig, work: Work, shards: list[Shard], stack: ExitStack) -> Any:
    matrix = work.matrix
    if config.output is None:
        return QueueSink(shards[0])
    if config.is_stream:
        output = work.stream or stack.enter_context(Output(config.output))
        return StreamSink(output, shards[0], MatrixWriter(matrix) if matrix else None)
    if matrix and config.is_folder != names_folder(matrix):
        raise InputError("matrix= must be a folder if output= is a folder, and a file otherwise")
    identities = {f"input {file.name}": file.identity()
                  for file in (*work.files, *work.also_read)}
    settings = {**work.settings, "matrix": matrix, **identities, "version": __version__}
    common: dict[str, Any] = {"resume": config.resume, "overwrite": config.overwrite,
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
