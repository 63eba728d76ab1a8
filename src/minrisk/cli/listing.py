"""What is installed: every metric, strategy and sampler with the fields of its dataclass.

Which strategies work with which metric follows from what the metric declares that it can do, and
from what the strategy declares that it needs.
"""

from __future__ import annotations

import dataclasses
import json
import types
import typing
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import click

from minrisk._core.metric import (
    Ability,
    Metric,
    declared_abilities,
    metrics_with,
    required_abilities,
    strategies_with,
)
from minrisk._core.options import inner_field
from minrisk._core.registry import METRICS, STRATEGIES, Registry

SHARED = ("metric", "seed")  # fields with a flag that does not depend on the strategy
_NAMES = {int: "int", float: "float", bool: "flag", str: "text", Metric: "metric"}


@dataclass(frozen=True)
class Field:
    """An option of a metric or strategy, as its dataclass declares it."""

    name: str
    type: Any  # int, float, bool, str, Metric or a Literal
    default: Any  # dataclasses.MISSING if it must be given
    help: str

    @property
    def required(self) -> bool:
        return self.default is dataclasses.MISSING

    @property
    def flag(self) -> str:
        return "--" + self.name.replace("_", "-")

    @property
    def kind(self) -> str:
        if typing.get_origin(self.type) is typing.Literal:
            return "|".join(map(str, typing.get_args(self.type)))
        return _NAMES.get(self.type, str(self.type))

    @property
    def metavar(self) -> str | None:
        """What stands for its value in a help text."""
        return None if self.type is bool else self.kind.upper() if self.type in _NAMES else None

    @property
    def described(self) -> str:
        """Its help with its default."""
        if self.required:
            return f"{self.help}  [required]"
        if self.default is None or self.type is bool:
            return self.help
        return f"{self.help}  [default: {self.default}]"

    def shown(self, prefix: str = "--") -> str:
        """As on the command line, e.g. `--groups int (1)`."""
        flag = prefix + self.flag[2:]
        if self.type is bool and not self.default:
            return flag
        default = "auto" if self.default is None else self.default
        return f"{flag} {self.kind} ({'needed' if self.required else default})"


@dataclass(frozen=True)
class Entry:
    """One installed name; where `problem` is set, nothing else is known."""

    name: str
    summary: str
    cls: type = object
    fields: tuple[Field, ...] = ()
    problem: str | None = None


def fields_of(cls: type) -> tuple[Field, ...]:
    hints = typing.get_type_hints(cls)
    return tuple(
        Field(f.name, _plain(hints[f.name]), _default(f), f.metadata.get("help", ""))
        for f in dataclasses.fields(cls) if not _is_for_names(f, hints[f.name])
    )


def entries(registry: Registry, names: Sequence[str] = ()) -> Iterator[Entry]:
    """Those of these names, or all."""
    for name in names or registry.names():
        try:
            cls = registry.get(name)
            summary = (cls.__doc__ or "").strip().partition("\n")[0]
            yield Entry(name, summary, cls, fields_of(cls))
        except Exception as error:  # a broken plug-in must not hide the others
            yield Entry(name, "not available", problem=str(error) or repr(error))


def _is_for_names(f: dataclasses.Field[Any], hint: Any) -> bool:
    """Metrics inside a metric and their weights, which no flag fills: they are part of its name."""
    return "inner" in f.metadata or typing.get_origin(hint) is tuple


def _plain(hint: Any) -> Any:
    """`X | None` is X here, and any metric is a Metric."""
    if isinstance(hint, types.UnionType) or typing.get_origin(hint) is typing.Union:
        hint = next(arg for arg in typing.get_args(hint) if arg is not type(None))
    return Metric if typing.get_origin(hint) is Metric else hint


def _default(f: dataclasses.Field[Any]) -> Any:
    if f.default_factory is not dataclasses.MISSING:
        return f.default_factory()
    return f.default


def strategies_for(metric: type) -> list[str] | None:
    """The names of the strategies that work with the metrics of a class; None: it depends.

    A metric around others can do what these can.
    """
    if inner_field(metric):
        return None
    return list(strategies_with(declared_abilities(metric)))


def _notes(registry: Registry, entry: Entry) -> Iterator[str]:
    """Which metrics and strategies go together."""
    if entry.problem:
        yield entry.problem
    elif registry is METRICS:
        yield f"strategies: {_shown_strategies(entry.cls)}"
    elif registry is STRATEGIES:
        for field, need in required_abilities(entry.cls).items():
            if need:
                yield f"--{field} takes a metric that {need}: {', '.join(metrics_with(need))}"


def _shown_strategies(metric: type) -> str:
    works = strategies_for(metric)
    if works is None:
        return "those that the metrics inside it allow"
    fails = [name for name in STRATEGIES.names() if name not in works]
    return f"all but {', '.join(fails)}" if fails else "all"


def show(registry: Registry, prefix: str, names: Sequence[str] = ()) -> None:
    """For people: a paragraph for each name."""
    for entry in entries(registry, names):
        click.echo(f"{click.style(entry.name, bold=True)}: {entry.summary}")
        shown = [(f.shown(prefix), f.help) for f in entry.fields if f.name not in SHARED]
        width = max((len(flag) for flag, _ in shown), default=0)
        for flag, help_line in shown:
            click.echo(f"    {flag:<{width}}  {help_line}".rstrip())
        for note in _notes(registry, entry):
            click.echo(f"    {note}")


def as_json(registry: Registry, prefix: str, names: Sequence[str] = ()) -> None:
    for entry in entries(registry, names):
        options = [
            {"flag": prefix + f.flag[2:], "type": f.kind, "help": f.help,
             "required": f.required, "default": None if f.required else f.default}
            for f in entry.fields if f.name not in SHARED
        ]
        known = {"name": entry.name, "summary": entry.summary, "options": options,
                 "problem": entry.problem}
        click.echo(json.dumps(known | _fit(registry, entry), default=str))


def _fit(registry: Registry, entry: Entry) -> dict[str, Any]:
    if entry.problem:
        return {}
    if registry is METRICS:
        return {"aggregates": Ability.AVERAGES in declared_abilities(entry.cls),
                "strategies": strategies_for(entry.cls)}
    if registry is STRATEGIES:
        return {"metrics": {field: list(metrics_with(need))
                            for field, need in required_abilities(entry.cls).items()}}
    return {}
