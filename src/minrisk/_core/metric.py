"""The base class of metrics: required methods, optional abilities and declared resources."""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import Field, dataclass, replace
from enum import Flag, auto
from functools import partial, reduce, wraps
from operator import and_, or_
from typing import Any, Generic, Protocol, Self, TypeVar

import numpy as np
import numpy.typing as npt

from minrisk._core.arrays import Floats, Ints, Points
from minrisk._core.errors import InputError, not_features
from minrisk._core.groups import Groups
from minrisk._core.lazy import lazy
from minrisk._core.options import Options, inner_field, inner_metrics
from minrisk._core.registry import METRICS, STRATEGIES
from minrisk._core.segment import Ranking, Segment


class Features(Protocol):
    """A metric's representation of a batch of texts; rows can be selected."""

    def __len__(self) -> int: ...

    def __getitem__(self, rows: Ints, /) -> Self: ...


PartialStatistics = npt.NDArray[Any]  # additive over parts of the references

F = TypeVar("F", bound=Features)
F_in = TypeVar("F_in", bound=Features, contravariant=True)


class Ability(Flag):
    """What a metric can do besides scoring pairs; each flag stands for methods of `Metric`."""

    NONE = 0
    AVERAGES = auto()
    PARTIAL_STATISTICS = auto()
    VECTORS = auto()
    QUALITY = auto()
    SURROGATE = auto()
    CORPUS_STATISTICS = auto()
    CHOICE = auto()
    FUSION = auto()

    @property
    def methods(self) -> tuple[str, ...]:
        """The methods of `Metric` that implement it."""
        return tuple(method for ability in self for method in _ABILITIES[ability][1])

    def __str__(self) -> str:
        """The words that complete "a metric that ..." in messages."""
        return " and ".join(_ABILITIES[ability][0] for ability in self)


_ABILITIES = {
    Ability.AVERAGES: ("averages references", ("aggregate",)),
    Ability.PARTIAL_STATISTICS: ("averages references in parts",
                                 ("partial_statistics", "finalize")),
    Ability.VECTORS: ("has vectors to cluster", ("vectors",)),
    Ability.QUALITY: ("judges by the source alone", ("quality",)),
    Ability.SURROGATE: ("has a surrogate to correct", ("surrogate",)),
    Ability.CORPUS_STATISTICS: ("has statistics of a corpus", ("statistics", "corpus")),
    Ability.CHOICE: ("chooses among all hypotheses at once", ("choose",)),
    Ability.FUSION: ("writes a text from all hypotheses", ("fuse",)),
}


def _trait(default: Any = False, combine: Callable[[Iterable[Any]], Any] = any) -> Any:
    """A trait, and how those of several metrics make that of a metric on top of them."""
    return dataclasses.field(default=default, metadata={"combine": combine})


@dataclass(frozen=True)
class Traits:
    """What a metric declares, as class variables or properties (see `Metric`)."""

    abilities: Ability = _trait(Ability.NONE, partial(reduce, and_))
    needs_source: bool = _trait()
    reads_source: bool = _trait()
    ignores_references: bool = _trait(combine=all)
    compares_outcomes: bool = _trait()
    is_vote: bool = _trait(combine=all)
    is_error: bool = _trait(combine=all)
    loads_model: bool = _trait()
    # one model among them suffices to encode whole batches
    features_per_segment: bool = _trait(combine=all)
    needs_segment: bool = _trait()
    compares_hypotheses: bool = _trait()

    @classmethod
    def declared_by(cls, metric: Any) -> Traits:
        """The traits that an object declares, with defaults for the others."""
        declared: dict[str, Any] = {
            f.name: getattr(metric, f.name, f.default) for f in dataclasses.fields(cls)}
        return cls(**declared)

    @classmethod
    def combined(cls, metrics: Iterable[AnyMetric]) -> Traits:
        """The traits of a metric that computes its scores from the scores of these metrics.

        Abilities also require methods of its own, and it is a vote only if it defines `answers`
        (see `DerivedMetric`).
        """
        traits = [cls.declared_by(metric) for metric in metrics]
        return cls(**{f.name: f.metadata["combine"](getattr(one, f.name) for one in traits)
                      for f in dataclasses.fields(cls)})


