"""Normalisation, and sacreBLEU's tokenizers: small ones are built in, others need sacreBLEU."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from functools import cache
from importlib import import_module
from typing import Any

from minrisk._core.errors import InputError, MissingExtra, needs_extra


def normalized(text: str, lowercase: bool, no_punct: bool) -> str:
    """The text, optionally without case and punctuation, with white space as single spaces."""
    text = text.lower() if lowercase else text
    if no_punct:
        text = "".join(c for c in text if not unicodedata.category(c).startswith("P"))
    return " ".join(text.split())


Tokenizer = Callable[[str], str]  # returns the text with white space between tokens

# these need Unicode tables, dictionaries or models
_FROM_SACREBLEU = {
    "intl": "intl.TokenizerV14International",
    "ja-mecab": "ja_mecab.TokenizerJaMecab",
    "ko-mecab": "ko_mecab.TokenizerKoMecab",
    "flores101": "spm.Flores101Tokenizer",
    "flores200": "spm.Flores200Tokenizer",
}
# further packages that they need
_REQUIREMENTS = {"ja-mecab": "sacrebleu[ja]", "ko-mecab": "sacrebleu[ko]",
           "flores101": "sentencepiece", "flores200": "sentencepiece"}

_REPLACEMENTS = (("<skipped>", ""), ("-\n", ""), ("\n", " "),
             ("&quot;", '"'), ("&amp;", "&"), ("&lt;", "<"), ("&gt;", ">"))
# points and commas inside numbers are not split off; a dash after a digit is. The order matters,
# because matches of a rule do not overlap
_PUNCTUATION = (
    (re.compile(r"([!-&(-+/:-@\[-`{-~])"), r" \1 "),
    (re.compile(r"([^0-9])([.,])"), r"\1 \2 "),
    (re.compile(r"([.,])([^0-9])"), r" \1 \2"),
    (re.compile(r"([0-9])(-)"), r"\1 \2 "),
)
# sacreBLEU's "\u20000" is two characters, hence U+2001 to U+2A6D are in this set and U+20000 is not
_CHINESE = re.compile(
    "([\u2001-\u2a6d\u2e80-\u2fdf\u2ff0-\u303f\u3100-\u312f\u31a0-\u31ef\u3200-\u4db5\u4e00-\u9fbb"
    "\uf900-\ufa2d\ufa30-\ufa6a\ufa70-\ufad9\ufe10-\ufe1f\ufe30-\ufe4f\uff00-\uffef])")


def _13a(text: str) -> str:
    for old, new in _REPLACEMENTS:
        text = text.replace(old, new)
    return _split_punctuation(f" {text} ")


def _zh(text: str) -> str:
    return _split_punctuation(_CHINESE.sub(r" \1 ", text.strip()))


def _split_punctuation(text: str) -> str:
    for pattern, replacement in _PUNCTUATION:
        text = pattern.sub(replacement, text)
    return text


BUILTIN: dict[str, Tokenizer] = {"13a": _13a, "zh": _zh, "char": " ".join, "none": str}


def tokenizer_signature(name: str) -> str:
    """The name of the tokenizer, with the version of its dictionary, if it has one."""
    return name if name in BUILTIN else str(sacrebleu_tokenizer(name).signature())


@cache
def sacrebleu_tokenizer(name: str) -> Any:
    """A tokenizer of sacreBLEU, which caches its results."""
    module, _, attribute = _FROM_SACREBLEU[name].partition(".")
    with needs_extra(f"the {name!r} tokenizer", "bleu"):
        tokenizers = import_module(f"sacrebleu.tokenizers.tokenizer_{module}")
    try:
        return getattr(tokenizers, attribute)()
    except (ImportError, RuntimeError):
        raise MissingExtra(f"the {name!r} tokenizer needs another package besides sacrebleu: "
                           f"pip install '{_REQUIREMENTS[name]}'") from None
    except OSError as error:
        raise InputError(f"sacrebleu cannot fetch the model of its {name!r} tokenizer: {error}; "
                         "run it once with a network connection") from None
