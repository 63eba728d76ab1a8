"""Outputs of a run: shards, the `Sink` protocol, ordered streams, and score matrices."""

from __future__ import annotations

import os
import shutil
from array import array
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence, Sized
from copy import copy
from dataclasses import dataclass
from typing import NamedTuple, Protocol, Self

import numpy as np

from minrisk._core.arrays import Floats
from minrisk._core.errors import InputError, MinriskError
from minrisk.io import remote
from minrisk.io.files import as_input_error, replace_file
from minrisk.io.formats import OutputFormat, renamed
from minrisk.io.inputs import ERRORS, MANIFEST, WORK, InputFile
from minrisk.io.records import Reader, Result

MISSING = -1  # in place of the checksum of a record without a result
MAX_WAITING_RESULTS = 1024  # results that may wait for an earlier one
_COUNTED_BYTES = 1 << 22  # bytes of all inputs up to which counting their records is quick


@dataclass(frozen=True)
class Shard:
    """One output file, and the reader of its records."""

    name: str  # path relative to the output folder
    files: tuple[InputFile, ...]
    reader: Reader


def folder_shards(files: Sequence[InputFile], readers: Sequence[Reader],
                  format: OutputFormat) -> list[Shard]:
    """One shard per input, named by its path relative to the inputs' common folder."""
    for file in files:
        if not file.can_be_read_again:
            raise InputError(f"{'standard input' if file.location == '-' else file.name}: a folder "
                             "as output needs files as input, which can be read again; found a "
                             "pipe: write to one file, or save the input first")
    below = [_below_root(file) for file in files]
    common = os.path.commonpath([os.path.dirname(path) for path in below])
    made: dict[str, str] = {ERRORS: "the list of errors", MANIFEST: "the manifest"}
    shards = []
    for file, reader, path in zip(files, readers, below, strict=True):
        name = renamed(os.path.relpath(path, common), format)
        if name in made or name.split("/")[0] == WORK:
            raise InputError(f"{made.get(name, 'the working folder')} and {file.name} would both "
                             f"become {name}; rename one of them, or write to two folders")
        made[name] = file.name
        shards.append(Shard(name, (file,), reader))
    return shards


def count_records(shards: Sequence[Shard]) -> int | None:
    """The number of records of the shards; None if counting would take long or is impossible."""
    sizes = [None if remote.is_url(file.location) else file.open().size
             for shard in shards for file in shard.files]
    if None in sizes or sum(filter(None, sizes)) > _COUNTED_BYTES:
        counts = [getattr(shard.reader, "limit", None) for shard in shards]
    else:
        counts = [_count(shard) for shard in shards]
    return None if None in counts else sum(filter(None, counts))


def _count(shard: Shard) -> int | None:
    if not shard.files:
        objects = getattr(shard.reader, "objects", None)
        return len(objects) if isinstance(objects, Sized) else None
    reader = copy(shard.reader)  # counting must not change the state of the reader
    try:
        return sum(1 for _ in reader.records(reader.open()))
    except MinriskError:  # the run will report it
        return None


def _below_root(file: InputFile) -> str:
    """The path of a file; for a URL, the part between protocol and query."""
    if not remote.is_url(file.location):
        return file.location
    return "/" + file.name.partition("://")[2].partition("?")[0]


class UnfinishedShard(NamedTuple):
    """A shard with unfinished records."""

    number: int
    shard: Shard
    done: Sequence[int]  # checksum of each finished record, MISSING for the others