class Metric(Options, ABC, Generic[F]):
    """A score for every pair of hypothesis and reference; higher is always better.

    A metric is a frozen dataclass whose fields are its options. It has a name, `features` and
    `scores`. The optional methods that it overrides determine its `abilities`. Class variables or
    properties declare the rest, such as what it needs (`needs_source`) and what it costs
    (`loads_model`).

    >>> import numpy as np
    >>> from dataclasses import dataclass
    >>> @dataclass(frozen=True)
    ... class Length(Metric):
    ...     name = "length"
    ...     def features(self, texts):
    ...         return np.array([len(text) for text in texts], float)
    ...     def scores(self, hyps, refs, source=None):
    ...         return -np.abs(hyps[:, None] - refs)
    >>> import minrisk
    >>> minrisk.decode(["a", "abc", "abcdefg"], metric=Length()).text
    'abc'
    """

    def __init_subclass__(cls, **options: Any) -> None:
        """Wrap `scores` of every metric in checks of its arguments and its result."""
        super().__init_subclass__(**options)
        if "scores" in vars(cls):
            cls.scores = _checked_scores(cls.scores)  # type: ignore[method-assign]

    @property
    @abstractmethod
    def name(self) -> str: ...

    @property
    def abilities(self) -> Ability:
        """What it can do besides scoring pairs, derived from the methods that it overrides.

        A metric whose abilities depend on its options overrides this property.
        """
        return implemented_abilities(type(self))

    @property
    def needs_source(self) -> bool:
        """Whether its scores depend on the source; then `scores` gets the features of the source.
        """
        return False

    @property
    def reads_source(self) -> bool:
        """Whether it gets the source of segments that have one, even if it does not require it."""
        return self.needs_source

    @property
    def ignores_references(self) -> bool:
        """Whether its scores are independent of the reference, as in quality estimation."""
        return False

    @property
    def compares_outcomes(self) -> bool:
        """Whether it compares the outcomes of hypotheses (`Segment.outcomes`), not their texts."""
        return False

    @property
    def is_vote(self) -> bool:
        """Whether scores are 1 or 0 because it compares `answers`: MBR is then a majority vote."""
        return False

    @property
    def is_error(self) -> bool:
        """Whether it is a negated error rate; reports restore the sign."""
        return False

    @property
    def loads_model(self) -> bool:
        """Whether it loads a model or starts a program.

        If so, there is one worker, which gets batches of segments; otherwise there is one worker
        per core, which gets one segment at a time.
        """
        return False

    @property
    def features_per_segment(self) -> bool:
        """Whether to extract features segment by segment, not for a batch of segments at once."""
        return False

    @property
    def concurrent_batches(self) -> int:
        """Number of batches to score concurrently in threads, so that the GPU never waits.

        It is read after `prepare`. A wrapper uses the value of its inner metrics.
        """
        return concurrent_batches_of(inner_metrics(self))

    @property
    def needs_segment(self) -> bool:
        """Whether features depend on more than texts; if so, `segment_features` extracts them."""
        return False

    @property
    def compares_hypotheses(self) -> bool:
        """Whether a score depends on the other hypotheses of the segment.

        If so, `segment_features` always gets whole segments, even if few hypotheses are left, and
        the metric cannot be used inside a wrapper.
        """
        return False

    def prepare(self) -> None:
        """Import packages and load models, so that errors appear before the first segment."""
        for part in inner_metrics(self):
            part.prepare()

    def prepare_thread(self) -> None:
        """Prepare a thread that scores batches concurrently with others, before its first batch."""
        for part in inner_metrics(self):
            part.prepare_thread()

    @abstractmethod
    def features(self, texts: Sequence[str]) -> F:
        """The features of the texts, one row per text; rows can be selected."""

    def segment_features(self, segment: Segment, texts: Sequence[str]) -> F:
        """The features of texts of one segment, for metrics that read other fields of it."""
        return self.features(texts)

    def as_given(self, refs: F) -> F:
        """Adapt features to references that were given, rather than sampled.

        A vote may take such a text as the answer as a whole, because gold answers stand alone. In
        a sample, used as a reference, the answer is extracted as in a hypothesis.
        """
        return refs

    @abstractmethod
    def scores(self, hyps: F, refs: F, source: F | None = None) -> Floats:
        """(H, R) the score of every pair."""

    def utility(self, hyps: F, refs: F, mass: Floats, source: F | None = None) -> Floats:
        """(H,) `scores @ mass`; override it to compute this without storing the matrix."""
        return self.scores(hyps, refs, source) @ mass

    def aggregate(self, refs: F, groups: Groups) -> F:
        """G rows: the average reference of each group."""
        raise lacks_ability(self, Ability.AVERAGES)

    def partial_statistics(self, hyps: F, refs: F, weights: Floats) -> PartialStatistics:
        """The statistics of the references that scores against their average depend on.

        They can be pickled, their size does not depend on the number of references, and they are
        linear in the weights: the statistics of the parts add up to those of the whole.
        """
        raise lacks_ability(self, Ability.PARTIAL_STATISTICS)

    def finalize(self, hyps: F, statistics: PartialStatistics, source: F | None = None) -> Floats:
        """(H,) scores against the average of references whose weights sum to 1."""
        raise lacks_ability(self, Ability.PARTIAL_STATISTICS)

    def vectors(self, features: F) -> Points:
        """(N, D) embeddings for clustering, in single or double precision."""
        raise lacks_ability(self, Ability.VECTORS)

    def quality(self, hyps: F, source: F | None) -> Floats:
        """(H,) quality estimates of the hypotheses without references, from the source alone.

        The source is None unless `needs_source`.
        """
        raise lacks_ability(self, Ability.QUALITY)

    def choose(self, hyps: F, counts: Ints, source: F | None) -> int:
        """The row of the best of distinct hypotheses; `counts` has the number of samples of each.
        """
        raise lacks_ability(self, Ability.CHOICE)

    def fuse(self, hyps: F, counts: Ints, source: F | None) -> str | None:
        """A text made of distinct hypotheses; `counts` has the number of samples of each.

        None if it could not be finished.
        """
        raise lacks_ability(self, Ability.FUSION)

    def surrogate(self, hyps: F, refs: F, mass: Floats, source: F | None = None) -> Surrogate[F]:
        """A cheap approximation of the scores, to be corrected by a few exact scores."""
        raise lacks_ability(self, Ability.SURROGATE)

    def statistics(self, hyps: Sequence[str], refs: Sequence[Sequence[str]]) -> Floats:
        """(N, S) sufficient statistics of each hypothesis against all of its references."""
        raise lacks_ability(self, Ability.CORPUS_STATISTICS)

    def corpus(self, statistics: Floats) -> float:
        """The score of a corpus, sentence or resample from the (S,) sum of its statistics."""
        raise lacks_ability(self, Ability.CORPUS_STATISTICS)

    def answers(self, features: F) -> list[str | None] | None:
        """(N,) the normalised answer of each text; texts with the same answer count as one choice.

        None for a text without an answer; None instead of the list if the metric does not extract
        answers. If the metric `is_vote`, a score is 1 exactly if the answers are equal.
        """
        return None

    def agreement(self, scores: Floats, whole: Floats) -> Floats:
        """(H, R) scores rescaled to agreement: 1 for equal texts, 0 for unrelated ones.

        Linear in the score: `whole` (R,), the score of each reference against itself, becomes 1.
        Zero stays 0, but if `whole` is not positive, as for negated error rates, the lowest score
        against the reference becomes 0. If all scores against a reference are equal, all agree;
        but none does if they are 0 and there are positive ones elsewhere.
        """
        none = np.where(whole > 0, 0.0, scores.min(axis=0))
        size = whole - none
        otherwise = np.full_like(scores, scores.max(initial=0) <= 0)
        result: Floats = np.divide(scores - none, size, out=otherwise, where=size > 0)
        return result

    def votes_among(self, features: F) -> Iterator[tuple[AnyMetric, Any]]:
        """The votes among its inner metrics (or itself), each with its own features."""
        if self.is_vote:
            yield self, features

    def details(self, segment: Segment, ranking: Ranking) -> dict[str, Any]:
        """Further fields of the output of a segment, with values that JSON can hold.

        The answer and the votes of a vote are not included: every output has them.
        """
        fields: dict[str, Any] = {}
        for part in inner_metrics(self):
            fields |= part.details(segment, ranking)
        return fields

    def take_usage(self, source: str | None, texts: Iterable[str]) -> Counter[str]:
        """Requests and tokens that scoring these texts took since the last call; resets them.

        A wrapper returns the sum over its inner metrics.
        """
        own = tuple(texts)
        return sum((part.take_usage(source, own) for part in inner_metrics(self)), Counter())

    def fingerprint(self) -> str | None:
        """An identifier of what scores depend on besides the options and the files they name.

        Cached scores are discarded when it changes.
        """
        return None

    def sacrebleu_fields(self, statistics: Floats | None) -> Mapping[str, Any] | None:
        """The options as fields of a sacreBLEU signature, in sacreBLEU's names and order.

        None if such a signature cannot express all options. The statistics (K, S) are those of the
        scored corpora; None if sentences are scored.
        """
        return None


