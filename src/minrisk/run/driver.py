"""The driver of a run: from a job to shards, a sink and workers, and from results to the output.

The sink knows which shards and records are unfinished; an engine computes their results.
"""

from __future__ import annotations

import os
from array import array
from collections import defaultdict
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import groupby
from operator import attrgetter
from time import perf_counter
from typing import Any

from minrisk._core.errors import InputError, MinriskError, Wording, warn
from minrisk.io import remote
from minrisk.io.files import Output, as_input_error, file_key
from minrisk.io.inputs import ERRORS, MANIFEST, InputFile
from minrisk.io.outputs import (
    MISSING,
    MatrixWriter,
    QueueSink,
    Shard,
    Sink,
    StreamSink,
    UnfinishedShard,
    Writable,
    count_records,
    folder_shards,
)
from minrisk.io.records import Reader, Record, Result, ShardedReader
from minrisk.io.run_store import RunStore, manifest_name
from minrisk.io.writers import Writer
from minrisk.run.options import RunOptions, names_folder
from minrisk.run.stages import BATCH, Map, collect, parsed
from minrisk.run.workers import (
    Block,
    End,
    Engine,
    FatalItem,
    ShardReader,
    WorkerPool,
)
from minrisk.version import __version__

MAX_FAILURES_BEFORE_SUCCESS = 16  # then the run stops: the cause probably affects all segments


@dataclass(frozen=True)
class Job:
    """The inputs and the stages of a run, for any output."""

    files: Sequence[InputFile]
    reader: ShardedReader
    pools: Sequence[WorkerPool]  # the first parses records, too, and the last renders them
    settings: Mapping[str, Any]  # those that can change a result
    signatures: Sequence[str]
    writer: Writer
    make: Callable[[Record], Any] | None = None  # without an output: objects instead of lines
    block: int = BATCH  # maximum number of records sent to a worker at once
    matrix: str | None = None  # file or folder for the matrices of scores
    parser: Reader | None = None  # parses records in workers; default: the reader
    also_read: Sequence[InputFile] = ()  # further files whose content can change a result
    stream: Writable | None = None  # replaces standard output
    is_streaming: bool = False  # a server does the work: a folder needs no worker processes


@contextmanager
def open_run(options: RunOptions, job: Job, read: Sequence[str] = (),
             written: Sequence[str] = ()) -> Iterator[Run]:
    """Open the output of a run; it is complete afterwards, or can be resumed.

    Args:
        options: the output and the options of the run.
        job: the inputs and the stages.
        read, written: further files of the caller, which must not be files of the run.
    """
    shards = (folder_shards(job.files, job.reader.shards(), job.writer.format)
              if options.is_folder else [Shard("", tuple(job.files), job.reader)])
    _check_files(options, job, shards, read, written)
    pools = [*job.pools]
    parse = Map("parse", partial(parsed, job.parser or shards[0].reader))
    pools[0] = replace(pools[0], stages=(parse, *pools[0].stages))
    last = options.write(job.writer) if job.make is None else collect(job.make)
    pools[-1] = replace(pools[-1], stages=(*pools[-1].stages, last))
    with ExitStack() as stack:
        sink: Sink = stack.enter_context(_sink(options, job, shards, stack))
        yield Run(sink, pools, options.make_engine(job.is_streaming), options,
                  options.batch_size or job.block)


def _check_files(options: RunOptions, job: Job, shards: Sequence[Shard], read: Sequence[str],
                 written: Sequence[str]) -> None:
    """Check that no output is an input, and that all outputs are different, writable files."""
    if job.matrix == "-":
        raise InputError(Wording("matrix= needs a file: an .npz cannot be written to standard "
                                 "output"))
    outputs: list[str] = []
    if options.is_folder:
        names = [shard.name for shard in shards]
        outputs = [os.path.join(str(options.output), name) for name in (*names, MANIFEST, ERRORS)]
    elif options.output is not None:
        names = [options.output]
        outputs = names if options.is_stream else [options.output, manifest_name(options.output)]
    else:
        names = []
    others = [path for path in (job.matrix, *written) if path]
    for path in others:
        if path != "-" and os.path.realpath(path) in [os.path.realpath(output)
                                                      for output in outputs if output != "-"]:
            raise InputError(f"{path} is also part of the output; name another file")
    check_files([*(file.location for file in (*job.files, *job.also_read)), *read],
                [*outputs, *others])
    for name in names:
        job.writer.format.named(name)