class Sink(Protocol):
    """An output, which receives the results of a run in any order."""

    @property
    def records_broken_shards(self) -> bool:
        """Whether it can record an unreadable shard; otherwise such a shard ends the run."""

    @property
    def counts(self) -> Mapping[str, int]:
        """Counts of all results in the output, including those of earlier runs."""

    def is_full(self, memory: int) -> bool:
        """Whether reading should pause, because too many results wait for an earlier one.

        `memory` is the limit in bytes for all segments in flight.
        """

    def remaining(self) -> Iterator[UnfinishedShard]: ...

    def begin(self) -> None:
        """Start writing: from now on, the output of an earlier run may be replaced."""

    def add(self, number: int, results: Sequence[Result]) -> list[Result]:
        """Write results of a shard; returns those that are new."""

    def end(self, number: int, records: int) -> None:
        """Note that a shard has been read completely, with this number of records."""

    def fail(self, number: int, reason: str) -> None:
        """Note that a shard cannot be read to its end."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...


class Writable(Protocol):
    def write(self, text: str, /) -> object: ...


class OrderedSink:
    """Emits results in input order, each as soon as all earlier ones are there."""

    records_broken_shards = False

    def __init__(self, emit: Callable[[Result], object], shard: Shard,
                 matrices: MatrixWriter | None = None) -> None:
        self._emit = emit
        self._shard = shard
        self._matrices = matrices
        self._waiting: dict[int, Result] = {}
        self._next = 0
        self._total: int | None = None
        self._done = array("q")
        self._backlog = 0  # bytes of waiting results
        self.counts: Counter[str] = Counter()

    @property
    def waiting(self) -> int:
        """Number of results that wait for an earlier one."""
        return len(self._waiting)

    def is_full(self, memory: int) -> bool:
        return self._backlog > memory // 2

    def remaining(self) -> Iterator[UnfinishedShard]:
        if self._next != self._total:
            yield UnfinishedShard(0, self._shard, self._done)

    def begin(self) -> None:
        if self._matrices:
            self._matrices.begin()

    def add(self, number: int, results: Sequence[Result]) -> list[Result]:
        fresh = [r for r in results if r.index >= self._next and r.index not in self._waiting]
        for result in fresh:
            self._waiting[result.index] = result
            self._done.extend([MISSING] * (result.index + 1 - len(self._done)))
            self._done[result.index] = result.checksum
            self._backlog += len(result.text)
            self.counts.update(result.counts)
            self.counts.update(segments=1, failed=result.failure is not None)
        while (ready := self._waiting.pop(self._next, None)) is not None:
            self._next += 1
            self._backlog -= len(ready.text)
            if ready.scores is not None and self._matrices:
                self._matrices.add(ready.index, ready.scores)
            self._emit(ready)
        return fresh

    def end(self, number: int, records: int) -> None:
        self._total = records

    def fail(self, number: int, reason: str) -> None:
        """Nothing to do: earlier results are written, and the run reports the reason."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._matrices and self._next == self._total:
            self._matrices.pack()
            self._matrices.clean()


class StreamSink(OrderedSink):
    """Standard output, a pipe or a device."""

    def __init__(self, output: Writable, shard: Shard, matrices: MatrixWriter | None = None,
                 header: str = "") -> None:
        super().__init__(lambda result: output.write(result.text), shard, matrices)
        self._output, self._header = output, header

    def begin(self) -> None:
        super().begin()
        if self._header:
            self._output.write(self._header)


class QueueSink(OrderedSink):
    """A queue, for a caller that takes results as objects instead of text."""

    def __init__(self, shard: Shard) -> None:
        self.queue: deque[Result] = deque()
        super().__init__(self.queue.append, shard)

    def is_full(self, memory: int) -> bool:
        return self.waiting >= MAX_WAITING_RESULTS


class MatrixWriter:
    """Writes arrays to a folder beside the .npz file, and packs them when the run is finished.

    So the run can be resumed: an .npz file that was not closed would be unreadable.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        folder, name = os.path.split(path)
        self._parts = os.path.join(folder, f".{name}.minrisk")

    def begin(self, resume: bool = False) -> None:
        if os.path.islink(self._parts):
            raise InputError(f"{self._parts} is a link; remove it, or name another file")
        with as_input_error("write", self.path):
            if not resume:
                shutil.rmtree(self._parts, ignore_errors=True)
            if not os.path.isdir(self._parts):
                os.mkdir(self._parts)

    def add(self, index: int, matrix: Floats) -> None:
        with as_input_error("write", self.path), open(
                os.path.join(self._parts, f"{index}.npy"), "wb") as stream:
            np.lib.format.write_array(stream, matrix, allow_pickle=False)

    def pack(self) -> None:
        """Write the .npz file; segments that failed have no matrix."""
        import zipfile  # few runs need it

        temporary = os.path.join(self._parts, "npz")
        with as_input_error("write", self.path):
            names = sorted((n for n in os.listdir(self._parts) if n.endswith(".npy")),
                           key=lambda name: int(name.removesuffix(".npy")))
            with zipfile.ZipFile(temporary, "w") as archive:
                for name in names:
                    archive.write(os.path.join(self._parts, name), name)
        replace_file(temporary, self.path)

    def clean(self) -> None:
        """Remove the folder; the run can then not be resumed."""
        shutil.rmtree(self._parts, ignore_errors=True)
