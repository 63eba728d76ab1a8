"""The interface of strategies, the resources that they need, and their random streams."""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from minrisk._core.adapters import as_metric, metric_option
from minrisk._core.arrays import Floats, Ints
from minrisk._core.batch import as_batch, bind
from minrisk._core.errors import InputError, brief
from minrisk._core.metric import Ability, AnyMetric, Metric, required_abilities
from minrisk._core.options import Options
from minrisk._core.pool import Pool
from minrisk._core.segment import Ranking, Segment

Whole = Literal["references", "hypotheses", "pairs"]
MODEL_BATCH = 16  # segments per batch if a metric loads a model


@runtime_checkable
class Strategy(Protocol):
    """A decoding strategy: it ranks the hypotheses of a batch of segments.

    A strategy is a frozen dataclass whose fields are its options, metrics and stages. It derives
    from `Options` or from nothing; docs/extend.md has an example.
    """

    @property
    def name(self) -> str: ...

    @property
    def metric(self) -> AnyMetric:
        """The metric of the last stage, which defines the utilities."""

    def rank(self, segments: Sequence[Segment]) -> list[Ranking]:
        """The ranking of the hypotheses of each segment, in the order of the segments."""


@dataclass(frozen=True)
class PoolStrategy(Options, ABC):
    """A strategy that ranks each segment by itself, from its features by the metric.

    Args:
        metric: the metric, its name or class, or a function.
    """

    metric: AnyMetric = metric_option()

    def rank(self, segments: Sequence[Segment]) -> list[Ranking]:
        return [self.rank_pool(pool) for pool in bind(self.metric, segments)]

    @abstractmethod
    def rank_pool(self, pool: Pool[Any]) -> Ranking:
        """The ranking of the hypotheses of one segment."""


@runtime_checkable
class ScoreSource(Protocol):
    """A strategy whose utilities are means of scores that it provides, as confidence requires."""

    def reference_scores(self, pool: Pool[Any], columns: Ints) -> Floats:
        """(H, columns) scores whose weighted means over references the utilities estimate."""


class MeanUtility:
    """A strategy whose utilities are mean scores over the references, or estimates of them."""

    def reference_scores(self, pool: Pool[Any], columns: Ints) -> Floats:
        """(H, columns) scores whose weighted means over references the utilities estimate."""
        return pool.scores(columns)


def as_strategy(value: Any, field: str = "strategy") -> Strategy:
    """The value if it is a strategy; otherwise raises an InputError."""
    if isinstance(value, Strategy) and not isinstance(value, type):
        return value
    raise InputError(f"{field} must be a strategy or the name of one; got {brief(value)}")


def stage_option(default: Any = dataclasses.MISSING, *, help: str = "") -> Any:
    """Declare a field of a strategy that holds another strategy, which is one of its stages."""
    def convert(config: Any, name: str, value: Any) -> Strategy:
        return as_strategy(value, name)

    return dataclasses.field(default=default, metadata={"help": help, "convert": convert})


@dataclass(frozen=True)
class StrategyWrapper(Options):
    """A strategy with the name and the metric of the strategy inside."""

    strategy: Strategy = stage_option()

    @property
    def name(self) -> str:
        return self.strategy.name

    @property
    def metric(self) -> AnyMetric:
        return self.strategy.metric

    @property
    def leave_self_out(self) -> bool:
        return leaves_self_out(self.strategy)


class MeasuringStrategy(StrategyWrapper, ABC):
    """A wrapper that adds a measurement to each ranking of its field `strategy`."""

    def rank(self, segments: Sequence[Segment]) -> list[Ranking]:
        batch = as_batch(segments)
        rankings = self.strategy.rank(batch)
        return [self.measured(ranking, pool) for ranking, pool
                in zip(rankings, batch.pools(self.metric), strict=True)]

    @abstractmethod
    def measured(self, ranking: Ranking, pool: Pool[Any]) -> Ranking:
        """The ranking with the measurement; `pairs` includes those of the measurement."""


class WeightingStrategy(StrategyWrapper, ABC):
    """A wrapper that weights the references anew for its field `strategy`."""

    def rank(self, segments: Sequence[Segment]) -> list[Ranking]:
        return self.strategy.rank(self.weighted(segments))

    @abstractmethod
    def weighted(self, segments: Sequence[Segment]) -> list[Segment]:
        """The segments with the weights that the ranking is for."""


@dataclass(frozen=True)
class Budget:
    """An option of a strategy and the values that `validate` tries: its class variable `tried`.

    With `of`, values are shares of the number of references, hypotheses or pairs, and with a share
    of 1 the strategy equals standard MBR. Otherwise they are values of the option. An option that
    is itself a share of pairs takes the share.
    """

    option: str
    of: Whole | None = None
    values: tuple[float, ...] = tuple(2.0**-i for i in range(1, 21))  # as in Vamvas & Sennrich 2024


def leaves_self_out(strategy: Strategy) -> bool:
    """Whether it skips the pair of a hypothesis with itself."""
    return bool(getattr(strategy, "leave_self_out", False))


