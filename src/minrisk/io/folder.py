"""A folder of shards that outlives its process: nothing in it is lost, and nothing is there twice.

    manifest.json      how it was made, of which inputs, and which shards are finished
    NAME               a finished shard, whole
    NAME.partial       the blocks of a shard that is not finished
    errors.jsonl       the segments that failed: file, line, id and reason

Where the folder is a URL, partial files are in its working folder on this machine.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from typing import Any, Self

from minrisk.errors import InputError, MinriskError
from minrisk.io.files import Input, Output, put_in_place, told
from minrisk.io.growing import Growing
from minrisk.io.manifest import Manifest, another_run
from minrisk.io.place import Place
from minrisk.io.remote import shown
from minrisk.io.shards import ERRORS, Shard, identity
from minrisk.io.writer import json_line

_LOCK = ".lock"
Failure = dict[str, Any]  # file, line, id, reason


class Folder:
    """Gets blocks in any order, and puts every shard together when all of its blocks are there."""

    def __init__(self, place: Place, shards: Sequence[Shard], made: Mapping[str, Any],
                 resume: bool = False) -> None:
        self._place = place
        self._shards = shards
        self._growing: dict[int, Growing] = {}
        self._totals: dict[int, int] = {}  # segments of the shards that were read to their end
        self._counts: dict[int, Counter[str]] = {}
        with told("write", place.work):
            os.makedirs(place.work, exist_ok=True)
        with ExitStack() as stack:  # closed here if anything is wrong
            stack.enter_context(_locked(place))
            self._manifest = Manifest(place, {**made, **_inputs(shards)}, resume)
            stack.callback(self._close_growing)
            self._take_up_all()
            self._errors = stack.enter_context(Output(self._errors_path, append=True))
            self._has_news = False  # whether there are errors that the place does not show
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

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        with self._open, suppress(MinriskError) if kind else nullcontext():
            self._show_errors()

    def _close_growing(self) -> None:
        for growing in self._growing.values():
            growing.close()

    def _take_up_all(self) -> None:
        """Take up what an earlier run left, and tidy where it was torn from its work."""
        present = self._place.present([ERRORS, *(shard.output for shard in self._shards)])
        if self._manifest.is_new:
            self._claim(present)
        for number, shard in enumerate(self._shards):
            if shard.output not in present:  # if it was finished, somebody wants it made again
                self._manifest.finished.pop(shard.output, None)
            if Growing.is_there(self._growing_path(number)):
                self._take_up(number)
        self._tidy_errors(ERRORS in present)

    def _claim(self, present: Iterable[str]) -> None:
        """From now on, what is there under our names is ours."""
        if strange := next((s.output for s in self._shards if s.output in present), None):
            raise InputError(f"{shown(self._place.where(strange))} exists, and is of no earlier "
                             "run; remove it, or name another folder")
        self._manifest.save()

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
            self._growing[number] = Growing(self._growing_path(number))
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
            output = self._shards[number].output
            self._manifest.check()
            self._place.put(growing.whole(), output)
            self._show_errors()
            self._manifest.finish(output, dict(self._counts[number]))
            self._forget(number)

    def _record(self, failures: Sequence[Failure]) -> None:
        if failures:
            self._errors.write("".join(map(json_line, failures)))
            self._has_news = True

    def _show_errors(self) -> None:
        if self._has_news:
            self._manifest.check()
            self._place.show(self._errors_path, ERRORS)
            self._has_news = False

    def _tidy_errors(self, are_there: bool) -> None:
        """The errors of finished shards, then those of blocks; others will come again."""
        path = self._errors_path
        finished = {shard.path for shard in self._shards if self._has(shard)}
        fresh = f"{path}.fresh"
        with Output(fresh) as output:
            for failure in _whole(self._place.where(ERRORS)) if are_there else ():
                if failure["file"] in finished:
                    output.write(json_line(failure))
            for growing in self._growing.values():
                for entry in growing.entries():
                    output.write("".join(map(json_line, entry["failures"])))
        put_in_place(fresh, path)
        self._place.show(path, ERRORS)

    @property
    def _errors_path(self) -> str:
        return os.path.join(self._place.work, ERRORS)

    def _growing_path(self, number: int) -> str:
        folder = self._place.growing(self._manifest.run)
        return os.path.join(folder, self._shards[number].output)


def _inputs(shards: Iterable[Shard]) -> dict[str, str]:
    return {f"input {shard.path}": identity(shard.place) for shard in shards}


def _whole(path: str) -> Iterator[Failure]:
    for line in Input(path):
        with suppress(ValueError):  # torn
            yield json.loads(line)


@contextmanager
def _locked(place: Place) -> Iterator[None]:
    """Two runs in one folder would undo each other's work; the lock ends with its process."""
    path = os.path.join(place.work, _LOCK)
    with told("write", path):
        stream = open(path, "ab")  # noqa: SIM115 - closed below
    with stream:
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise another_run(place) from None
        yield
