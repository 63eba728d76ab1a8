"""Texts as models can read them."""

from __future__ import annotations

import re

_SURROGATES = re.compile("[\ud800-\udfff]")  # halves of a character, which UTF-8 cannot write


def valid_unicode(text: str) -> str:
    """The text with U+FFFD for surrogates, which JSON may bring and no tokenizer takes."""
    return _SURROGATES.sub("\ufffd", text)
