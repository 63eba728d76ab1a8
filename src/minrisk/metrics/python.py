"""Python code of users as a metric: any function, or one that is imported by name.

`minrisk.decode(metric=function)`, `python:package.module:function`, and the base class of metrics
that call user code: pairs of texts as arguments, checked numbers as results.
"""

from __future__ import annotations

import math
import os
import sys
from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, is_dataclass
from importlib import import_module
from typing import Any, ClassVar

import numpy as np

from minrisk._core.arrays import Floats
from minrisk._core.errors import InputError
from minrisk._core.fingerprint import digest, module_files
from minrisk._core.lazy import lazy
from minrisk._core.metric import Ability, Metric, lacks_ability
from minrisk._core.options import option
from minrisk._core.process import foreign_code, foreign_import
from minrisk.metrics._base import Objects, objects


class PairwiseMetric(Metric[Objects]):
    """A metric whose pairs are scored by user code, which may be as heavy as a model.

    Its options say whether it takes the source, with the reference or without, and whether lower
    is better.
    """

    loads_model: ClassVar[bool] = True

    source: bool
    by_source: bool
    error: bool

    @property
    def abilities(self) -> Ability:
        return super().abilities if self.by_source else Ability.NONE

    @property
    def needs_source(self) -> bool:
        return self.source or self.by_source

    @property
    def ignores_references(self) -> bool:
        return self.by_source

    @property
    def is_error(self) -> bool:
        return self.error

    def features(self, texts: Sequence[str]) -> Objects:
        return objects(texts)

    def scores(self, hyps: Objects, refs: Objects, source: Objects | None = None) -> Floats:
        """(H, R) the score of every pair; by the source alone, whatever the reference."""
        if self.by_source:
            return np.tile(self.quality(hyps, source)[:, None], len(refs))
        pairs = Pairs.of(hyps, refs, source if self.source else None)
        return self._scores(list(pairs)).reshape(len(hyps), len(refs))

    def quality(self, hyps: Objects, source: Objects | None) -> Floats:
        """(H,) the score of every hypothesis with the source."""
        if not self.by_source or source is None:
            raise lacks_ability(self, Ability.QUALITY)
        return self._scores([(hyp, source[0]) for hyp in hyps])

    @abstractmethod
    def _scores(self, arguments: Sequence[tuple[str, ...]]) -> Floats:
        """(N,) the scores of these hypotheses, each with its reference, its source, or both."""


@dataclass(frozen=True)
class Pairs:
    """Every hypothesis with every reference, as two lists of equal length."""

    hypotheses: list[str]
    references: list[str]
    source: str | None = None

    @classmethod
    def of(cls, hyps: Objects, refs: Objects, source: Objects | None) -> Pairs:
        return cls([h for h in hyps for _ in refs], [r for _ in hyps for r in refs],
                   None if source is None else source[0])

    def __iter__(self) -> Iterator[tuple[str, ...]]:
        """The arguments of a call for each pair."""
        last = () if self.source is None else (self.source,)
        for hyp, ref in zip(self.hypotheses, self.references, strict=True):
            yield hyp, ref, *last


def as_scores(values: Sequence[Any], count: int, name: str, error: bool) -> Floats:
    """(count,) scores from the values that user code returned, negated if they are errors."""
    if len(values) != count:
        raise InputError(f"{name}: expected {count} scores (one per pair, in order), got "
                         f"{len(values)}")
    found = np.array([finite_number(value, name) for value in values], dtype=np.float64)
    return -found if error else found


def finite_number(value: Any, name: str) -> float:
    try:
        found = float(value)
    except (TypeError, ValueError, OverflowError):
        found = math.nan
    if isinstance(value, str) or not math.isfinite(found):
        raise InputError(f"{name}: expected a finite number, got {value!r:.80}")
    return found


