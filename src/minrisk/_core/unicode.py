"""Valid Unicode, as tokenizers need it."""

from __future__ import annotations

import re

_SURROGATES = re.compile("[\ud800-\udfff]")  # halves of a character, which UTF-8 cannot write


def valid_unicode(text: str) -> str:
    """The text with U+FFFD for lone surrogates, which JSON may have and no tokenizer accepts."""
    return _SURROGATES.sub("\ufffd", text)
