"""Stop strings, which end a sample when they occur in its decoded text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from minrisk._core.arrays import Ints

Bools = npt.NDArray[np.bool_]
_INCOMPLETE_CHARACTER = "\ufffd"  # decoding of a token that is only part of a character


class StopStrings:
    """Finds stop strings in samples; only tokens that may complete one are decoded."""

    def __init__(self, tokenizer: Any, texts: Sequence[str], vocabulary: int) -> None:
        self._tokenizer, self._texts = tokenizer, texts
        self._may_end = np.zeros(vocabulary, bool)  # whether a token may complete a stop string
        tokens = range(min(len(tokenizer), vocabulary))
        last = {_INCOMPLETE_CHARACTER, *(text[-1] for text in texts)}
        # a trailing space may be part of the next token, which, decoded alone, does not show it
        anywhere = any(text[-1].isspace() for text in texts)
        for token, own in enumerate(tokenizer.batch_decode([[token] for token in tokens])):
            self._may_end[token] = anywhere or not last.isdisjoint(own)

    def __call__(self, tokens: Ints) -> Bools:
        """(E,) whether the texts of these tokens (E, T) contain a stop string."""
        found = np.zeros(len(tokens), bool)
        rows = self._may_end[tokens[:, -1]].nonzero()[0]
        found[rows] = [self.cut(text) != text for text in self.decode(tokens[rows].tolist())]
        return found

    def decode(self, tokens: Sequence[Sequence[int]]) -> list[str]:
        texts: list[str] = self._tokenizer.batch_decode(tokens, skip_special_tokens=True)
        return texts

    def cut(self, text: str) -> str:
        """The text before its first stop string."""
        return text[: min((place for place in map(text.find, self._texts) if place >= 0),
                          default=len(text))]
