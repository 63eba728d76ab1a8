"""What a metric must offer, and what it may."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, Self, TypeVar, runtime_checkable

import numpy.typing as npt

from minrisk.arrays import Floats, Ints, Points
from minrisk.groups import Groups
from minrisk.options import inner_metrics
from minrisk.segment import Ranking, Segment


class Features(Protocol):
    """A batch of texts as one metric sees them."""

    def __len__(self) -> int: ...

    def __getitem__(self, rows: Ints, /) -> Self: ...


Evidence = npt.NDArray[Any]  # what references say of given hypotheses; parts of it add up

F = TypeVar("F", bound=Features)
F_in = TypeVar("F_in", bound=Features, contravariant=True)


class Metric(Protocol[F]):
    """A score for every pair of hypothesis and reference; higher is always better.

    A metric may also set `needs_source = True` (its scores get the source's features),
    `features_per_segment = True` (its features are cheaper to use when they are extracted for
    one segment at a time rather than for a whole batch, as with n-gram indices), and
    `is_error = True` (it negates an error, which reports show with its own sign).
    """

    @property
    def name(self) -> str: ...

    def features(self, texts: Sequence[str]) -> F: ...

    def scores(self, hyps: F, refs: F, source: F | None = None) -> Floats: ...  # (H, R)


@runtime_checkable
class Aggregates(Protocol[F]):
    """References can be averaged before they are scored."""

    def aggregate(self, refs: F, groups: Groups) -> F: ...  # G rows


@runtime_checkable
class AggregatesParts(Protocol[F_in]):
    """References can be averaged in parts, each forgotten but for what it says of the hypotheses.

    An evidence can be pickled, grows with the hypotheses and not with the references, and is
    linear in the weights: those of several parts add up to that of the whole.
    """

    def evidence(self, hyps: F_in, refs: F_in, weights: Floats) -> Evidence: ...

    def verdict(self, hyps: F_in, evidence: Evidence, source: F_in | None = None) -> Floats:
        """(H,) scores against the average of references whose weights sum to 1."""


@runtime_checkable
class HasUtility(Protocol[F_in]):
    """Reduces `scores @ mass` itself, without ever holding the (H, R) matrix."""

    def utility(
        self, hyps: F_in, refs: F_in, mass: Floats, source: F_in | None = None
    ) -> Floats: ...


@runtime_checkable
class HasVectors(Protocol[F_in]):
    """Texts are points in a space where neighbours mean nearly the same: for clustering."""

    def vectors(self, features: F_in) -> Points: ...  # (N, D) in single or double precision


@runtime_checkable
class Quality(Protocol[F_in]):
    """Judges a hypothesis by its source alone, without references; sets `needs_source`."""

    def quality(self, hyps: F_in, source: F_in) -> Floats: ...  # (H,)


@runtime_checkable
class HasStatistics(Protocol):
    """The score of a corpus is no mean of its sentences': it comes of statistics that add up."""

    def statistics(self, hyps: Sequence[str], refs: Sequence[Sequence[str]]) -> Floats:
        """(N, S) a row for each hypothesis against all of its references."""

    def corpus(self, statistics: Floats) -> float:
        """The score of the corpus (or sentence, or resample) whose rows add up to these (S,)."""


@runtime_checkable
class InSacreBLEU(HasStatistics, Protocol):
    """One of sacreBLEU's metrics, with its numbers."""

    def sacrebleu_fields(self, statistics: Floats | None) -> Mapping[str, Any] | None:
        """What sacreBLEU's signature says of the options, in its words and order.

        None where it could not say all of them. The statistics (K, S) are of the corpora that
        are scored; None where their sentences are.
        """


@runtime_checkable
class HasAnswers(Protocol[F_in]):
    """Judges a text by the answer in it: texts with the same answer are the same choice."""

    def answers(self, features: F_in) -> list[str | None]: ...  # (N,), None without an answer


@runtime_checkable
class HasDetails(Protocol):
    """Can say more of a choice than its utility."""

    def details(self, segment: Segment, ranking: Ranking) -> dict[str, Any]:
        """Fields for the output, by name; JSON must be able to hold them."""


@runtime_checkable
class HasFingerprint(Protocol):
    """Its scores depend on more than its options and the files that these name."""

    def fingerprint(self) -> str:
        """Changes when the scores may: what is kept of them on disk is then not used again."""


class Surrogate(Protocol[F_in]):
    """A stand-in for the scores against some references, whose mean over them is known."""

    @property
    def mean(self) -> Floats: ...  # (H,)

    def at(self, refs: F_in) -> Floats: ...  # (H, s), for less than scores cost


@runtime_checkable
class HasSurrogate(Protocol[F_in]):
    """Has a surrogate of its scores, close enough that few real ones correct it."""

    def surrogate(
        self, hyps: F_in, refs: F_in, mass: Floats, source: F_in | None = None
    ) -> Surrogate[F_in]: ...


def utility(metric: Metric[F], hyps: F, refs: F, mass: Floats, source: F | None = None) -> Floats:
    """(H,) expected score of each hypothesis over references of the given mass."""
    if isinstance(metric, HasUtility):
        result: Floats = metric.utility(hyps, refs, mass, source)
        return result
    return metric.scores(hyps, refs, source) @ mass


AnyMetric = Metric[Any]


def details(metric: AnyMetric, segment: Segment, ranking: Ranking) -> dict[str, Any]:
    """What a metric, or a metric inside it, says of a choice beside its utility."""
    if isinstance(metric, HasDetails):
        return metric.details(segment, ranking)
    found: dict[str, Any] = {}
    for part in inner_metrics(metric):
        found |= details(part, segment, ranking)
    return found
