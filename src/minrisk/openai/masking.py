"""What a server says, made fit to be shown: no key, no terminal escapes, one short line."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

_MASK = "***"
_LONGEST_LINE = 300  # characters of what a server says
_SECRET = 16  # characters of a key that no text has by chance; local servers take "EMPTY" or "test"
_ESCAPED_ASCII = re.compile(r"\\u00[2-7]")  # which JSON may have, though it needs no escape


@dataclass(frozen=True)
class Mask:
    """Hides a key wherever a server repeats it; always before anything is cut."""

    key: str | None = field(default=None, repr=False)

    def text(self, text: str) -> str:
        return text.replace(self.key, _MASK) if self.key else text

    def line(self, text: str) -> str:
        """A message in one printable line."""
        line = self.text(" ".join(self.text(text).split()))  # for a key may have blanks,
        shown = "".join(map(_printable, line[:2 * _LONGEST_LINE]))
        return self.text(shown)[:_LONGEST_LINE]  # or what looks like an escape

    def answer(self, found: Any, raw: str) -> Any:
        """Parsed JSON, whose texts become samples: a short key is left, for it may be a word."""
        if self.key is None or len(self.key) < _SECRET:
            return found
        is_possible = self._longest_word in raw or _ESCAPED_ASCII.search(raw)
        return self._everywhere(found) if is_possible else found

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
