"""What a server says, made fit to be shown: no key, no terminal escapes, one short line."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

_MASK = "***"
_LONGEST_LINE = 300  # characters of what a server says
_SECRET = 16  # characters of a key that no text has by chance; local servers take "EMPTY" or "test"


@dataclass(frozen=True)
class Mask:
    """Hides a key wherever a server repeats it; always before anything is cut."""

    key: str | None = field(default=None, repr=False)

    def text(self, text: str) -> str:
        return text.replace(self.key, _MASK) if self.key else text

    def line(self, text: str) -> str:
        """A message in one printable line."""
        line = " ".join(self.text(text).split())
        return "".join(map(_printable, line[:_LONGEST_LINE]))

    def answer(self, found: Any, raw: str) -> Any:
        """Parsed JSON, whose texts become samples: a short key is left, for it may be a word."""
        if self.key is None or len(self.key) < _SECRET or self._longest_word not in raw:
            return found
        return self._everywhere(found)

    @property
    def _longest_word(self) -> str:
        """The part of the key that JSON does not write in another way."""
        assert self.key is not None
        words: list[str] = re.findall("[A-Za-z0-9]*", self.key)
        return max(words, key=len)

    def _everywhere(self, found: Any) -> Any:
        if isinstance(found, str):
            return self.text(found)
        if isinstance(found, list):
            return [self._everywhere(item) for item in found]
        if isinstance(found, dict):
            return {self.text(name): self._everywhere(item) for name, item in found.items()}
        return found


def _printable(character: str) -> str:
    """Control characters could rename a terminal, or write over what it shows."""
    return character if character.isprintable() else ascii(character)[1:-1]
