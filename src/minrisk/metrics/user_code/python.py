"""User code in Python that is imported by name: `python:package.module:function`."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, is_dataclass
from importlib import import_module
from typing import Any

from minrisk._core.arrays import Floats
from minrisk._core.fingerprint import digest, module_files
from minrisk._core.lazy import lazy
from minrisk._core.process import foreign_code, foreign_import
from minrisk.metrics.user_code import PairwiseMetric, as_scores
from minrisk.plugins import InputError, option


@dataclass(frozen=True)
class Python(PairwiseMetric):
    """Your own function or metric class: --metric python:package.module:function.

    The function is imported by name, so that workers and other machines can import it, too. In
    Python, a function itself is also a metric: `minrisk.decode(samples, metric=function)`. A
    dataclass with `features` and `scores` is named in the same way; its fields are options.

    Args:
        function: "package.module:function", of an installed package or of the current folder.
        source: pass the source as a third argument.
        by_source: judge by the source alone, as a reward does: pass hypothesis and source, no
            reference. The metric then works with `rerank`, too.
        lists: call it once with a list for each argument; it returns a list of scores.
        error: negate the scores, because lower is better.

    Raises:
        InputError: when it is used, if there is no such function, or if it fails or returns
            anything but finite numbers.

    >>> import minrisk
    >>> minrisk.decode(["a cat", "a dog"], metric=minrisk.Python("operator:eq")).utility
    array([0.5, 0.5])
    """

    name = "python"
    cost = "n · m calls of the function"

    function: str = option()
    source: bool = option(False)
    by_source: bool = option(False)
    lists: bool = option(False)
    error: bool = option(False)

    @classmethod
    def class_of(cls, name: str) -> type | None:
        """The metric class of this name, whose fields are options; None for a function."""
        try:
            named = _imported(name)
        except InputError:  # reported when the metric is used
            return None
        if not isinstance(named, type) or not hasattr(named, "scores"):
            return None
        if not is_dataclass(named):
            raise InputError(f"python: the class {name!r} must be a dataclass, whose fields are "
                             "the options of the metric")
        return named

    def prepare(self) -> None:
        self._callable  # noqa: B018 - which imports it

    def _scores(self, arguments: Sequence[tuple[str, ...]]) -> Floats:
        with foreign_code(f"{self.function} failed"):
            values = (self._call_with_lists(arguments) if self.lists
                      else [self._callable(*own) for own in arguments])
            return as_scores(values, len(arguments), self.function, self.error)

    def fingerprint(self) -> str:
        """A digest of the named module and of the one that defines the function."""
        function = self._callable
        module = sys.modules[self.function.partition(":")[0]]
        return digest(module_files(module, function, type(function)))

    def _call_with_lists(self, arguments: Sequence[tuple[str, ...]]) -> list[Any]:
        columns = [list(column) for column in zip(*arguments, strict=True)]
        return list(self._callable(*columns))

    @lazy
    def _callable(self) -> Callable[..., Any]:
        named = _imported(self.function)
        if isinstance(named, type):
            with foreign_code(f"the class {self.function} failed"):
                named = named()
        if not callable(named):
            raise InputError(f"python: the class {self.function!r} has neither `features` and "
                             "`scores`, as metrics have, nor `__call__`, as functions have")
        function: Callable[..., Any] = named
        return function


def _imported(name: str) -> Any:
    module, colon, attribute = name.partition(":")
    if not (module and colon and attribute):
        raise InputError(f"python: function must be 'package.module:function'; got {name!r}")
    value: Any = _module(module, name)
    for part in attribute.split("."):
        value = getattr(value, part, None)
    if not callable(value):
        raise InputError(f"python: module {module!r} has no function {attribute!r}")
    return value


def _module(name: str, function: str) -> Any:
    here = os.getcwd()
    if here not in sys.path and "" not in sys.path:
        sys.path.append(here)  # last, so that it does not shadow installed packages
    with foreign_import(f"python: {function!r} cannot be imported",
                        "; the module must be installed, on PYTHONPATH or in this folder"):
        return import_module(name)