def _checked_scores(scores: Callable[..., Floats]) -> Callable[..., Floats]:
    """The method `scores` with checks of its arguments and its result."""
    @wraps(scores)
    def checked(metric: Any, hyps: Any, refs: Any, source: Any = None) -> Floats:
        for given in (hyps, refs, source):
            if type(given) in (str, list, tuple):  # texts; rows cannot be selected
                raise not_features(given)
        result = scores(metric, hyps, refs, source)
        wanted = (len(hyps), len(refs))
        if np.shape(result) != wanted:
            raise InputError(f"metric {metric.name!r}: `scores` returned an array of shape "
                             f"{np.shape(result)} for {wanted[0]} hypotheses and {wanted[1]} "
                             f"references; expected {wanted}, a row for each hypothesis")
        if (dtype := np.asarray(result).dtype).kind not in "fiub":
            raise InputError(f"metric {metric.name!r}: `scores` returned an array of {dtype}; "
                             "expected real numbers (float64)")
        return result

    return checked


AnyMetric = Metric[Any]


class DerivedMetric(Metric[F]):
    """A metric whose traits are derived from those of other metrics, in `traits`."""

    @property
    @abstractmethod
    def traits(self) -> Traits: ...

    @lazy
    def _traits(self) -> Traits:
        """The traits, limited to the abilities that it has methods for.

        Cached, because each trait needs all traits of the inner metrics, recursively.
        """
        declared, cls = self.traits, type(self)
        return replace(declared, abilities=declared.abilities & implemented_abilities(cls),
                       is_vote=declared.is_vote and cls.answers is not Metric.answers)


