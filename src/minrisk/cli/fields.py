"""The installed components: every metric, strategy and sampler with the fields of its dataclass."""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from minrisk._core.metric import Metric
from minrisk._core.options import UNBOUNDED, Bounds
from minrisk._core.registry import METRICS, STRATEGIES, Registry
from minrisk._core.strategy import Strategy

_NAMES = {int: "int", float: "float", bool: "flag", str: "text", Metric: "metric",
          Strategy: "strategy"}
REGISTRIES = {Metric: METRICS, Strategy: STRATEGIES}  # of fields that name a component


@dataclass(frozen=True)
class Field:
    """A field of a dataclass that an option of the command line fills."""

    name: str
    type: Any  # int, float, bool, str, Metric, a Literal, or a tuple of one of these
    default: Any  # dataclasses.MISSING if it must be given
    help: str
    bounds: Bounds = UNBOUNDED

    @property
    def required(self) -> bool:
        return self.default is dataclasses.MISSING

    @property
    def flag(self) -> str:
        return "--" + self.name.replace("_", "-")

    @property
    def choices(self) -> tuple[str, ...]:
        return typing.get_args(self.type) if typing.get_origin(self.type) is typing.Literal else ()

    @property
    def kind(self) -> str:
        """The name of its type, e.g. `int` or `json|text`."""
        return "|".join(map(str, self.choices)) or _NAMES.get(self.type, str(self.type))

    @property
    def valid(self) -> str:
        """Its valid values, e.g. `int of at least 1`."""
        return f"{self.kind}{self.bounds}"

    @property
    def explained(self) -> str:
        """Its help; of a flag that is on, what turning it off means."""
        return f"turn off: {self.help}" if self.default is True else self.help

    @property
    def described(self) -> str:
        """Its help with its default."""
        if self.required:
            return f"{self.help}  [required]"
        if self.default in (None, (), "-") or self.type is bool:
            return self.explained
        default = self.default if not isinstance(self.default, tuple) else ", ".join(self.default)
        return f"{self.help}  [default: {default}]"

    def to_type(self, flag: str) -> str:
        """The form of its flag that changes the default."""
        return f"--no-{flag[2:]}" if self.default is True else flag

    def shown(self, prefix: str = "--") -> str:
        """The field as on the command line, e.g. `--groups int (1)`."""
        flag = self.to_type(prefix + self.flag[2:])
        if self.type is bool:
            return flag
        if self.default is None:  # none, or what its help says
            return f"{flag} {self.kind}"
        return f"{flag} {self.kind} ({'needed' if self.required else self.default})"


@dataclass(frozen=True)
class Entry:
    """One installed name; where `problem` is set, nothing else is known."""

    name: str
    summary: str
    cls: type = object
    fields: tuple[Field, ...] = ()
    problem: str | None = None

    @property
    def papers(self) -> tuple[str, ...]:
        """The papers that proposed it."""
        return getattr(self.cls, "papers", ())

    @property
    def cost(self) -> str:
        """Its cost for n hypotheses and m references, or n samples; empty if it does not say."""
        return getattr(self.cls, "cost", "")


@cache
def fields_of(cls: type) -> tuple[Field, ...]:
    """The fields of a metric, strategy or sampler that options fill."""
    hints = typing.get_type_hints(cls)
    return tuple(as_field(f, hints[f.name]) for f in dataclasses.fields(cls)
                 if not _is_part_of_name(f, hints[f.name]))


def as_field(f: dataclasses.Field[Any], hint: Any) -> Field:
    factory = f.default_factory
    default = f.default if factory is dataclasses.MISSING else factory()
    return Field(f.name, _plain(hint), default, f.metadata.get("help", ""),
                 f.metadata.get("bounds", UNBOUNDED))


def entries(registry: Registry, names: Sequence[str] = ()) -> Iterator[Entry]:
    """The entries of these names, or all."""
    for name in names or registry.names():
        try:
            cls = registry.get(name)
            summary = (cls.__doc__ or "").strip().partition("\n")[0]
            yield Entry(name, summary, cls, fields_of(cls))
        except Exception as error:  # a broken plug-in must not hide the others
            yield Entry(name, "not available", problem=str(error) or repr(error))


def _is_part_of_name(f: dataclasses.Field[Any], hint: Any) -> bool:
    """Metrics inside a metric and their weights, which no option fills."""
    return "inner" in f.metadata or typing.get_origin(hint) is tuple


def _plain(hint: Any) -> Any:
    """The type without None; Metric for any metric."""
    if isinstance(hint, types.UnionType) or typing.get_origin(hint) is typing.Union:
        hint = next(arg for arg in typing.get_args(hint) if arg is not type(None))
    return Metric if typing.get_origin(hint) is Metric else hint
