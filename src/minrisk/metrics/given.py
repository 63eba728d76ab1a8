"""Scores that are known in advance: a matrix, or log-probabilities of the samples.

The latter are a quality estimate, the baseline of every reranker.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from minrisk._core.arrays import Floats, Objects, objects
from minrisk._core.errors import InputError, Wording
from minrisk._core.weights import check_not_positive
from minrisk.plugins import Metric, Segment, option


@dataclass(frozen=True, eq=False)
class GivenScores(Metric[Objects]):
    """a matrix of scores, with a row for each hypothesis and a column for each reference"""

    name = "matrix"
    features_per_segment = True

    matrix: Floats = field(metadata={"affects_results": False})
    rows: dict[str, int] = field(default_factory=dict, metadata={"affects_results": False})
    columns: dict[str, int] = field(default_factory=dict, metadata={"affects_results": False})

    @classmethod
    def for_segment(cls, matrix: Any, segment: Segment) -> GivenScores:
        """The scores of this segment; for equal texts, the first row or column is used."""
        try:
            scores = np.asarray(matrix, np.float64)
        except (TypeError, ValueError, OverflowError) as error:
            raise InputError(f"matrix must be an array of scores; {error}") from None
        sides = [segment.hypotheses], [segment.references]
        if segment.self_columns is not None:  # a column may stand for all copies of a sample
            sides[1].append(segment.hypotheses)
        places = [_places(scores.shape[axis] if scores.ndim == 2 else 0, lists)
                  for axis, lists in enumerate(sides)]
        if places[0] is None or places[1] is None:
            raise InputError(f"matrix has the shape {scores.shape}; expected "
                             f"({len(segment.hypotheses)}, {len(segment.references)}), a row for "
                             "each hypothesis and a column for each reference, or for each "
                             "distinct one")
        return cls(scores, places[0], places[1])

    def features(self, texts: Sequence[str]) -> Objects:
        return objects(texts)

    def scores(self, hyps: Objects, refs: Objects, source: object = None) -> Floats:
        """(H, R)"""
        try:
            matrix: Floats = self.matrix[np.ix_([self.rows[text] for text in hyps],
                                               [self.columns[text] for text in refs])]
        except KeyError as error:
            raise InputError(f"matrix has no scores of {error}; choose a strategy that scores "
                             "hypotheses against references only, or give a metric") from None
        return matrix


def _places(size: int, lists: Sequence[Sequence[str]]) -> dict[str, int] | None:
    """The index of each text in the list of this size, or among its distinct texts; None if no
    list matches.
    """
    for texts in lists:
        for candidates in (list(texts), list(dict.fromkeys(texts))):
            if len(candidates) == size:
                return {text: place for place, text in reversed(list(enumerate(candidates)))}
    return None


@dataclass(frozen=True)
class LogProb(Metric[Floats]):
    """Log-probability under the model that sampled a hypothesis, per token or in total.

    With `rerank` it chooses the most probable sample; with `quality-then-mbr` or `mbr-bon` it is a
    reward that needs no further model. The log-probabilities are those of the segments
    (`logprobs`), as `minrisk sample` writes them.

    Args:
        normalise: divide by the length in tokens; in characters, if a segment has no `lengths`.

    Raises:
        InputError: when it is used, if a segment has no log-probabilities of its hypotheses, or
            one above 0.

    >>> import minrisk
    >>> samples = ["yes", "no, not at all"]
    >>> minrisk.decode(samples, logprobs=[-2, -3], strategy="rerank", metric="logprob").text
    'yes'
    >>> mean = minrisk.Rerank(minrisk.LogProb(normalise=True))
    >>> minrisk.decode(samples, logprobs=[-2, -3], lengths=[1, 6], strategy=mean).text
    'no, not at all'
    """

    name = "logprob"
    cost = "none: samples have their log-probabilities"
    ignores_references = True
    needs_segment = True

    normalise: bool = option(False)

    def features(self, texts: Sequence[str]) -> Floats:
        raise InputError("metric 'logprob' does not judge texts alone; it needs segments with "
                         "log-probabilities")

    def segment_features(self, segment: Segment, texts: Sequence[str]) -> Floats:
        """(N,) log-probabilities of hypotheses; NaN for texts that are only references."""
        if segment.logprobs is None:
            raise InputError(Wording("metric 'logprob' needs the log-probability of every "
                                     "hypothesis; give logprobs (which weights='uniform' "
                                     "ignores), or use a sampler that returns them"))
        check_not_positive(segment.logprobs)
        known: dict[str, float] = {}
        for text, logprob in zip(segment.hypotheses, self._values(segment).tolist(), strict=True):
            known[text] = max(logprob, known.get(text, -np.inf))  # equal texts share the highest
        return np.array([known.get(text, np.nan) for text in texts])

    def _values(self, segment: Segment) -> Floats:
        assert segment.logprobs is not None
        if not self.normalise:
            return segment.logprobs
        lengths = (np.array([len(text) for text in segment.hypotheses], np.float64)
                   if segment.lengths is None else segment.lengths)
        # at least 1, because even an empty text has an end-of-sequence token
        result: Floats = segment.logprobs / np.maximum(lengths, 1)
        return result

    def scores(self, hyps: Floats, refs: Floats, source: object = None) -> Floats:
        """(H, R) the same score for every reference."""
        return np.tile(hyps[:, None], len(refs))

    def quality(self, hyps: Floats, source: object) -> Floats:
        return hyps
