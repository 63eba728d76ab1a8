"""ROUGE (Lin 2004), equal to `rouge-score`'s: word n-grams, or the longest common subsequence.

chrF's core counts matching words, so each n-gram is passed to it as one word.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from minrisk._core.arrays import Floats
from minrisk._core.errors import needs_extra
from minrisk._core.metric import PartialStatistics
from minrisk.metrics.edit import SequenceMetric, TokenSequences
from minrisk.metrics.ngram import NgramMetric
from minrisk.plugins import WeightedRows, option

_WORD = re.compile("[a-z0-9]+")
_MAX_UNSTEMMED = 3  # words of up to 3 letters are not stemmed
_UNIGRAMS = 0, 1, False  # order, word_order, whitespace
_F1 = 1.0, False  # beta, eps_smoothing


@dataclass(frozen=True)
class Rouge(NgramMetric):
    """ROUGE-N, the F1 of word n-grams, 0 to 1; for text in ASCII letters.

    ROUGE (Lin 2004), equal to the scores of `rouge-score`, whose words are lower-case ASCII letters
    and digits. References can be averaged, by their n-gram counts.

    Args:
        n: order of the word n-grams: 1 for ROUGE-1, 2 for ROUGE-2.
        stemmer: compare Porter stems instead of words; needs minrisk[rouge].

    >>> import minrisk
    >>> rouge = minrisk.Rouge(n=2)
    >>> rouge.scores(rouge.features(["the cat sat"]), rouge.features(["the cat sat up"])).round(2)
    array([[0.8]])
    """

    name = "rouge"
    core = "chrf"
    papers = ("Lin 2004",)

    n: int = option(1, ge=1)
    stemmer: bool = option(False)

    def prepare(self) -> None:
        _word_splitter(self.stemmer)

    def features(self, texts: Sequence[str]) -> WeightedRows:
        split = _word_splitter(self.stemmer)
        return self._index([self._ngrams(split(text)) for text in texts], *_UNIGRAMS)

    def scores(self, hyps: WeightedRows, refs: WeightedRows, source: object = None) -> Floats:
        """(H, R) F1 of every pair."""
        return super().scores(hyps, refs) / 100

    def utility(self, hyps: WeightedRows, refs: WeightedRows, mass: Floats,
                source: object = None) -> Floats:
        return super().utility(hyps, refs, mass) / 100

    def finalize(self, hyps: WeightedRows, statistics: PartialStatistics,
                 source: object = None) -> Floats:
        return super().finalize(hyps, statistics) / 100

    @property
    def _formula(self) -> tuple[float, bool]:
        return _F1

    def _ngrams(self, words: list[str]) -> str:
        return " ".join("_".join(words[i:i + self.n]) for i in range(len(words) - self.n + 1))


@dataclass(frozen=True)
class RougeL(SequenceMetric):
    """ROUGE-L, the F1 of the longest common subsequence, 0 to 1; needs minrisk[rouge].

    The sentence-level ROUGE-L of `rouge-score` (Lin 2004), on lower-case words of ASCII letters and
    digits.

    Args:
        stemmer: compare Porter stems instead of words.

    >>> import minrisk
    >>> rouge = minrisk.RougeL()
    >>> rouge.scores(rouge.features(["the cat sat"]), rouge.features(["the old cat sat"])).round(2)
    array([[0.86]])
    """

    name = "rouge-l"
    papers = ("Lin 2004",)
    measure = "LCSseq.similarity"
    extra = "rouge"
    cost = "n · m longest common subsequences"

    stemmer: bool = option(False)

    def features(self, texts: Sequence[str]) -> TokenSequences:
        return TokenSequences.of_words(map(_word_splitter(self.stemmer), texts))

    def scores(self, hyps: TokenSequences, refs: TokenSequences, source: object = None) -> Floats:
        """(H, R) F1 of every pair."""
        total = np.add.outer(hyps.lengths, refs.lengths)
        common = super().scores(hyps, refs)
        # 2PR / (P + R) with P = common / hypothesis and R = common / reference
        result: Floats = 2 * common / np.maximum(total, 1)
        return result


def _word_splitter(stemmer: bool) -> Callable[[str], list[str]]:
    """A function from a text to its words, or their stems."""
    if not stemmer:
        return lambda text: _WORD.findall(text.lower())
    with needs_extra("ROUGE's stemmer", "rouge"):
        from nltk.stem.porter import PorterStemmer
    stem = PorterStemmer().stem
    return lambda text: [stem(word) if len(word) > _MAX_UNSTEMMED else word
                         for word in _WORD.findall(text.lower())]
