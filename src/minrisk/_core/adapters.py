"""Conversion of names, classes, functions and objects into metrics and samplers.

Fields that hold metrics are declared with `metric_option` (of a strategy) or `inner` (of a metric
around others), which adapt what they are given.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, ClassVar

from minrisk._core.arrays import Floats, Ints, Points
from minrisk._core.errors import InputError, Wording, brief
from minrisk._core.groups import Groups
from minrisk._core.metric import (
    Ability,
    AnyMetric,
    DerivedMetric,
    Metric,
    PartialStatistics,
    Surrogate,
    Traits,
    implemented_abilities,
    lacks_ability,
    reads_segment,
)
from minrisk._core.named_files import file_states
from minrisk._core.options import owner
from minrisk._core.registry import METRICS, SAMPLERS
from minrisk._core.sampler import (
    AnyRequest,
    Sample,
    Sampler,
    SamplingResult,
    changed_options,
)
from minrisk._core.segment import Ranking, Segment

MAX_LOADED_METRICS = 4  # metrics made by name that are cached


def metric_option(default: Any = dataclasses.MISSING, *,
                  help: str = "metric that judges hypotheses",
                  needs: Ability = Ability.NONE, affects_results: bool = True) -> Any:
    """A field of a strategy that holds a metric; `needs` are the abilities it must have."""
    def convert(config: Any, name: str, value: Any) -> AnyMetric:
        metric = as_metric(value, name)
        if needs not in metric.abilities:
            raise lacks_ability(metric, needs & ~metric.abilities, f"strategy {owner(config)!r}"
                         if name == "metric" else f"{name} of strategy {owner(config)!r}")
        return metric

    return dataclasses.field(default=default, metadata={
        "help": help, "needs": needs, "convert": convert, "affects_results": affects_results})


def inner(*, help: str, several: bool = False, texts_only: bool = False) -> Any:
    """A field of a wrapper that holds one metric or several; their options have its name first.

    The scores of a single metric must not depend on other hypotheses; `texts_only`: on nothing but
    the two texts and the source.
    """
    def convert(config: Any, name: str, value: Any) -> Any:
        if several and isinstance(value, tuple | list):
            return tuple(as_metric(part, name) for part in value)
        metric = as_metric(value, name)
        if metric.compares_hypotheses or (texts_only and reads_segment(metric)):
            raise InputError(Wording("{owner}: the scores of {name!r} with these options depend on "
                                     "more of a segment than the two texts; leave out the "
                                     "wrapper, or choose another metric or other options",
                                     owner=owner(config), name=metric.name))
        return metric

    return dataclasses.field(metadata={"help": help, "inner": True, "convert": convert})


def as_metric(value: Any, field: str = "metric") -> AnyMetric:
    """Convert a value to a metric.

    Args:
        value: a metric; the name of one, as `minrisk list metrics` lists them; its class; an
            object with `features` and `scores`; or a function of hypothesis and reference.
        field: the name of the argument, for messages.

    Raises:
        InputError: if it is none of these.
    """
    if isinstance(value, Metric):
        return value
    if isinstance(value, str):
        return named_metric(value)
    if isinstance(value, type):
        return _of_class(value, field)
    if _has_methods(value):
        return MetricAdapter(value)
    if callable(value):
        from minrisk.metrics.python import Function

        return Function(value)
    raise _not_a_metric(value, field)


def named_metric(name: str, /, **options: Any) -> AnyMetric:
    """A metric by its name and options; the last 4 are cached: a loop loads a model once, unless
    its files change.
    """
    made = METRICS.make(name, **options)
    metric = made if isinstance(made, Metric) else MetricAdapter(made)
    try:
        return _shared(metric, file_states(metric))
    except TypeError:  # an option that has no hash
        return metric


@lru_cache(maxsize=MAX_LOADED_METRICS)
def _shared(metric: AnyMetric, files: tuple[tuple[str, int, int], ...]) -> AnyMetric:
    """The first of the metrics that are equal to this one, with its files as they are."""
    return metric


def given_scores(matrix: Any, segment: Segment) -> AnyMetric:
    """A metric that looks up the scores of a segment in a matrix."""
    from minrisk.metrics.given import GivenScores

    return GivenScores.of(matrix, segment)


def clear_metric_cache() -> None:
    """Forget the cached metrics, as before a run, because their files may have changed."""
    _shared.cache_clear()


def _of_class(cls: type, field: str) -> AnyMetric:
    if not _has_methods(cls):
        raise _not_a_metric(cls, field)
    try:
        made = cls()
    except TypeError as error:
        raise InputError(f"{field} is the class {cls.__name__}, which cannot be made without "
                         f"options ({error}); give an object of it") from error
    return made if isinstance(made, Metric) else MetricAdapter(made)


def _has_methods(value: Any) -> bool:
    return all(callable(getattr(value, name, None)) for name in ("features", "scores"))


def _not_a_metric(value: Any, field: str) -> InputError:
    return InputError(f"{field} must be a metric, its name or class, or a function of hypothesis "
                      f"and reference; got {brief(value)}")


@dataclass(frozen=True)
class MetricAdapter(DerivedMetric[Any]):
    """Makes a metric of an object that has the methods of one but does not derive from `Metric`.

    Attributes that it lacks are False, but for `loads_model`: it may load one.
    """

    metric: Any = dataclasses.field(metadata={"inner": True, "transparent": True})

    @property
    def name(self) -> str:
        return str(getattr(self.metric, "name", type(self.metric).__name__))

    @property
    def traits(self) -> Traits:
        declared = Traits.of(self.metric)
        reads_source = bool(getattr(self.metric, "reads_source", declared.needs_source))
        return replace(declared, abilities=implemented_abilities(self.metric),
                       reads_source=reads_source,
                       loads_model=bool(getattr(self.metric, "loads_model", True)))

    @property
    def concurrent_batches(self) -> int:
        return int(getattr(self.metric, "concurrent_batches", 1))

    def prepare(self) -> None:
        self._call_if_present("prepare")

    def prepare_thread(self) -> None:
        self._call_if_present("prepare_thread")

    def features(self, texts: Sequence[str]) -> Any:
        return self.metric.features(texts)

    def segment_features(self, segment: Segment, texts: Sequence[str]) -> Any:
        found = getattr(self.metric, "segment_features", None)
        return found(segment, texts) if callable(found) else self.features(texts)

    def as_given(self, refs: Any) -> Any:
        found = getattr(self.metric, "as_given", None)
        return found(refs) if callable(found) else refs

    def scores(self, hyps: Any, refs: Any, source: Any = None) -> Floats:
        found: Floats = self.metric.scores(hyps, refs, source)
        return found

    def utility(self, hyps: Any, refs: Any, mass: Floats, source: Any = None) -> Floats:
        if not callable(getattr(self.metric, "utility", None)):
            return super().utility(hyps, refs, mass, source)
        found: Floats = self.metric.utility(hyps, refs, mass, source)
        return found

    def aggregate(self, refs: Any, groups: Groups) -> Any:
        return self._require(Ability.AVERAGES).aggregate(refs, groups)

    def partial_statistics(self, hyps: Any, refs: Any, weights: Floats) -> PartialStatistics:
        metric = self._require(Ability.PARTIAL_STATISTICS)
        found: PartialStatistics = metric.partial_statistics(hyps, refs, weights)
        return found

    def finalize(self, hyps: Any, statistics: PartialStatistics, source: Any = None) -> Floats:
        found: Floats = self._require(Ability.PARTIAL_STATISTICS).finalize(hyps, statistics, source)
        return found

    def vectors(self, features: Any) -> Points:
        return self._require(Ability.VECTORS).vectors(features)

    def quality(self, hyps: Any, source: Any) -> Floats:
        found: Floats = self._require(Ability.QUALITY).quality(hyps, source)
        return found

    def choose(self, hyps: Any, counts: Ints, source: Any) -> int:
        return int(self._require(Ability.CHOICE).choose(hyps, counts, source))

    def surrogate(self, hyps: Any, refs: Any, mass: Floats, source: Any = None) -> Surrogate[Any]:
        found: Surrogate[Any] = self._require(Ability.SURROGATE).surrogate(hyps, refs, mass, source)
        return found

    def statistics(self, hyps: Sequence[str], refs: Sequence[Sequence[str]]) -> Floats:
        found: Floats = self._require(Ability.CORPUS_STATISTICS).statistics(hyps, refs)
        return found

    def corpus(self, statistics: Floats) -> float:
        return float(self._require(Ability.CORPUS_STATISTICS).corpus(statistics))

    def answers(self, features: Any) -> list[str | None] | None:
        found: list[str | None] | None = self._call_if_present("answers", features)
        return found

    def agreement(self, scores: Floats, whole: Floats) -> Floats:
        found: Floats | None = self._call_if_present("agreement", scores, whole)
        return super().agreement(scores, whole) if found is None else found

    def details(self, segment: Segment, ranking: Ranking) -> dict[str, Any]:
        found: dict[str, Any] = self._call_if_present("details", segment, ranking) or {}
        return found

    def take_usage(self, source: str | None, texts: Iterable[str]) -> Counter[str]:
        return Counter(self._call_if_present("take_usage", source, texts))

    def fingerprint(self) -> str | None:
        found: str | None = self._call_if_present("fingerprint")
        return found

    def sacrebleu_fields(self, statistics: Floats | None) -> Mapping[str, Any] | None:
        found: Mapping[str, Any] | None = self._call_if_present("sacrebleu_fields", statistics)
        return found

    def _call_if_present(self, method: str, *args: Any) -> Any:
        """The result of the object's method; None if it has no such method."""
        found = getattr(self.metric, method, None)
        return found(*args) if callable(found) else None

    def _require(self, ability: Ability) -> Any:
        """The object; an InputError if it lacks the methods of this ability."""
        if ability not in self.abilities:
            raise lacks_ability(self, ability)
        return self.metric


