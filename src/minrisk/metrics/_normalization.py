"""Normalisation of texts whose words are compared."""

from __future__ import annotations

import unicodedata

LOWERCASE_HELP = "ignore case"
PUNCTUATION_HELP = "remove punctuation"


def normalized(text: str, lowercase: bool, no_punct: bool) -> str:
    """The text without what does not count; all white space is single spaces."""
    text = text.lower() if lowercase else text
    if no_punct:
        text = "".join(c for c in text if not unicodedata.category(c).startswith("P"))
    return " ".join(text.split())
