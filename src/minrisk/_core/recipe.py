"""A parsed name: `chrf*0.5+cached:comet` is a tree of classes, whose fields options fill.

    name      = term {"+" term}
    term      = component ["*" weight]
    component = NAME [":" argument]
    argument  = quoted | component of a wrapper | text
    quoted    = '"' text, in which a quotation mark is doubled, '"'

A text fills the first field of a component. Unquoted it goes on to the end of the name, and is
refused if it holds what may be a sum or a weight. The argument of a wrapper is the metric inside
it; quoted, that may be a sum: `cached:"chrf+bleu"`.

Options of an inner metric have its name first: `chrf__order=4`, on the command line
`--metric.chrf.order 4`; a second metric of the same name is `chrf2`, and a sum is `combined`.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Self

from minrisk._core.errors import InputError, Wording, unknown
from minrisk._core.options import Options, check_options, inner_field

SUM = "combined"  # the name of the component that a sum of names makes
_HEAD, _HEAD_WITHOUT_SUMS = re.compile(r'[^:+*"]*'), re.compile("[^:]*")
_QUOTED = re.compile(r'"((?:[^"]|"")*)"')
_NUMBER = re.compile(r"-?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?")
_OPERATOR = re.compile(rf"\+(?=[a-zA-Z])|\*(?={_NUMBER.pattern}(?:\+|$))")  # what may be one


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
            raise InputError(Wording("{kind} {name!r} needs the option " + f"{option}=",
                                     kind=self.kind, name=self.name))


def key(label: str) -> str:
    """A name as part of a Python identifier."""
    return label.replace("-", "_")


@dataclass
class NameParser:
    """Reads a name from left to right."""

    name: str
    kind: str  # for messages
    sums: bool = True  # whether + and * mean anything
    at: int = 0

    @property
    def ended(self) -> bool:
        return self.at == len(self.name)

    def take(self, sign: str) -> bool:
        """Whether this sign comes next, which is then passed."""
        found = self.name.startswith(sign, self.at)
        self.at += len(sign) if found else 0
        return found

    def head(self) -> str:
        """The name of a component."""
        return self._matched(_HEAD if self.sums else _HEAD_WITHOUT_SUMS)

    def quoted(self) -> str | None:
        """The text in quotation marks; None if there are none."""
        if not self.name.startswith('"', self.at):
            return None
        start = self.at
        found = self._matched(_QUOTED)
        if not found or not (self.ended or (self.sums and self.name[self.at] in "+*")):
            self.at = start
            raise self._error("a quotation mark begins an argument, and another one ends it",
                              quoted(self.name[start:]))
        return found[1:-1].replace('""', '"')

    def text(self) -> str:
        """An argument that is a text; what may be an operator must be quoted, or stand after it."""
        own = self.quoted()
        if own is not None:
            return own
        text = self.name[self.at:]
        sign = _OPERATOR.search(text) if self.sums else None
        if sign:
            first, rest = text[:sign.start()], text[sign.start():]
            raise self._error(f"the argument {text!r} has a {sign[0]} that may be part of it or "
                              "not", quoted(text), f"{quoted(first)}{rest}")
        self.at = len(self.name)
        return text

    def weight(self) -> float:
        """The number after a *, which ends a term."""
        start = self.at
        found = self._matched(_NUMBER)
        if not found or not (self.ended or self.name[self.at] == "+"):
            wrong = self.name[start:].partition("+")[0]
            raise InputError(f"{self.name!r}: expected a number as weight, got {wrong!r}")
        return float(found)

    def end(self) -> None:
        if not self.ended:
            raise InputError(f"{self.kind} {self.name!r}: found {self.name[self.at:]!r} after a "
                             "whole name; names are joined by +, and an argument is in quotes")

    def _matched(self, pattern: re.Pattern[str]) -> str:
        found = pattern.match(self.name, self.at)
        text = found[0] if found else ""
        self.at += len(text)
        return text

    def _error(self, problem: str, *arguments: str) -> InputError:
        head = self.name[:self.at]
        forms = " or ".join(f"{head}{argument}" for argument in arguments)
        return InputError(f"{self.kind} {self.name!r}: {problem}; write {forms}")


def quoted(argument: str) -> str:
    """An argument in quotation marks, as a name holds it."""
    return '"' + argument.replace('"', '""') + '"'


def inside(name: str) -> str:
    """The name of an inner metric as the argument of its wrapper: a sum is quoted."""
    return quoted(name) if is_sum(name) else name


def is_sum(name: str) -> bool:
    """Whether the name is a sum, or has a weight."""
    return any(sign in _QUOTED.sub("", name) for sign in "+*")


def label_of(name: str) -> str:
    """What the options of a metric with this name begin with, inside another metric."""
    return SUM if is_sum(name) else name.partition(":")[0]


def _options_of(owner: str, options: dict[str, Any]) -> dict[str, Any]:
    """The options of an inner metric, without its name."""
    start = f"{owner}__"
    return {k.removeprefix(start): value for k, value in options.items() if k.startswith(start)}


def _has_default(f: dataclasses.Field[Any]) -> bool:
    missing = dataclasses.MISSING
    return f.default is not missing or f.default_factory is not missing
