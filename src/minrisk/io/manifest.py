"""What a folder of shards was made of and how, and which of them are finished."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from minrisk.errors import InputError
from minrisk.io.files import put_in_place, told
from minrisk.io.resume import check_same

_NAME = "manifest.json"


class Manifest:
    """A file in the folder, which is always whole."""

    def __init__(self, folder: str, made: Mapping[str, Any], resume: bool) -> None:
        self._path = os.path.join(folder, _NAME)
        self._made = json.loads(json.dumps(made, default=str))  # as it will be read again
        self.finished: dict[str, dict[str, Any]] = {}  # counts of each finished shard
        if os.path.exists(self._path):
            if not resume:
                raise InputError(f"{folder} holds an earlier run; --resume goes on with it, "
                                 "or name another folder")
            self._load(folder)
        else:
            self._save()

    def finish(self, shard: str, counts: dict[str, Any]) -> None:
        self.finished[shard] = counts
        self._save()

    def _load(self, folder: str) -> None:
        try:
            with told("read", self._path):
                found = json.loads(Path(self._path).read_text(encoding="utf-8"))
            before, self.finished = found["made"], found["finished"]
        except (ValueError, TypeError, KeyError):
            raise InputError(f"{self._path} is no manifest of minrisk; "
                             "name another folder") from None
        check_same(folder, before, self._made)

    def _save(self) -> None:
        fresh = f"{self._path}.fresh"
        content = {"made": self._made, "finished": self.finished}
        with told("write", self._path):
            Path(fresh).write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
        put_in_place(fresh, self._path)