def check_files(read: Sequence[str], written: Sequence[str]) -> None:
    """Check that standard input is read only once, and that no input is overwritten."""
    if list(read).count("-") > 1:
        raise InputError("standard input was given more than once; give it once")
    keys = {file_key(path, "stdin"): path for path in read}
    for output in written:
        key = file_key(output, "stdout")
        if key is not None and key in keys:
            raise InputError(f"the output is the input {remote.redact_url(keys[key])}; "
                             "write to another file")


def _sink(options: RunOptions, job: Job, shards: list[Shard], stack: ExitStack) -> Any:
    matrix, header = job.matrix, job.writer.format.header(job.writer.columns)
    if options.output is None:
        return QueueSink(shards[0])
    if options.is_stream:
        output = job.stream or stack.enter_context(Output(options.output))
        return StreamSink(output, shards[0], MatrixWriter(matrix) if matrix else None, header)
    if matrix and options.is_folder != names_folder(matrix):
        raise InputError(Wording("matrix= must be a folder if output= is a folder, and a file "
                                 "otherwise"))
    identities = {f"input {file.name}": file.identity()
                  for file in (*job.files, *job.also_read)}
    settings = {**job.settings, "matrix": matrix, **identities, "version": __version__}
    return RunStore(options.output, options.work, shards, settings, is_folder=options.is_folder,
                    format=job.writer.format, header=header, resume=options.resume,
                    overwrite=options.overwrite,
                    matrix_of=partial(_matrix, matrix) if matrix else None)


def _matrix(path: str, shard: Shard) -> MatrixWriter:
    if not names_folder(path):
        return MatrixWriter(path)
    file = os.path.join(path, f"{shard.name}.npz")
    with as_input_error("write", file):
        os.makedirs(os.path.dirname(file), exist_ok=True)
    return MatrixWriter(file)


