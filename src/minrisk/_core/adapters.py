"""Converts names, classes, functions and objects to metrics and samplers.

Strategies declare fields that hold a metric with `metric_option`, wrappers with `inner`; both
convert the values that they are given.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache, wraps
from typing import Any, ClassVar, TypeVar

from minrisk._core.arrays import Floats
from minrisk._core.errors import InputError, Wording, brief
from minrisk._core.fingerprint import file_states
from minrisk._core.metric import (
    Ability,
    AnyMetric,
    Metric,
    implemented_abilities,
    lacks_ability,
    reads_segment,
)
from minrisk._core.options import owner, unwrapped
from minrisk._core.registry import METRICS, SAMPLERS
from minrisk._core.sampler import Sample, Sampler, changed_options
from minrisk._core.segment import Segment

MAX_LOADED_METRICS = 4  # size of the cache of metrics that were made by name


def metric_option(default: Any = dataclasses.MISSING, *, help: str = "",
                  needs: Ability = Ability.NONE, affects_results: bool = True) -> Any:
    """Declare a field of a strategy that holds a metric; `needs` are its required abilities."""
    def convert(config: Any, name: str, value: Any) -> AnyMetric:
        metric = as_metric(value, name)
        if needs not in metric.abilities:
            raise lacks_ability(metric, needs & ~metric.abilities, f"strategy {owner(config)!r}"
                         if name == "metric" else f"{name} of strategy {owner(config)!r}")
        return metric

    return dataclasses.field(default=default, metadata={
        "help": help, "needs": needs, "convert": convert, "affects_results": affects_results})


def inner(*, help: str, several: bool = False, texts_only: bool = False) -> Any:
    """Declare a field of a wrapper that holds metrics; its name prefixes their options.

    The scores of an inner metric must not depend on other hypotheses; with `texts_only`, they must
    depend on nothing but the two texts and the source.
    """
    def convert(config: Any, name: str, value: Any) -> Any:
        if several and isinstance(value, tuple | list):
            return tuple(as_metric(part, name) for part in value)
        metric = as_metric(value, name)
        if metric.compares_hypotheses or (texts_only and reads_segment(metric)):
            raise InputError(Wording("{owner}: with these options, the scores of {name!r} depend "
                                     "on the whole segment; leave out the wrapper, or choose "
                                     "another metric or other options",
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
        from minrisk.metrics.user_code import Function

        return Function(value)
    raise _not_a_metric(value, field)


def named_metric(name: str, /, **options: Any) -> AnyMetric:
    """A metric by its name and options. The last 4 are cached until their files change, so that a
    loop loads a model once.
    """
    made = METRICS.make(name, **options)
    metric = made if isinstance(made, Metric) else MetricAdapter(made)
    try:
        return _shared(metric, file_states(metric))
    except TypeError:  # an option is not hashable
        return metric


@lru_cache(maxsize=MAX_LOADED_METRICS)
def _shared(metric: AnyMetric, files: tuple[tuple[str, int, int], ...]) -> AnyMetric:
    """The metric, or an equal one from the cache; `files` is part of the key, to notice changes."""
    return metric


def given_scores(matrix: Any, segment: Segment) -> AnyMetric:
    """A metric that looks up the scores of a segment in a matrix."""
    from minrisk.metrics.given import GivenScores

    return GivenScores.for_segment(matrix, segment)


def clear_metric_cache() -> None:
    """Empty the metric cache, for example before a run, because files may have changed."""
    _shared.cache_clear()


def _of_class(cls: type, field: str) -> AnyMetric:
    if not _has_methods(cls) and "__call__" not in dir(cls):  # callable(cls) is always true
        raise _not_a_metric(cls, field)
    try:
        made = cls()
    except TypeError as error:
        raise InputError(f"{field} is the class {cls.__name__}, which cannot be created without "
                         f"options ({error}); give an instance of it") from error
    return as_metric(made, field)


def _has_methods(value: Any) -> bool:
    return all(callable(getattr(value, name, None)) for name in ("features", "scores"))


def _not_a_metric(value: Any, field: str) -> InputError:
    return InputError(f"{field} must be a metric, its name or class, or a function of hypothesis "
                      f"and reference; got {brief(value)}")


A = TypeVar("A", bound=type)


def _adapts(base: type) -> Callable[[A], A]:
    """A class decorator for adapters: members of the base are looked up in the adapted object
    first, then in the base.
    """
    def complete(adapter: A) -> A:
        for name, member in vars(base).items():
            if not name.startswith("_") and name not in vars(adapter):
                if isinstance(member, property):
                    setattr(adapter, name, _adapted_property(name, member))
                elif callable(member):
                    setattr(adapter, name, _adapted_method(name, member))
        return adapter

    return complete


def _adapted_property(name: str, default: property) -> property:
    def read(adapter: Any) -> Any:
        own = unwrapped(adapter)
        return getattr(own, name) if hasattr(own, name) else default.__get__(adapter)

    return property(read)


def _adapted_method(name: str, default: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(default)
    def call(adapter: Any, *args: Any, **named: Any) -> Any:
        own = getattr(unwrapped(adapter), name, None)
        return own(*args, **named) if callable(own) else default(adapter, *args, **named)

    return call


@_adapts(Metric)
@dataclass(frozen=True)
class MetricAdapter(Metric[Any]):
    """Makes a metric of an object with the right methods that does not derive from `Metric`.

    Traits that the object does not declare have their defaults, except for `loads_model`: True,
    because it may load one.
    """

    metric: Any = dataclasses.field(metadata={"transparent": True})

    @property
    def name(self) -> str:
        return str(getattr(self.metric, "name", type(self.metric).__name__))

    @property
    def abilities(self) -> Ability:
        return implemented_abilities(self.metric)

    @property
    def loads_model(self) -> bool:
        return bool(getattr(self.metric, "loads_model", True))

    def features(self, texts: Sequence[str]) -> Any:
        return self.metric.features(texts)

    def scores(self, hyps: Any, refs: Any, source: Any = None) -> Floats:
        matrix: Floats = self.metric.scores(hyps, refs, source)
        return matrix


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
            samples = None if isinstance(given, str) else [
                one if isinstance(one, Sample) else Sample(_plain(one)) for one in given]
        except Exception as error:  # user code may fail in any way
            raise InputError(f"sampler {self.name!r} failed: {type(error).__name__}: "
                             f"{error}") from error
        if samples is None or not all(isinstance(one.text, str) for one in samples):
            raise InputError(f"sampler {self.name!r}: expected a list of {n} texts; got "
                             f"{brief(given)}")
        return samples


def _plain(text: Any) -> Any:
    """A plain `str` for subclasses of it, such as NumPy's."""
    return str(text) if isinstance(text, str) else text


@_adapts(Sampler)
@dataclass(frozen=True)
class SamplerAdapter(Sampler):
    """Makes a sampler of an object that has the method `sample`; other members have defaults."""

    sampler: Any = dataclasses.field(metadata={"transparent": True})

    @property
    def name(self) -> str:
        return str(getattr(self.sampler, "name", type(self.sampler).__name__))

    @property
    def streams(self) -> bool:
        return callable(getattr(self.sampler, "stream", None))

    def with_options(self, **changes: Any) -> SamplerAdapter:
        return SamplerAdapter(changed_options(self.sampler, changes, self.name))

    def sample(self, prompts: Sequence[Any], n: int, seed: int = 0,
               indices: Sequence[int] | None = None) -> list[list[Sample]]:
        samples: list[list[Sample]] = self.sampler.sample(prompts, n, seed, indices)
        return samples
