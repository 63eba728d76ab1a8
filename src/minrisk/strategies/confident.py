"""The confidence of a ranking in its choice: would the choice be the same with many more samples?

It is computed from the posterior of the utilities, or of the probabilities of answers, given the
references. The score of a hypothesis against itself is not evidence, because the hypothesis is
among the references only because it was drawn.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from math import lgamma, sqrt
from statistics import NormalDist
from typing import Any

import numpy as np
import numpy.typing as npt

from minrisk._core.arrays import Floats, Ints, first_places
from minrisk._core.lazy import lazy
from minrisk._core.segment import TIE, Confidence, Ranking, Segment
from minrisk._core.strategy import (
    MeasuringStrategy,
    ScoreSource,
    averages_scores,
    last_stage,
    score_source,
)
from minrisk._core.token_confidence import CONFIDENCES
from minrisk.plugins import Pool, option

MAX_CONTENDERS = 20  # distinct choices that are compared; lower ranks hardly ever win
# degrees of freedom of variances from three samples or fewer, which have none; tuned on real data
_MIN_FREEDOM = 0.25
# weight, as another answer, of a sample without an answer: on real data, 1 is too cautious, and
# with 0 a single vote among such samples would have a probability of a half
_UNANSWERED = 0.5
_REACH, _STEP = 4.5, 0.02  # of the integral over the square root of gamma variables
_Z = NormalDist().inv_cdf(0.975)  # for 95% intervals
_MAX_COMPARED = 64  # texts of which models are compared, if a model compares them


@dataclass(frozen=True)
class Confident(MeasuringStrategy):
    """Adds a confidence to the rankings of another strategy.

    The first 20 distinct choices of the ranking (texts, or answers if the metric extracts them) are
    scored against all references. The probability is that the choice is the best of them in the
    limit of many references, given these references. So it covers both the error of an approximate
    strategy and that of a finite sample. It costs 20 * m further evaluations. In a vote, it is the
    probability that no other answer, seen or unseen, is more probable. Strategies whose utilities
    are not means of scores over references, such as `rerank`, get a margin, and a reason why there
    is no probability. If the samples are of several models, it adds how far these disagree, which
    compares all texts with all.

    Args:
        strategy: the strategy whose choice is assessed.
        resamples: number of draws from the posterior; votes need none.
        seed: seed of the draws.

    >>> import minrisk
    >>> samples = ["a cat sat", "the cat sat", "cats sit", "the cat sat"]
    >>> strategy = minrisk.Confident(minrisk.Standard("chrf"))
    >>> minrisk.decode(samples, strategy=strategy).confidence.probability > 0.5
    True
    """

    resamples: int = option(1000, ge=1)
    seed: int = option(0, ge=0)

    def measured(self, ranking: Ranking, pool: Pool[Any]) -> Ranking:
        choices = pool.answer_labels()
        # the first hypothesis of each distinct choice, by rank
        rows = ranking.order[first_places(choices[ranking.order])[:MAX_CONTENDERS]]
        first, second = ranking.utility[rows[:2]] if rows.size > 1 else (np.nan, np.nan)
        same = choices == choices[ranking.best]
        logprob = _token_logprob(pool.segment, same)
        found: dict[str, Any] = {"margin": float(first - second), "probability": np.nan}
        reason = _obstacle(pool, bool(choices[ranking.best] >= 0))
        if self._source is None:
            reason = (f"the utilities of {last_stage(self.strategy).name!r} are not declared to be "
                      "means of scores over the references")
        agreement = None
        if self._source is None or reason is not None:
            found["reason"] = reason
        elif pool.metric.is_vote and self._averages_scores:
            found |= self._of_vote(pool.keep(rows[choices[rows] >= 0]))
            agreement = found["share"]
        else:
            contenders = pool.keep(rows)
            columns, mass = contenders.distinct_references()
            scores = self._source.reference_scores(contenders, columns)
            found["probability"] = self._of_utilities(contenders, scores, columns, mass)
            if logprob is not None:
                agreement = _agreement(contenders, scores, columns, mass)
        confidence = Confidence(
            **found, gain=_gain(ranking, pool.segment), logprob=logprob,
            disagreement=None if self._source is None else _disagreement(pool),
            cocoa=None if logprob is None or agreement is None
            else max(0.0, -logprob * (1 - agreement)),
            **_confidences(pool.segment, same))
        return replace(ranking, confidence=confidence, pairs=ranking.pairs + pool.tally.pairs)

    @lazy
    def _source(self) -> ScoreSource | None:
        return score_source(self.strategy)

    @lazy
    def _averages_scores(self) -> bool:
        return averages_scores(self.strategy)

    def _of_utilities(self, contenders: Pool[Any], scores: Floats, columns: Ints,
                      mass: Floats) -> float:
        """The probability that the first of the contenders is the best."""
        mean, deviations, scale = _utilities(scores, mass, _own_shares(contenders, columns, mass),
                                             _effective_number(contenders))
        values, vectors = np.linalg.eigh((deviations * mass) @ deviations.T * scale)
        # the symmetric root is unique; eigenvectors are not, and differ between CPUs
        root = (vectors * np.sqrt(np.maximum(values, 0))) @ vectors.T
        drawn = root @ _normal(self.seed, self.resamples)[:mean.size]
        drawn += mean[:, None]
        return _share_of_wins(drawn, _same_as_first(scores))

    def _of_vote(self, answers: Pool[Any]) -> dict[str, Any]:
        """The probability that the first answer is the most probable one, and its share."""
        number = _effective_number(answers)
        shares = answers.utility()
        votes = shares * number
        share = float(shares[0])
        # each sample without a known answer has an answer of its own, and one more is still unseen
        unseen = 1 + _UNANSWERED * max(0.0, 1 - float(shares.sum())) * number
        return {"probability": first_is_largest(votes, unseen), "share": share,
                "interval": share_interval(share, number, answers.segment.self_columns is not None)}


def first_is_largest(votes: Floats, unseen: float) -> float:
    """The probability that the first answer is more probable than the others and `unseen` ones.

    The posterior of the probabilities is a Dirichlet distribution with the votes, and 1 for each
    unseen answer: independent gamma variables, which are integrated numerically. The square root of
    each has a standard deviation of about a half, whatever its votes.

    Args:
        votes: for each answer.
        unseen: number of answers that no sample gave.

    >>> round(first_is_largest(np.array([2.0]), 4), 3)
    0.457
    """
    if votes[0] < TIE:
        return 0.0
    # gamma variables of single votes are exponential, like those of unseen answers
    is_single = np.abs(votes[1:] - 1) < TIE
    unseen += np.count_nonzero(is_single)
    shapes = np.append(votes[0], votes[1:][~is_single & (votes[1:] >= TIE)])
    roots = np.sqrt(shapes)
    root = np.arange(max(0.0, roots[0] - _REACH) + _STEP / 2, roots.max() + _REACH, _STEP)
    gammas = np.array([lgamma(shape) for shape in shapes])[:, None]
    masses = 2 * _STEP * np.exp((2 * shapes[:, None] - 1) * np.log(root) - root**2 - gammas)
    above = np.cumsum(masses[1:, ::-1], axis=1)[:, ::-1] - masses[1:] / 2
    below = np.maximum(1 - above, 0).prod(axis=0) * (-np.expm1(-root**2)) ** unseen
    return min(1.0, float(masses[0] @ below / masses[0].sum()))  # rounding may exceed 1


def _gain(ranking: Ranking, segment: Segment) -> float | None:
    """The utility of the choice minus that of a random sample; None if some have no utility."""
    if not np.isfinite(ranking.utility).all():
        return None
    own = segment.self_columns
    mass = segment.counts / segment.counts.sum() if own is None else (
        segment.counts * segment.weights[own])
    return float(ranking.utility[ranking.best] - ranking.utility @ mass)


def _token_logprob(segment: Segment, same: npt.NDArray[np.bool_]) -> float | None:
    """The mean log-probability of a token, over the samples that are the same choice."""
    if segment.logprobs is None or not np.isfinite(segment.logprobs[same]).all():
        return None
    lengths = (np.array([len(text) for text in segment.hypotheses]) if segment.lengths is None
               else segment.lengths)
    per_token = segment.logprobs / np.maximum(lengths, 1)
    return float(np.average(per_token[same], weights=segment.counts[same]))


def _confidences(segment: Segment, same: npt.NDArray[np.bool_]) -> dict[str, Any]:
    """What tokens say, as means over the samples that are the same choice."""
    return {name: float(np.average(segment.confidences[plural][same], weights=segment.counts[same]))
            for name, plural in CONFIDENCES.items() if plural in segment.confidences}


def _agreement(contenders: Pool[Any], scores: Floats, columns: Ints, mass: Floats) -> float | None:
    """The mean agreement of the references with the first hypothesis; None if it is none of them.
    """
    own = np.flatnonzero(contenders.ref_rows[columns] == contenders.hyp_rows[0])
    if not own.size:
        return None
    agreement = contenders.metric.agreement(scores, np.full(columns.size, scores[0, own[0]]))
    return float(mass @ np.minimum(np.maximum(agreement[0], 0), 1))


def _disagreement(pool: Pool[Any]) -> float | None:
    """The disagreement of several models in a segment; None if it has samples of one only."""
    models, own = pool.segment.models, pool.segment.self_columns
    names = sorted({name for name in models or () if name is not None})
    if models is None or own is None or len(names) < 2:
        return None
    distinct, _ = pool.distinct_hypotheses()
    size = len(distinct.hyp_rows)
    if pool.metric.loads_model and size > _MAX_COMPARED:
        distinct = distinct.keep(np.linspace(0, size - 1, _MAX_COMPARED).astype(int))
    columns = distinct.segment.self_columns
    assert columns is not None
    scores = distinct.scores(columns)
    agreement = np.clip(scores if pool.metric.is_vote  # 0 also for two texts without an answer
                        else pool.metric.agreement(scores, scores.diagonal()), 0, 1)
    is_text = pool.ref_rows == distinct.hyp_rows[:, None]  # (D, R)
    is_model = np.array(models, object) == np.array(names, object)[:, None]  # (M, R)
    # samples without an answer agree with none; texts that are left out do not count
    counted = is_text.any(axis=0) | ~np.isin(pool.ref_rows, pool.hyp_rows)
    return disagreement(agreement, is_model @ is_text.T.astype(np.float64),
                        (is_model & counted).sum(axis=1))


def disagreement(agreement: Floats, counts: Floats, sizes: Ints) -> float | None:
    """One minus the mean agreement between models, as a share of that within models.

    For votes this is one minus Morisita's index of overlap (1959): 0 if the answers of all models
    have the same distribution, 1 if no answer is shared. Each model, and each pair of models, has
    the same weight; a sample is not compared with itself.

    Args:
        agreement: (D, D) of texts with texts, from 0 to 1.
        counts: (M, D) samples of each model with each text.
        sizes: (M,) samples of each model, including those that agree with none.

    Returns:
        From 0 to 1; None if no model has two samples that agree.

    >>> same, different = np.array([[3, 1], [3, 1]]), np.array([[4, 0], [0, 4]])
    >>> [disagreement(np.eye(2), counts, np.array([4, 4])) for counts in (same, different)]
    [0.0, 1.0]
    """
    pairs = np.outer(sizes, sizes) - np.diag(sizes)
    summed = counts @ agreement @ counts.T - np.diag(counts @ agreement.diagonal())
    mean = np.divide(summed, pairs, out=np.full(pairs.shape, np.nan), where=pairs > 0)
    is_same = np.eye(len(sizes), dtype=bool)
    within, between = mean[is_same & (pairs > 0)], mean[~is_same & (pairs > 0)]
    if not (within.size and within.mean() > 0):
        return None
    return float(np.clip(1 - between.mean() / within.mean(), 0, 1))


def share_interval(share: float, number: float, is_own: bool = True) -> tuple[float, float]:
    """The 95% interval of the probability of the leading answer, by its share of the samples.

    It is a Wilson interval. If the answer is a candidate because a sample gave it (`is_own`), it
    may lead by luck; the lower bound then ignores that sample.
    """
    first = 1.0 if is_own else 0.0
    rest = max(number - first, TIE)
    low = _wilson(max(share * number - first, 0.0) / rest, rest, -1)
    return max(low, 0.0), min(_wilson(share, number, 1), 1.0)


def _wilson(share: float, number: float, sign: int) -> float:
    middle = share + _Z * _Z / (2 * number)
    half = _Z * sqrt(max(share * (1 - share), 0.0) / number + (_Z / (2 * number)) ** 2)
    return (middle + sign * half) / (1 + _Z * _Z / number)


def _obstacle(pool: Pool[Any], has_answer: bool) -> str | None:
    """The reason why there is no probability, if any."""
    if not has_answer:
        return "the metric finds no answer in the choice"
    # a single hypothesis is a certain choice
    is_alone = np.count_nonzero(pool.segment.weights) == 1 and len(np.unique(pool.hyp_rows)) > 1
    return "a single reference does not say how far references differ" if is_alone else None


def _effective_number(pool: Pool[Any]) -> float:
    """The effective number of references: that of equally weighted ones with the same variance."""
    weights = pool.segment.weights
    return float(1 / (weights @ weights))


def _own_shares(pool: Pool[Any], columns: Ints, mass: Floats) -> Floats | None:
    """(H, columns) the share of each reference that is the hypothesis itself; None if none is."""
    own = pool.segment.self_columns
    if own is None:
        return None
    is_own = pool.hyp_rows[:, None] == pool.ref_rows[columns]
    shares: Floats = is_own * pool.segment.weights[own][:, None] / mass
    return shares


def _utilities(scores: Floats, mass: Floats, own: Floats | None,
               number: float) -> tuple[Floats, Floats, float]:
    """Utilities up to a constant, (H, columns) deviations of the scores, and their factor.

    The factor turns the weighted covariance of the deviations into the posterior covariance of the
    utilities. Each reference's mean score is subtracted, because it does not affect the ranking. A
    hypothesis's score against itself is replaced by its mean against the others.
    """
    if own is None:
        mean = scores @ mass
        return mean, scores - mean[:, None], _factor(number)
    others = own == 0
    centre = (scores * others).sum(axis=0) / np.maximum(others.sum(axis=0), 1)
    differences = scores - centre
    left = mass * (1 - own)
    mean = (differences * left).sum(axis=1) / np.maximum(left.sum(axis=1), TIE)
    # for each pair of hypotheses, two references are the hypotheses themselves
    return mean, (differences - mean[:, None]) * (1 - own), _factor(number, 2)


def _factor(number: float, missing: int = 0) -> float:
    """The variance of a mean, as a multiple of the mean square of the deviations, some 0."""
    freedom = max(number - missing - 1, _MIN_FREEDOM)
    return number / ((freedom + 1) * freedom)


def _same_as_first(scores: Floats) -> Ints:
    """The rows whose scores equal those of the first, within rounding."""
    apart = np.abs(scores - scores[0]).max(axis=1)
    return np.flatnonzero(apart <= TIE * np.abs(scores).max())


def _share_of_wins(drawn: Floats, same: Ints) -> float:
    """The share of draws in which the first row, or an equal one, is the largest; ties are split.

    Overwrites the draws of these rows.
    """
    ours = drawn[same].max(axis=0)
    drawn[same] = -np.inf
    ahead = ours - drawn.max(axis=0)
    tie = TIE * float(np.abs(ours).max())
    is_tie = np.abs(ahead) <= tie
    tied = np.count_nonzero(drawn[:, is_tie] >= ours[is_tie] - tie, axis=0)
    wins = int(np.count_nonzero(ahead > tie)) + float((1 / (1 + tied)).sum())
    return float(wins / ahead.size)


@lru_cache(maxsize=4)
def _normal(seed: int, draws: int) -> Floats:
    """(20, draws) normal variables, shared by all segments."""
    normal = np.random.default_rng(seed).standard_normal((MAX_CONTENDERS, draws))
    normal.flags.writeable = False
    return normal
