"""Dataclass fields as options of the command line.

A command takes frozen dataclasses. `minrisk._core.options.flag` declares a field that an option
fills, `argument` one for what has no flag. Fields of metrics, strategies and samplers, which
`minrisk._core.options.option` declares, become options in the same way: the same check as in Python
refuses a wrong value, with the flag's name in its message.
"""

from __future__ import annotations

import dataclasses
import typing
from dataclasses import dataclass, replace
from typing import Any

import click
from click.core import ParameterSource
from click.shell_completion import CompletionItem

from minrisk._core.errors import InputError, brief
from minrisk._core.options import FlagSpec, checked
from minrisk.cli.fields import REGISTRIES, Field, as_field
from minrisk.cli.other_tools import foreign_hint

CONFIG = "minrisk.cli.config"  # where a context has the path of its configuration file
_FILES = {"FILE": "file", "FOLDER": "dir"}  # what a shell completes


@dataclass(frozen=True)
class Positional:
    """An argument without a flag."""

    metavar: str
    required: bool = False


def argument(metavar: str, required: bool = False) -> Any:
    """A field of a command's dataclass, filled by an argument without a flag."""
    return dataclasses.field(default=(), metadata={"argument": Positional(metavar, required)})


def parameters(group: type) -> list[click.Parameter]:
    """The arguments and options that fill the fields of a command's dataclass."""
    hints = typing.get_type_hints(group)
    return [_parameter(f, as_field(f, hints[f.name])) for f in dataclasses.fields(group)
            if {"flag", "argument"} & f.metadata.keys()]


def _parameter(f: dataclasses.Field[Any], field: Field) -> click.Parameter:
    if "flag" in f.metadata:
        return FieldOption(field, f.metadata["flag"], default=field.default)
    position: Positional = f.metadata["argument"]
    several = typing.get_origin(field.type) is tuple
    return click.Argument([field.name], metavar=position.metavar, required=position.required,
                          nargs=-1 if several else 1, type=click.Path())


class FieldOption(click.Option):
    """An option that fills a field of a dataclass."""

    def __init__(self, field: Field, spec: FlagSpec, *, flag: str | None = None,
                 name: str | None = None, default: Any = None) -> None:
        self.field, self.spec, self.flag = field, spec, flag or field.flag
        several = typing.get_origin(field.type) is tuple
        one = replace(field, type=typing.get_args(field.type)[0]) if several else field
        is_flag = field.type is bool
        long = f"{self.flag}/--no-{self.flag[2:]}" if is_flag else self.flag
        super().__init__([name or field.name, *spec.names, long], default=default,
                         type=BoolType() if is_flag else FieldType(one, spec), multiple=several,
                         is_flag=is_flag, help=field.help, hidden=spec.hidden)

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
        if self.hidden:
            return None
        name = self.field.to_type(self.flag)
        short = [other for other in self.spec.names if not other.startswith("--")]
        return " ".join(filter(None, [", ".join([*short, name]), self.shown_metavar])), \
            self.field.described

    @property
    def shown_metavar(self) -> str:
        if self.field.type is bool:
            return ""
        if self.field.choices:
            return f"[{self.field.kind}]"
        return self.spec.metavar or self.field.kind.upper()

    def is_given(self, ctx: click.Context) -> bool:
        assert self.name is not None
        return ctx.get_parameter_source(self.name) is not ParameterSource.DEFAULT

    def given_as(self, ctx: click.Context | None) -> str:
        """The origin of the value, for messages: the flag, or the key of a file."""
        assert self.name is not None
        if ctx and ctx.get_parameter_source(self.name) is ParameterSource.DEFAULT_MAP:
            return f"{ctx.meta[CONFIG]}: {self.flag[2:]}"
        return self.flag


class FieldType(click.ParamType):  # type: ignore[type-arg] # older versions of click are not generic
    """The click type of a field, with the checks of its dataclass."""

    def __init__(self, field: Field, spec: FlagSpec) -> None:
        self.field, self.spec = field, spec
        self.name = field.kind

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        assert isinstance(param, FieldOption)
        if hint := foreign_hint(f"{param.flag} {value}", ctx.command.name if ctx else None):
            raise InputError(f"unknown value {param.flag} {value}; {hint}")
        kind = str if self.field.type in REGISTRIES else self.field.type
        return checked(param.given_as(ctx), _number(value, kind), kind, self.field.bounds)

    def shell_complete(self, ctx: click.Context, param: click.Parameter,
                       incomplete: str) -> list[CompletionItem]:
        if self.spec.metavar in _FILES:
            return [CompletionItem(incomplete, type=_FILES[self.spec.metavar])]
        registry = REGISTRIES.get(self.field.type) or self.spec.registry
        names = registry.names() if registry else self.field.choices
        return [CompletionItem(name) for name in names if name.startswith(incomplete)]


class BoolType(click.types.BoolParamType):
    """True or false, as a configuration file has it."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if isinstance(value, bool):
            return value
        assert isinstance(param, FieldOption)
        raise InputError(f"{param.given_as(ctx)} must be true or false; got {brief(value)}")


def _number(value: Any, kind: Any) -> Any:
    """The number that a text stands for, if it does."""
    if kind not in (int, float) or not isinstance(value, str):
        return value
    try:
        return kind(value)
    except ValueError:
        return value
