"""sacreBLEU's tokenizers: the small ones written out, the others from sacreBLEU itself."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from importlib import import_module
from typing import Any

from minrisk.errors import InputError, MissingExtra

Tokenizer = Callable[[str], str]  # the text with white space between its tokens

# of sacreBLEU: they need tables of Unicode, dictionaries or models
_THEIRS = {
    "intl": "intl.TokenizerV14International",
    "ja-mecab": "ja_mecab.TokenizerJaMecab",
    "ko-mecab": "ko_mecab.TokenizerKoMecab",
    "flores101": "spm.Flores101Tokenizer",
    "flores200": "spm.Flores200Tokenizer",
}
# what they need besides
_EXTRAS = {"ja-mecab": "sacrebleu[ja]", "ko-mecab": "sacrebleu[ko]",
           "flores101": "sentencepiece", "flores200": "sentencepiece"}

_REPLACED = (("<skipped>", ""), ("-\n", ""), ("\n", " "),
             ("&quot;", '"'), ("&amp;", "&"), ("&lt;", "<"), ("&gt;", ">"))
# points and commas stay within numbers, a dash parts from the digit before it; the order matters,
# because no character is part of two matches of a rule
_MARKS = (
    (re.compile(r"([!-&(-+/:-@\[-`{-~])"), r" \1 "),
    (re.compile(r"([^0-9])([.,])"), r"\1 \2 "),
    (re.compile(r"([.,])([^0-9])"), r" \1 \2"),
    (re.compile(r"([0-9])(-)"), r"\1 \2 "),
)
# sacreBLEU writes code points of five digits as strings of two characters, which is why everything
# from U+2001 to U+2A6D is Chinese to it, and no U+20000
_CHINESE = re.compile(
    "([\u2001-\u2a6d\u2e80-\u2fdf\u2ff0-\u303f\u3100-\u312f\u31a0-\u31ef\u3200-\u4db5\u4e00-\u9fbb"
    "\uf900-\ufa2d\ufa30-\ufa6a\ufa70-\ufad9\ufe10-\ufe1f\ufe30-\ufe4f\uff00-\uffef])")


def _13a(text: str) -> str:
    for old, new in _REPLACED:
        text = text.replace(old, new)
    return _split_marks(f" {text} ")


def _zh(text: str) -> str:
    return _split_marks(_CHINESE.sub(r" \1 ", text.strip()))


def _split_marks(text: str) -> str:
    for pattern, replacement in _MARKS:
        text = pattern.sub(replacement, text)
    return text


OURS: dict[str, Tokenizer] = {"13a": _13a, "zh": _zh, "char": " ".join, "none": str}


def tokenizer_signature(name: str) -> str:
    """The name, with the version of a dictionary where there is one."""
    return name if name in OURS else str(sacrebleu_tokenizer(name).signature())


@cache
def sacrebleu_tokenizer(name: str) -> Any:
    """One of sacreBLEU's own; they remember what they tokenized."""
    module, _, attribute = _THEIRS[name].partition(".")
    try:
        found = import_module(f"sacrebleu.tokenizers.tokenizer_{module}")
    except ImportError:
        raise MissingExtra(f"the {name!r} tokenizer needs sacrebleu: "
                           "pip install 'minrisk[bleu]'") from None
    try:
        return getattr(found, attribute)()
    except (ImportError, RuntimeError):
        raise MissingExtra(f"the {name!r} tokenizer needs more than sacrebleu: "
                           f"pip install '{_EXTRAS[name]}'") from None
    except OSError as error:
        raise InputError(f"sacrebleu cannot fetch the model of its {name!r} tokenizer: {error}; "
                         "fetch it once where there is a network") from None
