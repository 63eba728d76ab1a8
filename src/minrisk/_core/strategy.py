"""What a strategy must offer, what its metrics ask of a worker, and shared random choices."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from minrisk._core.adapters import as_metric
from minrisk._core.arrays import Floats, Ints
from minrisk._core.errors import InputError, brief
from minrisk._core.metric import AnyMetric, Metric
from minrisk._core.segment import Ranking, Segment

MODEL_BATCH = 16  # segments whose texts a model reads together
SELF_HELP = "skip the pair of a hypothesis with itself"


@runtime_checkable
class Strategy(Protocol):
    """Ranks the hypotheses of each segment. It takes a batch, so that stages batch too.

    A strategy is a frozen dataclass whose fields are its options, and its metrics and stages where
    it has several. It derives from `Options`, or from nothing; CONTRIBUTING has an example.
    """

    @property
    def name(self) -> str: ...

    @property
    def metric(self) -> AnyMetric:
        """The one that has the last word; utilities are its own."""

    def rank(self, segments: Sequence[Segment]) -> list[Ranking]: ...


@runtime_checkable
class LeavesSelfOut(Protocol):
    """A strategy that can skip the pair of a hypothesis with itself."""

    @property
    def leave_self_out(self) -> bool: ...


def leaves_self_out(strategy: Strategy) -> bool:
    return isinstance(strategy, LeavesSelfOut) and strategy.leave_self_out


def as_strategy(value: Any, field: str = "strategy") -> Strategy:
    """The same, if it is a strategy."""
    if isinstance(value, Strategy) and not isinstance(value, type):
        return value
    raise InputError(f"{field} must be a strategy or the name of one; got {brief(value)}")


def stage_option(*, help: str) -> Any:
    """The field of a strategy that holds another one."""
    def convert(config: Any, name: str, value: Any) -> Strategy:
        return as_strategy(value, name)

    return dataclasses.field(metadata={"help": help, "convert": convert})


def metrics_of(strategy: Strategy) -> list[AnyMetric]:
    """All metrics of a strategy and of its stages, each once; its own comes first."""
    found: list[AnyMetric] = []
    for metric in _all_metrics(strategy):
        if metric not in found:
            found.append(metric)
    return found


def _all_metrics(strategy: Strategy) -> Iterator[AnyMetric]:
    yield as_metric(strategy.metric)
    fields: tuple[dataclasses.Field[Any], ...] = ()
    if dataclasses.is_dataclass(strategy):
        fields = dataclasses.fields(strategy)
    for f in fields:
        value = getattr(strategy, f.name)
        if isinstance(value, Metric):
            yield value
        elif isinstance(value, Strategy):
            yield from _all_metrics(value)


def is_light(strategy: Strategy) -> bool:
    """Whether no metric of it loads a model, so that a worker for each core costs little."""
    return not any(metric.loads_model for metric in metrics_of(strategy))


def batch_size_of(strategy: Strategy) -> int:
    """How many segments it is best given at a time: as many as fill a model, or one."""
    return 1 if is_light(strategy) else MODEL_BATCH


def prepare(strategy: Strategy) -> None:
    """Load what its metrics need, before the first segment.

    That strategy and metrics fit each other was checked when it was made.

    Raises:
        MissingExtra: if a package is not installed.
        InputError: if a model is not there, or cannot be read.
    """
    for metric in metrics_of(strategy):
        metric.prepare()


def segment_rng(seed: int, segment: Segment) -> np.random.Generator:
    """One random stream per segment: the answer is the same in any batch, on any worker.

    >>> one, same, other = (segment_rng(0, Segment(["a"], index=i)).random() for i in (3, 3, 4))
    >>> one == same, one == other
    (True, False)
    """
    return np.random.default_rng([seed, segment.index])


def shuffled(segment: Segment, rng: np.random.Generator | None) -> Ints:
    """(R,) the references in random order, or in their own if there is no generator."""
    count = len(segment.references)
    order = np.arange(count) if rng is None else rng.permutation(count)
    # those without weight come last: a subset of nothing else could not judge
    return order[np.argsort(segment.weights[order] == 0, kind="stable")]


def resampled(weights: Floats, count: int, rng: np.random.Generator,
              copies: Ints | None = None) -> npt.NDArray[np.float32]:
    """(count, R) what references weigh in resamples of them, or several equal ones together.

    The Bayesian bootstrap (Rubin 1981): weights vary as counts in the plain one do, but no
    reference is ever lost, however few there are or however much one of them weighs. A weight is
    of one copy.
    """
    shape = (count, weights.size)
    if copies is None or bool(np.all(copies == 1)):
        drawn = rng.standard_exponential(shape, np.float32)
    else:  # a sum of so many exponentials
        drawn = rng.standard_gamma(copies.astype(np.float32), shape, np.float32)
    drawn *= weights  # in single precision, which is enough for chances
    drawn /= drawn.sum(axis=1, keepdims=True)
    return drawn
