"""Texts to tokens, whatever is in the texts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from minrisk._core.errors import InputError
from minrisk._core.unicode import valid_unicode


def token_ids(tokenizer: Any, texts: Sequence[str], **settings: Any) -> list[list[int]]:
    """The tokens of each text by a tokenizer of transformers; none is cut off."""
    if not texts:
        return []
    with tokenizing():
        found = tokenizer([valid_unicode(text) for text in texts], truncation=False, verbose=False,
                          **settings)
    ids: list[list[int]] = found["input_ids"]
    return ids


@contextmanager
def tokenizing() -> Iterator[None]:
    """Around a tokenizer: a panic of its Rust code is an error of its texts, and ends no run."""
    try:
        yield
    except BaseException as error:
        if type(error).__name__ != "PanicException":  # whose class no module exports
            raise
        raise InputError(f"the tokenizer gave up: {error}; is it whole, and the text sane?"
                         ) from None