def as_sampler(value: Any) -> Sampler:
    """Convert a value to a sampler.

    Args:
        value: a sampler; the name of one that needs no options; an object with `sample`; or a
            function of a prompt and a number n that returns n texts.

    Raises:
        InputError: if it is none of these.
    """
    if isinstance(value, Sampler):
        return value
    if isinstance(value, str):
        return as_sampler(SAMPLERS.make(value))
    if callable(getattr(value, "sample", None)) and not isinstance(value, type):
        return SamplerAdapter(value)
    if callable(value) and not isinstance(value, type):
        return FunctionSampler(value)
    raise InputError("sampler must be a sampler, the name of one, or a function of a prompt and "
                     f"a number; got {brief(value)}")


@dataclass(frozen=True)
class FunctionSampler(Sampler):
    """Makes a sampler of a function of a prompt and n that returns n texts, or samples."""

    takes_messages: ClassVar[bool] = True
    is_random: ClassVar[bool] = True

    function: Callable[[Any, int], Iterable[Any]] = dataclasses.field(
        metadata={"affects_results": False})

    @property
    def name(self) -> str:
        return str(getattr(self.function, "__name__", type(self.function).__name__))

    def sample(self, prompts: Sequence[Any], n: int, seed: int = 0,
               indices: Sequence[int] | None = None) -> list[list[Sample]]:
        return [self._samples(prompt, n) for prompt in prompts]

    def _samples(self, prompt: Any, n: int) -> list[Sample]:
        try:
            given = self.function(prompt, n)
            found = None if isinstance(given, str) else [
                one if isinstance(one, Sample) else Sample(one) for one in given]
        except Exception as error:  # user code may fail in any way
            raise InputError(f"sampler {self.name!r} failed: {type(error).__name__}: "
                             f"{error}") from error
        if found is None or not all(isinstance(one.text, str) for one in found):
            raise InputError(f"sampler {self.name!r}: wanted a list of {n} texts; got "
                             f"{brief(given)}")
        return found