@dataclass
class Run:
    """One run, with its times, warnings and broken shards."""

    sink: Sink
    pools: Sequence[WorkerPool]  # after the start, with their actual numbers of workers
    engine: Engine
    options: RunOptions
    block: int  # maximum number of records sent to a worker at once
    broken: dict[int, str] = field(default_factory=dict)  # read errors, by shard
    # by stage, summed over workers
    seconds: dict[str, float] = field(default_factory=partial(defaultdict, float))
    read: dict[int, int] = field(default_factory=dict)  # bytes, by shard
    _error: InputError | None = None  # ends the run after the results in flight are written
    _has_success: bool = False
    # failures before the first success, by shard and index
    _held: dict[tuple[int, int], Result] = field(default_factory=dict)
    _totals: dict[int, int] = field(default_factory=dict)  # records, by fully read shard
    _warnings: set[str] = field(default_factory=set)  # of workers, already shown

    def expected(self) -> int | None:
        """The number of results of this run; None if its inputs cannot be counted quickly."""
        remaining = list(self.sink.remaining())
        count = count_records([unfinished.shard for unfinished in remaining])
        return None if count is None else count - sum(
            len(shard.done) - shard.done.count(MISSING) for shard in remaining)

    def results(self) -> Generator[Result]:
        """The results, as they are written. The sink must be open."""
        remaining = len(list(self.sink.remaining()))
        if not remaining:
            return
        self._has_success = bool(self.sink.counts["segments"])
        with self.engine.start(self.pools) as self.pools:
            self.sink.begin()
            with closing(self.engine.results(self)) as items:  # type: ignore[type-var]
                for item in items:
                    if isinstance(item, FatalItem):
                        raise item.error
                    if isinstance(item, End):
                        self._end(item)
                    else:
                        yield from self._write_block(item)
        if self._error:
            raise self._error
        if self.unfinished():
            raise MinriskError(Wording("engine={name!r} returned no result for some segments; "
                                       "resume the run", name=self.engine.name))
        if self._held:
            raise InputError(self._held_reason("all {} segments failed"))
        if len(self.broken) == remaining and not self._has_success:
            raise InputError(next(iter(self.broken.values())))

    # the interface for engines (`Work`)

    def unfinished(self, block: int | None = None) -> list[ShardReader]:
        # every worker processes one block while another waits for it
        size = self.options.memory // (2 * sum(pool.workers or 1 for pool in self.pools) + 2)
        shards = [self._with_held(shard) if self._held else shard
                  for shard in self.sink.remaining() if shard.number not in self.broken]
        # asked before reading, for pipes cannot be read again
        return [ShardReader(shard, block or self.block, size) for shard in shards
                if len(shard.done) != self._totals.get(shard.number) or MISSING in shard.done]

    def is_over(self) -> bool:
        return self._error is not None

    def is_full(self) -> bool:
        return self.sink.is_full(self.options.memory)

    # results

    def _with_held(self, shard: UnfinishedShard) -> UnfinishedShard:
        """The shard, with failures that are held back marked as done."""
        done = array("q", shard.done)
        for failure in (held for held in self._held.values() if held.shard == shard.number):
            done.extend([MISSING] * (failure.index + 1 - len(done)))
            done[failure.index] = failure.checksum
        return shard._replace(done=done)

    def _write_block(self, block: Block) -> Iterator[Result]:
        for name, spent in block.seconds.items():
            self.seconds[name] += spent
        fresh: list[Result] = []
        if results := self._accepted(block.items):
            start = perf_counter()
            for shard, of_shard in groupby(results, attrgetter("shard")):
                fresh += self.sink.add(shard, list(of_shard))
            self.seconds["write"] += perf_counter() - start
            self.read[block.shard] = max(block.read, self.read.get(block.shard, 0))
        for message in block.warnings:  # each once, even if several workers raise it
            if message not in self._warnings:
                self._warnings.add(message)
                warn(message)
        yield from fresh

    def _accepted(self, results: Sequence[Result]) -> list[Result]:
        """The results to write now; other failures are retried when the run is resumed."""
        accepted = []
        for result in results:
            if result.failure is None:
                self._has_success = True
            elif self.options.on_error == "stop":
                self._stop(result.message)
                continue
            accepted.append(result)
        if not self._has_success:
            self._hold(accepted)
            return []
        accepted, self._held = [*self._held.values(), *accepted], {}
        limit = self.options.max_errors
        return accepted if limit is None else self._within_limit(accepted, limit)

    def _hold(self, failures: list[Result]) -> None:
        """Hold back failures before the first success: their cause may affect all segments."""
        self._held |= {(failure.shard, failure.index): failure for failure in failures}
        if len(self._held) >= MAX_FAILURES_BEFORE_SUCCESS:
            self._stop(self._held_reason("the first {} segments all failed"))

    def _held_reason(self, extent: str) -> str:
        """The first failure, and how many segments failed if there are several."""
        first, *others = self._held.values()
        return f"{first.message}; {extent.format(len(self._held))}" if others else first.message

    def _within_limit(self, results: list[Result], limit: int) -> list[Result]:
        failures = [r for r in results if r.failure is not None]
        failed = self.sink.counts["failed"] + len(failures)
        if failures and failed > limit:
            self._stop(Wording("{failed} segments failed, more than max_errors={limit}; the last: "
                               "{last}", failed=failed, limit=limit, last=failures[-1].message))
            return [r for r in results if r.failure is None]
        return results

    def _stop(self, reason: str) -> None:
        self._error = self._error or InputError(reason)

    def _end(self, end: End) -> None:
        if end.error is None:
            self._totals[end.shard] = end.records
            start = perf_counter()
            self.sink.end(end.shard, end.records)
            self.seconds["write"] += perf_counter() - start
        elif self.options.on_error == "stop" or end.is_fatal or not self.sink.records_broken_shards:
            self._stop(end.error)
        else:
            self.broken[end.shard] = end.error
            self.sink.fail(end.shard, end.error)
