"""What a folder of shards was made of and how, and which of them are finished."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from uuid import uuid4

from minrisk.errors import InputError
from minrisk.io.files import told
from minrisk.io.place import Place
from minrisk.io.remote import shown
from minrisk.io.resume import check_same
from minrisk.io.shards import MANIFEST


class Manifest:
    """A file of the folder, which is always whole."""

    def __init__(self, place: Place, made: Mapping[str, Any], resume: bool) -> None:
        self._place = place
        self._made = json.loads(json.dumps(made, default=str))  # as it will be read again
        self._seen = place.read(MANIFEST)
        self.run = uuid4().hex  # stays the same when the run is gone on with
        self.finished: dict[str, dict[str, Any]] = {}  # counts of each finished shard
        if not self.is_new:
            if not resume:
                raise InputError(f"{place.name} holds an earlier run; --resume goes on with it, "
                                 "or name another folder")
            self._load()

    @property
    def is_new(self) -> bool:
        return self._seen is None

    def check(self) -> None:
        """A run on another machine, which our lock does not reach, would have changed it."""
        if self._place.read(MANIFEST) != self._seen:
            raise another_run(self._place)

    def finish(self, shard: str, counts: dict[str, Any]) -> None:
        self.finished[shard] = counts
        self.save()

    def save(self) -> None:
        content = {"run": self.run, "made": self._made, "finished": self.finished}
        text = (json.dumps(content, indent=1) + "\n").encode()
        fresh = os.path.join(self._place.work, f"{MANIFEST}.fresh")
        with told("write", fresh):
            Path(fresh).write_bytes(text)
        self._place.put(fresh, MANIFEST)
        self._seen = text

    def _load(self) -> None:
        try:
            found = json.loads(self._seen or b"")
            self.run, before, self.finished = found["run"], found["made"], found["finished"]
        except (ValueError, TypeError, KeyError):
            raise InputError(f"{shown(self._place.where(MANIFEST))} is no manifest of minrisk; "
                             "name another folder") from None
        check_same(self._place.name, before, self._made)


def another_run(place: Place) -> InputError:
    return InputError(f"another run is writing to {place.name}; wait for it, or name another "
                      "folder")
