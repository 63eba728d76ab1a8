"""Translation edit rate (Snover et al. 2006), equal to sacreBLEU's."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain, pairwise
from statistics import fmean
from typing import Any, NamedTuple

import numpy as np

from minrisk._core.arrays import Floats, Ints, Objects, numbered, objects
from minrisk._core.errors import needs_extra
from minrisk._core.lazy import lazy
from minrisk._core.native import backend
from minrisk._core.process import threads
from minrisk.plugins import Metric, option

Rules = tuple[tuple[str, str], ...]

_ASIAN_PUNCTUATION = r"[\u3001\u3002\u3008-\u3011\u3014-\u301f\uff61-\uff65\u30fb]"
_FULL_WIDTH_PUNCTUATION = r"[\uff0e\uff0c\uff1f\uff1a\uff1b\uff01\uff02\uff08\uff09]"
_NORMALIZE_WESTERN: Rules = (
    (r"\n-", ""), (r"\n", " "),
    ("&quot;", '"'), ("&amp;", "&"), ("&lt;", "<"), ("&gt;", ">"),
    (r"^", " "), (r"\Z", " "),
    (r"([{-~[-` -&(-+:-@/])", r" \1 "),
    (r"'s ", " 's "),
    (r"([^0-9])([.,])", r"\1 \2 "), (r"([.,])([^0-9])", r" \1 \2"),
    (r"([0-9])-", r"\1 - "),
)
_NORMALIZE_ASIAN: Rules = (
    (r"([\u4e00-\u9fff\u3400-\u4dbf])", r" \1 "),
    (r"([\u31c0-\u31ef\u2e80-\u2eff])", r" \1 "),
    (r"([\u3300-\u33ff\uf900-\ufaff\ufe30-\ufe4f])", r" \1 "),
    (r"([\u3200-\u3f22])", r" \1 "),
    (f"({_ASIAN_PUNCTUATION})", r" \1 "), (f"({_FULL_WIDTH_PUNCTUATION})", r" \1 "),
)
_REMOVE_PUNCTUATION: Rules = ((r'[.,?:;!"()]', ""),)
_REMOVE_ASIAN_PUNCTUATION: Rules = ((_ASIAN_PUNCTUATION, ""), (_FULL_WIDTH_PUNCTUATION, ""))


class TokenizedText(NamedTuple):
    """The words of a text as hypothesis and as reference: sacreBLEU tokenizes references twice.

    The second pass splits more, such as an 's before a no-break space, which the first pass
    replaces by a plain one.
    """

    as_hypothesis: list[str]
    as_reference: list[str]


@dataclass(frozen=True)
class Ter(Metric[Objects]):
    """Translation edit rate, negated: 0 for equal texts, -100 for one edit per word.

    TER (Snover et al. 2006) in percent, equal to sacreBLEU's: insertions, deletions, substitutions
    and shifts of words, relative to the length of the reference. It is negated, so that higher is
    better; `minrisk.score` shows it without the sign.

    Args:
        normalized: split off punctuation and decode XML escapes.
        no_punct: remove punctuation.
        asian_support: also split off and remove Chinese, Japanese and Korean punctuation.
        case_sensitive: distinguish upper and lower case.

    >>> import minrisk
    >>> ter = minrisk.Ter()
    >>> ter.scores(ter.features(["sat the cat there"]), ter.features(["the cat sat there"]))
    array([[-25.]])
    """

    name = "ter"
    papers = ("Snover et al. 2006",)
    cost = "n · m edit distances with shifts"
    is_error = True

    normalized: bool = option(False)
    no_punct: bool = option(False)
    asian_support: bool = option(False)
    case_sensitive: bool = option(False)

    def features(self, texts: Sequence[str]) -> Objects:
        return objects(map(self._tokenized, texts))

    def scores(self, hyps: Objects, refs: Objects, source: object = None) -> Floats:
        """(H, R) minus the TER of every pair."""
        words = [ref.as_reference for ref in refs]
        edits = _edits([hyp.as_hypothesis for hyp in hyps], words)
        return _score(edits, np.array([len(ref) for ref in words], np.float64))

    def statistics(self, hyps: Sequence[str], refs: Sequence[Sequence[str]]) -> Floats:
        """(N, 2) edits to the closest reference, and the mean length of all references."""
        rows = [self._statistics(hyp, own) for hyp, own in zip(hyps, refs, strict=True)]
        return np.array(rows, np.float64).reshape(len(rows), 2)

    def corpus(self, statistics: Floats) -> float:
        return float(_score(*statistics))

    def sacrebleu_fields(self, statistics: Floats | None) -> dict[str, Any]:
        return {"case": "mixed" if self.case_sensitive else "lc", "tok": "tercom",
                "norm": self.normalized, "punct": not self.no_punct, "asian": self.asian_support}

    def _statistics(self, hyp: str, refs: Sequence[str]) -> tuple[float, float]:
        words = [self._tokenized(ref).as_reference for ref in refs]
        return _edits([self._words(hyp)], words).min(), fmean(map(len, words))

    def _tokenized(self, text: str) -> TokenizedText:
        words = self._words(text)
        return TokenizedText(words, self._words(" ".join(words)) if self.normalized else words)

    def _words(self, text: str) -> list[str]:
        text = text.rstrip() if self.case_sensitive else text.rstrip().lower()
        for pattern, replacement in self._rules:
            text = pattern.sub(replacement, text)
        return text.split()

    @lazy
    def _rules(self) -> list[tuple[re.Pattern[str], str]]:
        chosen = [*(_NORMALIZE_WESTERN if self.normalized else ()),
                  *(_NORMALIZE_ASIAN if self.normalized and self.asian_support else ()),
                  *(_REMOVE_PUNCTUATION if self.no_punct else ()),
                  *(_REMOVE_ASIAN_PUNCTUATION if self.no_punct and self.asian_support else ())]
        return [(re.compile(pattern), replacement) for pattern, replacement in chosen]


def _edits(hyps: Sequence[list[str]], refs: Sequence[list[str]]) -> Floats:
    """(H, R) number of edits: shifts, insertions, deletions and substitutions."""
    numbers: dict[str, int] = {}
    words = (*_word_numbers(hyps, numbers), *_word_numbers(refs, numbers))
    result: Floats = backend("ter").edits(*words, threads())
    return result


def edits(hyp_words: Ints, hyp_offsets: Ints, ref_words: Ints, ref_offsets: Ints,
          threads: int) -> Floats:
    """(H, R) edits as the native core counts them, where it is missing: by sacreBLEU."""
    with needs_extra("the 'ter' metric without minrisk's native core", "bleu"):
        from sacrebleu.metrics.lib_ter import translation_edit_rate
    hyps, refs = ([[str(word) for word in words[a:b].tolist()] for a, b in pairwise(offsets)]
                  for words, offsets in ((hyp_words, hyp_offsets), (ref_words, ref_offsets)))
    return np.array([[translation_edit_rate(hyp, ref)[0] for ref in refs] for hyp in hyps],
                    dtype=np.float64).reshape(len(hyps), len(refs))


def _word_numbers(texts: Sequence[list[str]], numbers: dict[str, int]) -> tuple[Ints, Ints]:
    """The concatenated word ids of all texts, and the offset of each text."""
    sizes = [len(words) for words in texts]
    ids = numbered(chain.from_iterable(texts), numbers).astype(np.int64)
    return ids, np.cumsum([0, *sizes], dtype=np.int64)


def _score(edits: Floats, lengths: Floats) -> Floats:
    """Minus the edit rate in percent; for an empty reference -100 or, without edits, 0."""
    rate = np.where(lengths > 0, edits / np.where(lengths > 0, lengths, 1), edits > 0)
    result: Floats = -100 * rate
    return result
