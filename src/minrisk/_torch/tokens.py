"""Tokenization with transformers' tokenizers, and padded batches of sequences of similar length."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from minrisk._core.arrays import Ints
from minrisk._core.errors import InputError
from minrisk._core.texts import valid_unicode

TokenIds = npt.NDArray[np.integer[Any]]


def token_ids(tokenizer: Any, texts: Sequence[str], **settings: Any) -> list[list[int]]:
    """Token ids of each text by a tokenizer of transformers, without truncation."""
    if not texts:
        return []
    valid = [valid_unicode(text) for text in texts]
    with tokenizing():
        if settings or not _is_plain_fast(tokenizer):
            return _call(tokenizer, valid, **settings)
        _call(tokenizer, valid[:1])  # side effect: sets the backend's truncation and padding
        encoded = tokenizer.backend_tokenizer.encode_batch_fast(valid)
    return [own.ids for own in encoded]


def _call(tokenizer: Any, texts: Sequence[str], **settings: Any) -> list[list[int]]:
    found = tokenizer(texts, truncation=False, verbose=False, **settings)
    ids: list[list[int]] = found["input_ids"]
    return ids


def _is_plain_fast(tokenizer: Any) -> bool:
    """Whether the Rust backend can be called directly, which takes half the time, because it skips
    masks and offsets. Subclasses may override the call.
    """
    from transformers import PreTrainedTokenizerFast

    return type(tokenizer) is PreTrainedTokenizerFast and hasattr(
        tokenizer.backend_tokenizer, "encode_batch_fast")


@contextmanager
def tokenizing() -> Iterator[None]:
    """Turns a panic of a tokenizer's Rust code into an InputError, so that a run can go on."""
    try:
        yield
    except BaseException as error:
        if type(error).__name__ != "PanicException":  # no module exports the class
            raise
        raise InputError(f"the tokenizer failed: {error}; check the tokenizer's files and the "
                         "text") from None


def length_batches(lengths: Sequence[int], budget: int) -> Iterator[list[int]]:
    """Batches of rows of similar length, longest first, so that lack of memory shows at once."""
    order = longest_first(lengths)
    start = 0
    while start < len(order):
        size = max(1, budget // max(1, lengths[order[start]]))
        yield order[start : start + size]
        start += size


def longest_first(lengths: Sequence[int]) -> list[int]:
    """The rows in order of decreasing length."""
    return sorted(range(len(lengths)), key=lambda row: -lengths[row])


def pad_batch(ids: Sequence[Ints], pad: int) -> tuple[Tensor, Tensor]:
    """(B, T) padded tokens, and a mask that is 0 for padding."""
    lengths = np.array([own.size for own in ids])
    mask = np.arange(lengths.max()) < lengths[:, None]
    tokens = np.full(mask.shape, pad)
    tokens[mask] = np.concatenate(ids)
    return torch.from_numpy(tokens), torch.from_numpy(mask.astype(np.int64))
