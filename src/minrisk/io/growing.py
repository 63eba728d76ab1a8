"""A shard's output while it is made: blocks of segments as they come, then all of them in order."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

from minrisk.io.files import Output, told
from minrisk.io.journal import Journal


class Growing:
    """Blocks are kept in a journal beside the output."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._beside = f"{path}.partial"
        with told("write", path):
            os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
        self._journal = Journal(self._beside, resume=True)
        self._blocks: dict[int, tuple[int, int]] = {}  # by first segment: the end, and the place
        self.segments = 0
        for place, entry in self._journal:
            self._note(entry, place)

    @classmethod
    def is_there(cls, path: str) -> bool:
        return os.path.exists(f"{path}.partial")

    @property
    def spans(self) -> list[tuple[int, int]]:
        """The segments that are done, as half-open intervals in order."""
        return sorted((start, stop) for start, (stop, _) in self._blocks.items())

    def entries(self) -> Iterator[Any]:
        """The blocks, in order of their segments."""
        return self._journal.read(self._blocks[start][1] for start, _ in self.spans)

    def add(self, entry: dict[str, Any]) -> bool:
        """Keep a block; False where it was there already."""
        if entry["start"] in self._blocks:
            return False
        self._note(entry, self._journal.append(entry))
        return True

    def whole(self) -> str:
        """All blocks in order, in a file that may now get the output's name."""
        folder, name = os.path.split(self._path)
        fresh = os.path.join(folder, f"fresh-{name}")
        with Output(fresh) as output:
            for entry in self.entries():
                output.write(entry["text"])
        return fresh

    def forget(self) -> None:
        """What was kept beside the output is needed no more."""
        self._journal.close()
        os.remove(self._beside)

    def close(self) -> None:
        self._journal.close()

    def _note(self, entry: dict[str, Any], place: int) -> None:
        self._blocks[entry["start"]] = (entry["start"] + entry["segments"], place)
        self.segments += entry["segments"]
