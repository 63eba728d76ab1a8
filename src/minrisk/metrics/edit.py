"""Levenshtein similarity, and word and character error rates equal to jiwer's, with RapidFuzz.

Any white space separates words. jiwer does the same only with a transformation that replaces it by
single spaces; by default, it treats line breaks and tabs as parts of words.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from operator import attrgetter
from typing import ClassVar, Literal

import numpy as np

from minrisk._core.arrays import Floats, Ints, Objects, objects
from minrisk._core.errors import needs_extra
from minrisk._core.process import threads
from minrisk.metrics.ngram.tokenizers import normalized
from minrisk.plugins import Metric, option


@dataclass(frozen=True, eq=False)
class TokenSequences:
    """Texts as characters, or as word ids in a common vocabulary.

    Comparing ids is several times as fast as comparing words.
    """

    tokens: Objects
    vocabulary: dict[str, int] | None = None  # word -> id; None for characters

    @classmethod
    def of_characters(cls, texts: Iterable[str]) -> TokenSequences:
        return cls(objects(texts))

    @classmethod
    def of_words(cls, texts: Iterable[Iterable[str]]) -> TokenSequences:
        vocabulary: dict[str, int] = {}
        return cls(objects([vocabulary.setdefault(word, len(vocabulary)) for word in words]
                           for words in texts), vocabulary)

    def __len__(self) -> int:
        return len(self.tokens)

    def __getitem__(self, rows: Ints, /) -> TokenSequences:
        return replace(self, tokens=self.tokens[rows])

    @property
    def lengths(self) -> Floats:
        """(N,) number of tokens of each text."""
        return np.array([len(tokens) for tokens in self.tokens], np.float64)

    def numbered_as(self, other: TokenSequences) -> Objects:
        """The tokens, with ids from the vocabulary of other texts."""
        if self.vocabulary is None or other.vocabulary is None or (
                self.vocabulary is other.vocabulary):
            return self.tokens
        known = dict(other.vocabulary)
        number = [known.setdefault(word, len(known)) for word in self.vocabulary]
        return objects([number[token] for token in tokens] for tokens in self.tokens)


class SequenceMetric(Metric[TokenSequences]):
    """A metric that compares texts as sequences of tokens, by a measure of RapidFuzz."""

    measure: ClassVar[str]  # in `rapidfuzz.distance`
    extra = "edit"
    cost = "n · m edit distances"

    def prepare(self) -> None:
        one = self.features(["a"])
        self.scores(one, one)

    def features(self, texts: Sequence[str]) -> TokenSequences:
        return TokenSequences.of_characters(texts)

    def scores(self, hyps: TokenSequences, refs: TokenSequences, source: object = None) -> Floats:
        """(H, R) the measure of every pair."""
        with needs_extra(f"the {self.name!r} metric", self.extra):
            distance, process = (import_module(f"rapidfuzz.{name}")
                                 for name in ("distance", "process"))
        result: Floats = process.cdist(hyps.tokens, refs.numbered_as(hyps), dtype=np.float64,
                                       scorer=attrgetter(self.measure)(distance),
                                       workers=threads())
        return result


@dataclass(frozen=True)
class Edit(SequenceMetric):
    """1 minus the edit distance as a share of the longer text; needs minrisk[edit].

    The normalised Levenshtein similarity of RapidFuzz, 0 to 1.

    Args:
        unit: unit of edits, "character" or "word".
        lowercase: ignore case.

    >>> import minrisk
    >>> edit = minrisk.Edit(unit="word")
    >>> edit.scores(edit.features(["the cat sat down"]), edit.features(["the cat sat there"]))
    array([[0.75]])
    """

    name = "edit"
    papers = ("Levenshtein 1966",)
    measure = "Levenshtein.normalized_similarity"

    unit: Literal["character", "word"] = option("character")
    lowercase: bool = option(False)

    def features(self, texts: Sequence[str]) -> TokenSequences:
        prepared = (text.lower() if self.lowercase else text for text in texts)
        if self.unit == "word":
            return TokenSequences.of_words(text.split() for text in prepared)
        return TokenSequences.of_characters(prepared)


class ErrorRate(SequenceMetric):
    """Minus the number of edits as a percentage of the number of tokens of the reference."""

    measure = "Levenshtein.distance"
    is_error = True
    features_per_segment = True  # keeps vocabularies small

    lowercase: bool
    no_punct: bool

    def features(self, texts: Sequence[str]) -> TokenSequences:
        return self._tokenized([
            normalized(text, self.lowercase, self.no_punct) for text in texts])

    def scores(self, hyps: TokenSequences, refs: TokenSequences, source: object = None) -> Floats:
        """(H, R) minus the error rate of every pair, in percent."""
        return _score(super().scores(hyps, refs), refs.lengths)

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
        edits = super().scores(ours, theirs)[0]
        best = int(np.argmax(_score(edits, theirs.lengths)))
        return edits[best], theirs.lengths[best]


@dataclass(frozen=True)
class Wer(ErrorRate):
    """Word error rate, negated (-100: one edit per word); needs minrisk[edit].

    Insertions, deletions and substitutions of words as a percentage of the words of the reference,
    equal to jiwer's if words are separated by single spaces; here, any white space separates them,
    as in most tokenizers. It is negated, so that higher is better; `minrisk.score` shows it without
    the sign. A reference without words counts as one word.

    Args:
        lowercase: ignore case.
        no_punct: remove punctuation (of any script).

    >>> import minrisk
    >>> wer = minrisk.Wer(lowercase=True)
    >>> wer.scores(wer.features(["The cat sat there"]), wer.features(["the cat sat down"]))
    array([[-25.]])
    """

    name = "wer"
    papers = ("Goel & Byrne 2000",)

    lowercase: bool = option(False)
    no_punct: bool = option(False)

    def _tokenized(self, texts: Sequence[str]) -> TokenSequences:
        return TokenSequences.of_words(text.split() for text in texts)


@dataclass(frozen=True)
class Cer(ErrorRate):
    """Character error rate, negated (-100: one edit per character); needs minrisk[edit].

    Like `Wer`, with characters instead of words; any white space counts as one space.

    Args:
        lowercase: ignore case.
        no_punct: remove punctuation (of any script).
        whitespace: count spaces as characters. False ignores them, as is usual for Chinese and
            Japanese.

    >>> import minrisk
    >>> cer = minrisk.Cer()
    >>> cer.scores(cer.features(["the cap"]), cer.features(["the cats"]))
    array([[-25.]])
    """

    name = "cer"

    lowercase: bool = option(False)
    no_punct: bool = option(False)
    whitespace: bool = option(True)

    def _tokenized(self, texts: Sequence[str]) -> TokenSequences:
        return TokenSequences.of_characters(
            text if self.whitespace else text.replace(" ", "") for text in texts)


def _score(edits: Floats, lengths: Floats) -> Floats:
    """Minus the rate in percent; an empty reference counts as one token."""
    result: Floats = -100 * edits / np.maximum(lengths, 1)
    return result
