"""Word and character error rates of speech recognition, with the numbers of jiwer.

White space of any kind and length separates words. jiwer does so as well once its steps replace it
by single spaces; by its default steps, a line break or a tab is part of a word.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from minrisk._core.arrays import Floats
from minrisk._core.metric import Ability, Metric
from minrisk._core.options import option
from minrisk.metrics._normalization import LOWERCASE_HELP, PUNCTUATION_HELP, normalized
from minrisk.metrics._rapidfuzz import TokenSequences, all_pairs


class ErrorRate(Metric[TokenSequences]):
    """Minus the edits of a hypothesis in percent of the tokens of its reference."""

    abilities: ClassVar[Ability] = Ability.CORPUS_STATISTICS
    is_error: ClassVar[bool] = True
    features_per_segment: ClassVar[bool] = True  # a vocabulary for each segment

    lowercase: bool
    no_punct: bool

    def prepare(self) -> None:
        one = self.features(["a"])
        self.scores(one, one)

    def features(self, texts: Sequence[str]) -> TokenSequences:
        return self._tokenized([
            normalized(text, self.lowercase, self.no_punct) for text in texts])

    def scores(self, hyps: TokenSequences, refs: TokenSequences, source: object = None) -> Floats:
        """(H, R) minus the error rate of every pair, in percent."""
        edits = all_pairs(hyps, refs, "Levenshtein.distance", self.name, "edit")
        return _score(edits, refs.lengths)

    def statistics(self, hyps: Sequence[str], refs: Sequence[Sequence[str]]) -> Floats:
        """(N, 2) edits to the reference with the lowest rate, and its length."""
        rows = [self._nearest(hyp, own) for hyp, own in zip(hyps, refs, strict=True)]
        return np.array(rows, np.float64).reshape(len(rows), 2)

    def corpus(self, statistics: Floats) -> float:
        return float(_score(*statistics))

    @abstractmethod
    def _tokenized(self, texts: Sequence[str]) -> TokenSequences: ...

    def _nearest(self, hyp: str, refs: Sequence[str]) -> tuple[float, float]:
        ours, theirs = self.features([hyp]), self.features(refs)
        edits = all_pairs(ours, theirs, "Levenshtein.distance", self.name, "edit")[0]
        best = int(np.argmax(_score(edits, theirs.lengths)))
        return edits[best], theirs.lengths[best]


@dataclass(frozen=True)
class Wer(ErrorRate):
    """word error rate, negated: from 0 (equal) down, -100 for an edit per word; needs minrisk[edit]

    Insertions, deletions and substitutions of words in percent of the words of the reference, equal
    to jiwer's where words are separated by single spaces; here, as most tokenizers have it, any
    white space separates them. It is negated, so that higher is better; `minrisk.score` shows it
    without the sign. A reference without words counts as one word.

    Args:
        lowercase: whether case is ignored.
        no_punct: whether punctuation (of any script) is removed.

    >>> import minrisk
    >>> wer = minrisk.Wer(lowercase=True)
    >>> wer.scores(wer.features(["The cat sat there"]), wer.features(["the cat sat down"]))
    array([[-25.]])
    """

    name: ClassVar[str] = "wer"
    papers: ClassVar[tuple[str, ...]] = ("Goel & Byrne 2000",)
    cost: ClassVar[str] = "n · m edit distances"

    lowercase: bool = option(False, help=LOWERCASE_HELP)
    no_punct: bool = option(False, help=PUNCTUATION_HELP)

    def _tokenized(self, texts: Sequence[str]) -> TokenSequences:
        return TokenSequences.of_words(text.split() for text in texts)


@dataclass(frozen=True)
class Cer(ErrorRate):
    """character error rate, negated: 0 down, -100 for an edit per character; needs minrisk[edit]

    As `Wer`, with characters in the place of words; any white space counts as one space.

    Args:
        lowercase: whether case is ignored.
        no_punct: whether punctuation (of any script) is removed.
        whitespace: whether a space is a character; False compares words written together, as is
            usual for Chinese and Japanese.

    >>> import minrisk
    >>> cer = minrisk.Cer()
    >>> cer.scores(cer.features(["the cap"]), cer.features(["the cats"]))
    array([[-25.]])
    """

    name: ClassVar[str] = "cer"
    cost: ClassVar[str] = "n · m edit distances"

    lowercase: bool = option(False, help=LOWERCASE_HELP)
    no_punct: bool = option(False, help=PUNCTUATION_HELP)
    whitespace: bool = option(True, help="count spaces as characters")

    def _tokenized(self, texts: Sequence[str]) -> TokenSequences:
        return TokenSequences.of_characters(
            text if self.whitespace else text.replace(" ", "") for text in texts)


def _score(edits: Floats, lengths: Floats) -> Floats:
    """Minus the rate in percent; an empty reference counts as one token."""
    result: Floats = -100 * edits / np.maximum(lengths, 1)
    return result
