"""A parsed name: `chrf*0.5+cached:comet` is a tree of classes, whose fields options fill.

Options of an inner metric have its name first: `chrf__order=4`, on the command line
`--metric.chrf.order 4`; a second metric of the same name is `chrf2`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Self

from minrisk._core.errors import InputError, unknown
from minrisk._core.options import Options, check_options, inner_field


@dataclass(frozen=True)
class Recipe:
    """A class, the fields that its name sets, and the recipes of the metrics inside it."""

    kind: str
    name: str
    cls: type
    given: dict[str, Any] = field(default_factory=dict)
    parts: dict[str, Recipe] = field(default_factory=dict)  # by the name of their options
    is_sum: bool = False

    def owners(self, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Self | Recipe]]:
        """This recipe and all inner ones, each with the path of names that leads to it."""
        yield path, self
        for label, part in self.parts.items():
            yield from part.owners((*path, label))

    def make(self, options: dict[str, Any]) -> Any:
        """An instance; options are the fields of its dataclass, and of those inside it."""
        own = {key: value for key, value in options.items() if not self._is_of_part(key)}
        parts = tuple(part.make(_options_of(key(label), options))
                      for label, part in self.parts.items())
        named = self.given | self._inner(parts)
        self._check(own, named)
        made = self.cls(**named | own)
        if not isinstance(made, Options):  # which checks itself
            check_options(made)
        return made

    def _inner(self, parts: tuple[Any, ...]) -> dict[str, Any]:
        name = inner_field(self.cls)
        return {name: parts if self.is_sum else parts[0]} if name and parts else {}

    def _is_of_part(self, option: str) -> bool:
        return any(option.startswith(f"{key(label)}__") for label in self.parts)

    def _check(self, own: dict[str, Any], named: dict[str, Any]) -> None:
        known = {f.name: f for f in dataclasses.fields(self.cls)}
        for option in own:
            if option not in known:
                raise unknown(f"option of {self.kind} {self.name!r}:", option, known)
        for option, f in known.items():
            if option in own or option in named or _has_default(f):
                continue
            if "inner" in f.metadata:
                raise InputError(f"{self.kind} {self.name!r} is made of others; "
                                 f"name {f.metadata['help']}")
            raise InputError(f"{self.kind} {self.name!r} needs the option {option}=")


def key(label: str) -> str:
    """A name as part of a Python identifier."""
    return label.replace("-", "_")


def _options_of(owner: str, options: dict[str, Any]) -> dict[str, Any]:
    """The options of an inner metric, without its name."""
    start = f"{owner}__"
    return {k.removeprefix(start): value for k, value in options.items() if k.startswith(start)}


def _has_default(f: dataclasses.Field[Any]) -> bool:
    missing = dataclasses.MISSING
    return f.default is not missing or f.default_factory is not missing