def _derived(name: str) -> property:
    return property(lambda metric: getattr(metric._traits, name))


for _field in dataclasses.fields(Traits):
    setattr(DerivedMetric, _field.name, _derived(_field.name))


def reads_segment(metric: AnyMetric) -> bool:
    """Whether `segment_features` extracts its features."""
    return metric.needs_segment or metric.compares_hypotheses


def concurrent_batches_of(metrics: Iterable[AnyMetric]) -> int:
    """The smallest `concurrent_batches` of the metrics that load a model or want threads."""
    numbers = [(metric.concurrent_batches, metric.loads_model) for metric in metrics]
    return min((number for number, loads in numbers if loads or number > 1), default=1)


class Surrogate(Protocol[F_in]):
    """A cheap approximation of the scores against some references, with a known mean."""

    @property
    def mean(self) -> Floats: ...  # (H,)

    def at(self, refs: F_in) -> Floats: ...  # (H, s), at a lower cost than scores


def implemented_abilities(thing: object) -> Ability:
    """The abilities whose methods an object or class overrides."""
    def has(method: str) -> bool:
        own = getattr(thing, method, None)
        return callable(own) and own is not getattr(Metric, method)

    return reduce(or_, (ability for ability in Ability if all(map(has, ability.methods))),
                  Ability.NONE)


def possible_abilities(cls: type) -> Ability:
    """The abilities that metrics of a class have, always or with certain options.

    None for a wrapper, because its abilities depend on the inner metrics.
    """
    return Ability.NONE if inner_field(cls) else implemented_abilities(cls)


def metrics_with(ability: Ability) -> Iterator[str]:
    """The names of all installed metrics that have this ability, some only with an option."""
    return (name for name, cls in METRICS.installed() if ability in possible_abilities(cls))


def required_abilities(strategy: type) -> dict[str, Ability]:
    """The abilities that a strategy class requires of its metrics, by field."""
    fields: tuple[Field[Any], ...] = dataclasses.fields(strategy)
    return {f.name: f.metadata["needs"] for f in fields if "needs" in f.metadata}


def strategies_with(abilities: Ability) -> Iterator[str]:
    """The names of all installed strategies that a metric with these abilities suffices for."""
    return (name for name, cls in STRATEGIES.installed()
            if required_abilities(cls).get("metric", Ability.NONE) in abilities)


def lacks_ability(metric: AnyMetric, ability: Ability, owner: str = "this") -> InputError:
    """The error for a metric that lacks an ability, with metrics and strategies that work."""
    others = ", ".join(metrics_with(ability))
    return InputError(f"{owner} needs a metric that {ability} ({others}); {metric.name!r} does "
                      "not; strategies that work with it: "
                      f"{', '.join(strategies_with(metric.abilities))}")