@dataclass(frozen=True)
class SamplerAdapter(Sampler):
    """Makes a sampler of an object that has the method `sample`; attributes it lacks are False."""

    sampler: Any = dataclasses.field(metadata={"transparent": True})

    @property
    def name(self) -> str:
        return str(getattr(self.sampler, "name", type(self.sampler).__name__))

    @property
    def takes_messages(self) -> bool:
        return bool(getattr(self.sampler, "takes_messages", False))

    @property
    def is_causal(self) -> bool:
        return bool(getattr(self.sampler, "is_causal", False))

    @property
    def prompt(self) -> str | None:
        found: str | None = getattr(self.sampler, "prompt", None)
        return found

    @property
    def is_random(self) -> bool:
        return bool(getattr(self.sampler, "is_random", False))

    @property
    def streams(self) -> bool:
        return callable(getattr(self.sampler, "stream", None))

    def with_options(self, **changes: Any) -> SamplerAdapter:
        return SamplerAdapter(changed_options(self.sampler, changes, self.name))

    def batch_size(self, n: int) -> int:
        chosen = getattr(self.sampler, "batch_size", None)
        return int(chosen(n)) if callable(chosen) else super().batch_size(n)

    def prepare(self) -> None:
        if callable(getattr(self.sampler, "prepare", None)):
            self.sampler.prepare()

    def sample(self, prompts: Sequence[Any], n: int, seed: int = 0,
               indices: Sequence[int] | None = None) -> list[list[Sample]]:
        found: list[list[Sample]] = self.sampler.sample(prompts, n, seed, indices)
        return found

    def stream(self, requests: Iterable[AnyRequest], n: int,
               seed: int = 0) -> Generator[tuple[AnyRequest, SamplingResult]]:
        if not self.streams:
            return super().stream(requests, n, seed)
        found: Generator[tuple[AnyRequest, SamplingResult]] = self.sampler.stream(requests, n, seed)
        return found
