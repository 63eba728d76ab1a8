"""What is installed: every metric and strategy with the fields of its dataclass."""

from __future__ import annotations

import dataclasses
import json
import types
import typing
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import click

from minrisk.metric import Aggregates, Metric
from minrisk.registry import METRICS, Registry

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
    fields: tuple[Field, ...] = ()
    aggregates: bool = False
    problem: str | None = None


def fields_of(cls: type) -> tuple[Field, ...]:
    hints = typing.get_type_hints(cls)
    return tuple(
        Field(f.name, _plain(hints[f.name]), _default(f), f.metadata.get("help", ""))
        for f in dataclasses.fields(cls) if not _is_for_names(f, hints[f.name])
    )


def entries(registry: Registry) -> Iterator[Entry]:
    for name in registry.names():
        try:
            cls = registry.get(name)
            summary = (cls.__doc__ or "").strip().partition("\n")[0]
            yield Entry(name, summary, fields_of(cls), issubclass(cls, Aggregates))
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


def show(registry: Registry, prefix: str) -> None:
    """For people: a paragraph for each name."""
    for entry in entries(registry):
        click.echo(f"{click.style(entry.name, bold=True)}: {entry.summary}")
        if entry.problem:
            click.echo(f"    {entry.problem}")
        shown = [(f.shown(prefix), f.help) for f in entry.fields if f.name not in SHARED]
        width = max((len(flag) for flag, _ in shown), default=0)
        for flag, help_line in shown:
            click.echo(f"    {flag:<{width}}  {help_line}".rstrip())
        if entry.aggregates:
            click.echo("    references can be averaged, so every strategy works")


def as_json(registry: Registry, prefix: str) -> None:
    for entry in entries(registry):
        options = [
            {"flag": prefix + f.flag[2:], "type": f.kind, "help": f.help,
             "required": f.required, "default": None if f.required else f.default}
            for f in entry.fields if f.name not in SHARED
        ]
        known = {"name": entry.name, "summary": entry.summary, "options": options,
                 "problem": entry.problem}
        extra = {"aggregates": entry.aggregates} if registry is METRICS else {}
        click.echo(json.dumps(known | extra, default=str))
