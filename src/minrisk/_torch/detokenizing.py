"""Detokenization of many sequences at once, with the same results as the tokenizer's `decode`."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from minrisk._torch.tokens import TokenIds

_CHECKED = 16  # sequences that the fast path must decode correctly before it is used
_UNDERLINE = "\N{LOWER ONE EIGHTH BLOCK}"  # marks a space in SentencePiece's pieces

DecodeTokens = Callable[[Sequence[TokenIds]], list[str]]


class Detokenizer:
    """Decodes in parallel, with SentencePiece or the `tokenizers` library, where possible."""

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer
        self._fast = _fast_decoder(tokenizer)
        self._is_checked = False

    def __call__(self, sequences: Sequence[TokenIds]) -> list[str]:
        """The text of each sequence, without special tokens."""
        if self._fast is None or not sequences:
            return self._plain(sequences)
        if not self._is_checked:
            few = sequences[:_CHECKED]
            if self._fast(few) != self._plain(few):
                self._fast = None
                return self._plain(sequences)
            self._is_checked = True
        return self._fast(sequences)

    def _plain(self, sequences: Sequence[TokenIds]) -> list[str]:
        found: list[str] = self._tokenizer.batch_decode([own.tolist() for own in sequences],
                                                        skip_special_tokens=True)
        return found


def _fast_decoder(tokenizer: Any) -> DecodeTokens | None:
    """A decoder of whole batches for the tokenizers that we support."""
    if type(tokenizer).__name__ == "MarianTokenizer" and hasattr(tokenizer, "spm_target"):
        return _Marian(tokenizer)
    backend: Any = getattr(tokenizer, "backend_tokenizer", None)
    if hasattr(backend, "decode_batch") and not tokenizer.clean_up_tokenization_spaces:
        return lambda sequences: backend.decode_batch([own.tolist() for own in sequences],
                                                      skip_special_tokens=True)
    return None


class _Marian:
    """Looks up pieces by id, and lets SentencePiece join them in its threads."""

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer
        self._pieces = np.array(tokenizer.convert_ids_to_tokens(range(len(tokenizer))), object)
        self._is_special = np.zeros(len(self._pieces), bool)
        self._is_special[[i for i in tokenizer.all_special_ids if i < len(self._pieces)]] = True

    def __call__(self, sequences: Sequence[TokenIds]) -> list[str]:
        tokens = np.concatenate(sequences)
        is_kept = ~self._is_special[tokens]
        pieces = self._pieces[tokens[is_kept]].tolist()
        pieces_before = np.append(0, is_kept.cumsum())
        ends = pieces_before[np.cumsum([0, *map(len, sequences)])].tolist()
        lines = [pieces[start:end] for start, end in pairwise(ends)]
        # if the first item is empty, SentencePiece expects ids instead of pieces
        texts = self._tokenizer.spm_target.decode([[_UNDERLINE], *lines],
                                                  num_threads=os.cpu_count() or 1)[1:]
        found = [text.replace(_UNDERLINE, " ").strip() for text in texts]
        if not self._tokenizer.clean_up_tokenization_spaces:
            return found
        return [self._tokenizer.clean_up_tokenization(text) for text in found]
