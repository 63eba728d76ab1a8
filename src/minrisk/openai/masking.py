"""Messages of a server made safe to show: no key, no terminal escapes, one short line."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Any

_MASK = "***"
_MAX_LINE = 300  # characters of a message of a server
_MIN_SECRET = 16  # characters; a shorter key ("EMPTY", "test") may be a word of a text
_ESCAPED_ASCII = re.compile(r"\\u00[2-7]")  # ASCII that JSON needs no escape for, but may have


@dataclass(frozen=True)
class Mask:
    """Hides the key wherever a server repeats it; always before a text is shortened."""

    key: str | None = field(default=None, repr=False)

    def text(self, text: str) -> str:
        return text.replace(self.key, _MASK) if self.key else text

    def line(self, text: str) -> str:
        """A message as one printable line."""
        line = self.text(" ".join(self.text(text).split()))  # the key may have blanks,
        shown = "".join(map(_printable, line[:2 * _MAX_LINE]))
        return self.text(shown)[:_MAX_LINE]  # or text that looks like an escape

    def json(self, found: Any, raw: str) -> Any:
        """Parsed JSON without the key."""
        if not self.hides_content:
            return found
        is_possible = self._longest_word in raw or _ESCAPED_ASCII.search(raw)
        return self._everywhere(found) if is_possible else found

    def body(self, raw: str) -> str:
        """The body of an error, also where JSON escapes the key."""
        try:
            found = json.loads(raw)
            masked = self._everywhere(found) if self.key else found
        except (ValueError, RecursionError):
            return self.text(raw)
        return self.text(raw) if masked == found else json.dumps(masked)

    @property
    def hides_content(self) -> bool:
        """Whether the key is hidden in samples too; a short one may be a word of theirs."""
        return self.key is not None and len(self.key) >= _MIN_SECRET

    def divided(self, text: str) -> tuple[str, str]:
        """A text without the key, and its end, as far as that may be the beginning of the key."""
        assert self.key is not None
        last = text.rpartition(self.key)[2]
        size = next((size for size in range(min(len(last), len(self.key) - 1), 0, -1)
                     if last.endswith(self.key[:size])), 0)
        place = len(text) - size
        return self.text(text[:place]), text[place:]

    @property
    def _longest_word(self) -> str:
        """The longest part of the key that JSON never escapes."""
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
    """The character, escaped if it is a control character, which could change a terminal."""
    return character if character.isprintable() else ascii(character)[1:-1]