@dataclass(frozen=True)
class Function(Metric[Objects]):
    """a Python function that scores a hypothesis against a reference; higher is better"""

    loads_model: ClassVar[bool] = True  # it may, for all we know

    function: Callable[[str, str], float] = option(help="score of a pair", affects_results=False)

    @property
    def name(self) -> str:
        return str(getattr(self.function, "__name__", type(self.function).__name__))

    def features(self, texts: Any) -> Objects:
        return objects(texts)

    def scores(self, hyps: Objects, refs: Objects, source: object = None) -> Floats:
        """(H, R) the function's score of every pair."""
        try:
            found = [self.function(hyp, ref) for hyp, ref in Pairs.of(hyps, refs, None)]
        except InputError:
            raise
        except Exception as error:  # user code may fail in any way
            raise InputError(f"metric {self.name!r} failed: {type(error).__name__}: "
                             f"{error}") from error
        scores = as_scores(found, len(hyps) * len(refs), self.name, error=False)
        return scores.reshape(len(hyps), len(refs))


@dataclass(frozen=True)
class Python(PairwiseMetric):
    """a function or metric class of yours: --metric python:package.module:function

    The function is imported by name, so that workers and other machines find it too. In Python a
    function itself is a metric as well: `minrisk.decode(samples, metric=function)`. A class with
    `features` and `scores`, a dataclass, is named likewise; its fields are options.

    Args:
        function: "package.module:function", of an installed package or of the current folder.
        source: whether the source is passed as a third argument.
        by_source: whether the function judges by the source alone, as a reward does: it is called
            with hypothesis and source, and the metric works with `rerank`, too.
        lists: whether the function is called once, with a list for each argument, and returns a
            list of scores.
        error: whether lower is better; scores are then negated.

    Raises:
        InputError: when it is used, if there is no such function, or if it fails or returns
            anything but finite numbers.

    >>> import minrisk
    >>> minrisk.decode(["a cat", "a dog"], metric=minrisk.Python("operator:eq")).utility
    array([0.5, 0.5])
    """

    name: ClassVar[str] = "python"
    cost: ClassVar[str] = "n · m calls of the function"

    function: str = option(help="package.module:function, also of the current folder")
    source: bool = option(False, help="pass the source as a third argument")
    by_source: bool = option(False, help="judge by the source alone: pass hypothesis and source, "
                             "no reference")
    lists: bool = option(False, help="call it once, with a list for each argument")
    error: bool = option(False, help="negate the scores, of which lower is better")

    @classmethod
    def class_of(cls, name: str) -> type | None:
        """The metric class of this name, whose fields are options; None for a function."""
        try:
            found = _imported(name)
        except InputError:  # the metric says why, when it is used
            return None
        if not isinstance(found, type) or not hasattr(found, "scores"):
            return None
        if not is_dataclass(found):
            raise InputError(f"python: the class {name!r} must be a dataclass, whose fields are "
                             "the options of the metric")
        return found

    def prepare(self) -> None:
        self._callable  # noqa: B018 - which imports it

    def _scores(self, arguments: Sequence[tuple[str, ...]]) -> Floats:
        with foreign_code(f"{self.function} failed"):
            found = (self._call_with_lists(arguments) if self.lists
                     else [self._callable(*own) for own in arguments])
            return as_scores(found, len(arguments), self.function, self.error)

    def fingerprint(self) -> str:
        """Of the module that is named, and of the one in which the function is written."""
        function = self._callable
        module = sys.modules[self.function.partition(":")[0]]
        return digest(module_files(module, function, type(function)))

    def _call_with_lists(self, arguments: Sequence[tuple[str, ...]]) -> list[Any]:
        columns = [list(column) for column in zip(*arguments, strict=True)]
        return list(self._callable(*columns))

    @lazy
    def _callable(self) -> Callable[..., Any]:
        function: Callable[..., Any] = _imported(self.function)
        return function


def _imported(name: str) -> Any:
    module, colon, attribute = name.partition(":")
    if not (module and colon and attribute):
        raise InputError(f"python: function must be 'package.module:function'; got {name!r}")
    found: Any = _module(module, name)
    for part in attribute.split("."):
        found = getattr(found, part, None)
    if not callable(found):
        raise InputError(f"python: module {module!r} has no function {attribute!r}")
    return found


def _module(name: str, function: str) -> Any:
    here = os.getcwd()
    if here not in sys.path and "" not in sys.path:
        sys.path.append(here)  # last, so that nothing that is installed is hidden
    with foreign_import(f"python: {function!r} cannot be imported",
                        "; the module must be installed, on PYTHONPATH or in this folder"):
        return import_module(name)