def check_rankings(name: str, rankings: Sequence[Ranking], segments: Sequence[Segment]) -> None:
    """Raise InputError unless there is a complete ranking for each segment."""
    if not isinstance(rankings, Sequence):
        raise InputError(f"strategy {name!r}: `rank` returned {type(rankings).__name__}; expected "
                         "a list with a ranking for each segment")
    if len(rankings) != len(segments):
        raise InputError(f"strategy {name!r}: `rank` returned {len(rankings)} rankings for "
                         f"{len(segments)} segments; expected one for each")
    for ranking, segment in zip(rankings, segments, strict=True):
        count = len(segment.hypotheses)
        if not isinstance(ranking, Ranking):
            raise InputError(f"strategy {name!r}: `rank` returned a list with "
                             f"{type(ranking).__name__}; expected a Ranking for each segment")
        if np.shape(ranking.order) != (count,) or np.shape(ranking.utility) != (count,):
            raise InputError(f"strategy {name!r}: found a ranking with an order of "
                             f"{np.size(ranking.order)} and utilities of "
                             f"{np.size(ranking.utility)} hypotheses; expected {count}, one for "
                             "each")
        if not np.array_equal(np.sort(ranking.order), np.arange(count)):
            raise InputError(f"strategy {name!r}: found a ranking with the order "
                             f"{brief(list(ranking.order))}; expected each hypothesis once")


def metrics_of(strategy: Strategy) -> list[AnyMetric]:
    """All distinct metrics of a strategy and its stages, that of the last stage first."""
    distinct: list[AnyMetric] = []
    for metric in all_metrics(strategy):
        if metric not in distinct:
            distinct.append(metric)
    return distinct


def all_metrics(strategy: Strategy) -> Iterator[AnyMetric]:
    """The metrics of a strategy and its stages, without deduplication."""
    yield as_metric(strategy.metric)
    fields: tuple[dataclasses.Field[Any], ...] = ()
    if dataclasses.is_dataclass(strategy):
        fields = dataclasses.fields(strategy)
    for f in fields:
        value = getattr(strategy, f.name)
        if isinstance(value, Metric):
            yield value
        elif isinstance(value, Strategy):
            yield from all_metrics(value)


def take_usage(metrics: Iterable[AnyMetric], segment: Segment) -> Counter[str]:
    """Requests and tokens that judges took for a segment since the last call; resets them."""
    texts = (*segment.hypotheses, *segment.references)
    return sum((metric.take_usage(segment.source, texts) for metric in metrics), Counter())


def last_stage(strategy: Strategy) -> Strategy:
    """The stage whose utilities the ranking has; the strategy itself if it has no stages."""
    if not dataclasses.is_dataclass(strategy):
        return strategy
    stages = [value for f in dataclasses.fields(strategy)
              if isinstance(value := getattr(strategy, f.name), Strategy)]
    return last_stage(stages[-1]) if stages else strategy


def compares_texts(strategy: Strategy) -> bool:
    """Whether its utilities come from pairs of texts, not from quality estimates or a choice."""
    last = last_stage(strategy)
    needs = (required_abilities(type(last)).get("metric", Ability.NONE)
             if dataclasses.is_dataclass(last) else Ability.NONE)
    return not (last.metric.ignores_references or needs & (Ability.QUALITY | Ability.CHOICE))


def averages_scores(strategy: Strategy) -> bool:
    """Whether its utilities are just mean scores by its metric."""
    return isinstance(last_stage(strategy), MeanUtility) and compares_texts(strategy)


def score_source(strategy: Strategy) -> ScoreSource | None:
    """The stage that provides the scores of which its utilities are means, or None."""
    last = last_stage(strategy)
    return last if isinstance(last, ScoreSource) and compares_texts(strategy) else None


def proposes(strategy: Strategy) -> bool:
    """Whether its rankings have a `Proposal`: an answer that need not be one of the samples."""
    return bool(getattr(last_stage(strategy), "proposes", False))


def loads_model(strategy: Strategy) -> bool:
    """Whether one of its metrics loads a model; if not, one worker per core is cheap."""
    return any(metric.loads_model for metric in metrics_of(strategy))


def batch_size_of(strategy: Strategy) -> int:
    """The preferred number of segments per batch: 16 if a metric loads a model, otherwise 1."""
    return MODEL_BATCH if loads_model(strategy) else 1


def prepare_thread(strategy: Strategy) -> None:
    """Prepare a thread that ranks batches concurrently with others."""
    for metric in metrics_of(strategy):
        metric.prepare_thread()


def prepare(strategy: Strategy) -> None:
    """Load the models of its metrics, before the first segment.

    Raises:
        MissingExtra: if a package is not installed.
        InputError: if a model does not exist or cannot be read.
    """
    for metric in metrics_of(strategy):
        metric.prepare()


def segment_rng(seed: int, segment: Segment) -> np.random.Generator:
    """Return the random generator of a segment; it does not depend on batches or workers.

    >>> one, same, other = (segment_rng(0, Segment(["a"], position=i)).random() for i in (3, 3, 4))
    >>> one == same, one == other
    (True, False)
    """
    return np.random.default_rng([seed, segment.position])


def shuffled(segment: Segment, rng: np.random.Generator | None) -> Ints:
    """(R,) rows of the references in random order, or in input order without a generator."""
    count = len(segment.references)
    order = np.arange(count) if rng is None else rng.permutation(count)
    # zero weights come last, so that no subset has a total weight of zero
    return order[np.argsort(segment.weights[order] == 0, kind="stable")]


def resampled(weights: Floats, count: int, rng: np.random.Generator) -> npt.NDArray[np.float32]:
    """(count, R) weights of the references in Bayesian bootstrap resamples (Rubin 1981).

    Weights vary like the counts of the ordinary bootstrap, but none is zero.
    """
    resamples = rng.standard_exponential((count, weights.size), np.float32)
    resamples *= weights  # single precision is enough for probabilities
    resamples /= resamples.sum(axis=1, keepdims=True)
    return resamples
