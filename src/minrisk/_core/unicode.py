"""Valid Unicode, as tokenizers and files need it."""

from __future__ import annotations


def valid_unicode(text: str) -> str:
    """The text with surrogate pairs joined, and U+FFFD for lone surrogates.

    JSON may have lone surrogates, which UTF-8 cannot write and no tokenizer accepts.
    """
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
