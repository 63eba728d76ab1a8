"""Going on with an output that was interrupted: what is finished stays, and nothing is redone.

Beside the output lies a small file that says how it was made, so that nobody goes on in another
way. Segments are told apart by their fields, and not by their number: those that failed, or were
torn in the middle of a line, are made again and come last.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from minrisk.errors import InputError
from minrisk.io.files import Input, Output, told
from minrisk.io.prompts import Asked

_BESIDE = ".run.json"
_TELLING = ("id", "source", "prompt", "messages")  # fields that tell segments apart


class Resumable:
    """An output that can be gone on with."""

    def __init__(self, path: str, made: Mapping[str, Any]) -> None:
        self._path = path
        self._made = json.loads(json.dumps(made, default=str))  # as it will be read again

    @classmethod
    def fits(cls, path: str) -> bool:
        """Streams and devices cannot be read again."""
        return path != "-" and (os.path.isfile(path) or not os.path.exists(path))

    def begin(self) -> None:
        """Say how the output will be made."""
        with told("write", self._beside):
            Path(self._beside).write_text(json.dumps(self._made, indent=1) + "\n", encoding="utf-8")

    def remaining(self, asked: Iterable[Asked]) -> list[Asked]:
        """What is still to do; the output then holds whole lines of what is done."""
        if not os.path.exists(self._path):
            self.begin()
            return list(asked)
        self._check()
        done = Counter(_key(fields) for _, fields in _finished(Input(self._path)))
        left = [a for a in asked if not _taken(done, _key({"id": a.id, **a.fields}))]
        if other := next(iter(+done), None):
            raise InputError(f"{self._path} has a segment that is not in the input: {other:.100}; "
                             "go on with the same input, or write to another file")
        self._tidy()
        return left

    @property
    def _beside(self) -> str:
        return self._path + _BESIDE

    def _check(self) -> None:
        try:
            before = json.loads(Path(self._beside).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            raise InputError(f"cannot go on with {self._path}: {self._beside}, which says how it "
                             "was made, cannot be read; write to another file") from None
        check_same(self._path, before, self._made)

    def _tidy(self) -> None:
        """Drop what is torn or failed; all at once, so that nothing is lost if that breaks too."""
        folder, name = os.path.split(self._path)
        fresh = os.path.join(folder, f"tidy-{name}")
        with Output(fresh) as output:
            for line, _ in _finished(Input(self._path)):
                output.write(f"{line}\n")
        with told("write", self._path):
            os.replace(fresh, self._path)


def check_same(path: str, before: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    """An output is gone on with only as it was begun."""
    differing = [f"{key} was {before.get(key)}, is {now.get(key)}"
                 for key in {**before, **now} if before.get(key) != now.get(key)]
    if differing:
        raise InputError(f"cannot go on with {path}: {'; '.join(differing)}; "
                         "use the same options and input, or write elsewhere")


def _key(fields: Mapping[str, Any]) -> str:
    return json.dumps({name: fields[name] for name in _TELLING if name in fields},
                      ensure_ascii=False)


def _taken(done: Counter[str], key: str) -> bool:
    """Whether one of these was done, which then counts no more: equal segments may follow."""
    done[key] -= 1
    return done[key] >= 0


def _finished(source: Input) -> Iterator[tuple[str, dict[str, Any]]]:
    """The lines that are whole and no failures, up to where a compressed file breaks off."""
    with suppress(InputError):
        for line in source:
            with suppress(ValueError):  # torn
                text = line.decode("utf-8")
                fields = json.loads(text)
                if isinstance(fields, dict) and "error" not in fields:
                    yield text, fields
