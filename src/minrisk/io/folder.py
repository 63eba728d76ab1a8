"""A folder of shards that outlives its process: nothing in it is lost, and nothing is there twice.

    manifest.json      how it was made, of which inputs, and which shards are finished
    NAME               a finished shard, whole
    NAME.partial       the blocks of a shard that is not finished
    errors.jsonl       the segments that failed: file, line, id and reason
"""

from __future__ import annotations

import fcntl
import json
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from typing import Any, Self

from minrisk.errors import InputError
from minrisk.io.files import Input, Output, put_in_place, told
from minrisk.io.growing import Growing
from minrisk.io.manifest import Manifest
from minrisk.io.shards import ERRORS, Shard, identity
from minrisk.io.writer import json_line

_LOCK = ".lock"
Failure = dict[str, Any]  # file, line, id, reason


class Folder:
    """Gets blocks in any order, and puts every shard together when all of its blocks are there."""

    def __init__(self, path: str, shards: Sequence[Shard], made: Mapping[str, Any],
                 resume: bool = False) -> None:
        self._path = path
        self._shards = shards
        self._growing: dict[int, Growing] = {}
        self._totals: dict[int, int] = {}  # segments of the shards that were read to their end
        self._counts: dict[int, Counter[str]] = {}
        with told("write", path):
            os.makedirs(path, exist_ok=True)
        with ExitStack() as stack:  # closed here if anything is wrong
            stack.enter_context(_locked(os.path.join(path, _LOCK)))
            self._manifest = Manifest(path, {**made, **_inputs(shards)}, resume)
            stack.callback(self._close_growing)
            self._take_up_all()
            self._errors = stack.enter_context(Output(self._errors_path, append=True))
            self._open = stack.pop_all()

    @property
    def is_finished(self) -> bool:
        return all(map(self._has, self._shards))

    @property
    def counts(self) -> Counter[str]:
        """Of everything in the folder, from earlier runs too."""
        return sum((Counter(found) for found in [*self._manifest.finished.values(),
                                                 *self._counts.values()]), Counter())

    def remaining(self) -> Iterator[tuple[int, Shard, list[tuple[int, int]]]]:
        """The shards that are not finished, by number, with the segments of them that are."""
        for number, shard in enumerate(self._shards):
            if not self._has(shard):
                growing = self._growing.get(number)
                yield number, shard, growing.spans if growing else []

    def add(self, number: int, start: int, segments: int, text: str, counts: Mapping[str, int],
            failures: Sequence[Failure]) -> bool:
        """Keep what was made of consecutive segments; False where that was there already."""
        entry = {"start": start, "segments": segments, "text": text, "counts": dict(counts),
                 "failures": list(failures)}
        added = self._grow(number).add(entry)
        if added:
            self._count(number, entry)
            self._record(failures)
            self._put_together(number)
        return added

    def end(self, number: int, segments: int) -> None:
        """The shard has so many segments."""
        self._totals[number] = segments
        self._put_together(number)

    def fail(self, number: int, reason: str) -> None:
        """The shard cannot be read to its end; another run will try again."""
        self._record([{"file": self._shards[number].path, "line": None, "id": None,
                       "reason": reason}])

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    def _close_growing(self) -> None:
        for growing in self._growing.values():
            growing.close()

    def _take_up_all(self) -> None:
        """Take up what an earlier run left, and tidy where it was torn from its work."""
        for number, shard in enumerate(self._shards):
            path = self._place(number)
            if not os.path.exists(path):  # if it was finished, somebody wants it made again
                self._manifest.finished.pop(shard.output, None)
            if Growing.is_there(path):
                self._take_up(number)
            elif os.path.exists(path) and not self._has(shard):
                raise InputError(f"{path} exists, and is of no earlier run; "
                                 "remove it, or name another folder")
        self._tidy_errors()

    def _take_up(self, number: int) -> None:
        growing = self._grow(number)
        if self._has(self._shards[number]):
            self._forget(number)
        else:
            for entry in growing.entries():
                self._count(number, entry)

    def _has(self, shard: Shard) -> bool:
        return shard.output in self._manifest.finished

    def _forget(self, number: int) -> None:
        self._growing.pop(number).forget()
        del self._counts[number]

    def _grow(self, number: int) -> Growing:
        if number not in self._growing:
            self._growing[number] = Growing(self._place(number))
            self._counts[number] = Counter()
        return self._growing[number]

    def _count(self, number: int, entry: Mapping[str, Any]) -> None:
        self._counts[number].update(entry["counts"])
        self._counts[number].update(segments=entry["segments"], failed=len(entry["failures"]))

    def _put_together(self, number: int) -> None:
        if self._has(self._shards[number]):  # it was read to its end before
            return
        growing = self._grow(number)  # there may be no segments at all
        if growing.segments == self._totals.get(number):
            growing.finish()
            self._manifest.finish(self._shards[number].output, dict(self._counts[number]))
            self._forget(number)

    def _record(self, failures: Iterable[Failure]) -> None:
        self._errors.write("".join(map(json_line, failures)))

    def _tidy_errors(self) -> None:
        """The errors of finished shards, then those of blocks; others will come again."""
        path = self._errors_path
        finished = {shard.path for shard in self._shards if self._has(shard)}
        fresh = f"{path}.fresh"
        with Output(fresh) as output:
            for failure in _whole(path):
                if failure["file"] in finished:
                    output.write(json_line(failure))
            for growing in self._growing.values():
                for entry in growing.entries():
                    output.write("".join(map(json_line, entry["failures"])))
        put_in_place(fresh, path)

    @property
    def _errors_path(self) -> str:
        return os.path.join(self._path, ERRORS)

    def _place(self, number: int) -> str:
        return os.path.join(self._path, self._shards[number].output)


def _inputs(shards: Iterable[Shard]) -> dict[str, str]:
    return {f"input {shard.path}": identity(shard.path) for shard in shards}


def _whole(path: str) -> Iterator[Failure]:
    if os.path.exists(path):
        for line in Input(path):
            with suppress(ValueError):  # torn
                yield json.loads(line)


@contextmanager
def _locked(path: str) -> Iterator[None]:
    """Two runs in one folder would undo each other's work; the lock ends with its process."""
    with told("write", path):
        stream = open(path, "ab")  # noqa: SIM115 - closed below
    with stream:
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise InputError(f"another run is writing to {os.path.dirname(path)}; "
                             "wait for it, or name another folder") from None
        yield
