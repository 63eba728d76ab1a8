"""Dataclass fields as options of the command line.

A command takes frozen dataclasses. `minrisk._core.options.flag` declares a field for an option,
`argument` a field for a positional argument. Fields of metrics, strategies and samplers, declared
by `minrisk._core.options.option`, become options in the same way. Values are checked as in Python;
error messages name the flag.

Messages of the library name options as in Python; the command line rewrites them as flags:

    subset=9 -> --subset 9        resume=True -> --resume        beta= -> --metric.beta
                                  logprobs=False -> --no-logprobs
"""

from __future__ import annotations

import dataclasses
import re
import types
import typing
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any

import click
from click.core import ParameterSource
from click.shell_completion import CompletionItem

from minrisk._core.errors import InputError, brief, with_options
from minrisk._core.metric import Metric
from minrisk._core.options import UNBOUNDED, Bounds, FlagSpec, checked, help_of
from minrisk._core.registry import METRICS, STRATEGIES, Registry
from minrisk._core.strategy import Strategy
from minrisk.cli.other_tools import foreign_hint

_NAMES = {int: "int", float: "float", bool: "flag", str: "text", Metric: "metric",
          Strategy: "strategy"}
REGISTRIES = {Metric: METRICS, Strategy: STRATEGIES}  # by type of a field that names a component
CONFIG = "minrisk.cli.config"  # key in a context's `meta`: path of the configuration file
_FILES = {"FILE": "file", "FOLDER": "dir"}  # kind of completion, by metavar
_OPTION = re.compile(r"""(?<![\w.-])([a-z]\w*)=   # name, then a value or a template's field
                     (True\b|False\b|'[^']*'|"[^"]*"|-?[\d.]*\d|\{\w+(?:!r)?(?::\w+)?\})?""",
                     re.VERBOSE)
# flags of the running command by the names of options
flags: ContextVar[dict[str, str]] = ContextVar("flags", default={})  # noqa: B039


@dataclass(frozen=True)
class Field:
    """A field of a dataclass that is filled by an option of the command line."""

    name: str
    type: Any  # int, float, bool, str, Metric or a Literal
    default: Any  # dataclasses.MISSING if it is required
    help: str
    bounds: Bounds = UNBOUNDED
    multiple: bool = False  # may be given several times, for a tuple

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
        """Its help as a sentence; for a flag that is on by default, what turning it off means."""
        return sentence(f"do not {self.help}" if self.default is True else self.help)

    @property
    def described(self) -> str:
        """Its help as a sentence, with its default."""
        if self.required:
            return f"{self.explained} [required]"
        if self.default in (None, (), "-") or self.type is bool:
            return self.explained
        default = self.default if not isinstance(self.default, tuple) else ", ".join(self.default)
        return f"{self.explained} [default: {default}]"

    def shown_flag(self, flag: str) -> str:
        """The flag that changes the default, e.g. `--no-trust`."""
        return f"--no-{flag[2:]}" if self.default is True else flag

    def shown(self, prefix: str = "--") -> str:
        """The field as on the command line, e.g. `--groups int (1)`."""
        flag = self.shown_flag(prefix + self.flag[2:])
        if self.type is bool:
            return flag
        if self.default is None:  # no default, or one that the help describes
            return f"{flag} {self.kind}"
        return f"{flag} {self.kind} ({'required' if self.required else self.default})"


@dataclass(frozen=True)
class Entry:
    """An installed component; if it cannot be loaded, only `name` and `problem` are set."""

    name: str
    summary: str
    cls: type = object
    fields: tuple[Field, ...] = ()
    problem: str | None = None

    @property
    def papers(self) -> tuple[str, ...]:
        """The papers that introduced it."""
        return getattr(self.cls, "papers", ())

    @property
    def cost(self) -> str:
        """Its cost for n hypotheses and m references, or n samples; empty if undeclared."""
        return getattr(self.cls, "cost", "")


def sentence(text: str) -> str:
    """The text with a capital and a period, which precedes a default in brackets.

    >>> sentence("size of the cache in GB [default: no cache]")
    'Size of the cache in GB. [default: no cache]'
    """
    words, bracket, default = text.partition(" [default: ")
    return f"{words[:1].upper()}{words[1:].rstrip('.')}.{bracket}{default}" if text else ""


@cache
def fields_of(cls: type) -> tuple[Field, ...]:
    """The fields of a metric, strategy or sampler that are options."""
    hints = typing.get_type_hints(cls)
    # a name such as `chrf+comet` sets inner metrics and their weights
    return tuple(replace(as_field(f, hints[f.name]), help=help_of(cls, f))
                 for f in dataclasses.fields(cls)
                 if "inner" not in f.metadata and typing.get_origin(hints[f.name]) is not tuple)


def as_field(f: dataclasses.Field[Any], hint: Any) -> Field:
    """A field with its type, without None; `Metric` stands for metrics of any feature type."""
    if isinstance(hint, types.UnionType) or typing.get_origin(hint) is typing.Union:
        hint = next(arg for arg in typing.get_args(hint) if arg is not type(None))
    is_tuple = typing.get_origin(hint) is tuple
    kind = (Metric if typing.get_origin(hint) is Metric else
            typing.get_args(hint)[0] if is_tuple else hint)
    factory = f.default_factory
    default = f.default if factory is dataclasses.MISSING else factory()
    return Field(f.name, kind, default, f.metadata.get("help", ""),
                 f.metadata.get("bounds", UNBOUNDED), is_tuple)


def entries(registry: Registry, names: Sequence[str] = ()) -> Iterator[Entry]:
    """The entries of these names, or all."""
    for name in names or registry.names():
        try:
            cls = registry.get(name)
            summary = (cls.__doc__ or "").strip().partition("\n")[0]
            yield Entry(name, summary, cls, fields_of(cls))
        except Exception as error:  # a broken plug-in must not hide the others
            yield Entry(name, "not available", problem=str(error) or repr(error))


def argument(metavar: str, required: bool = False) -> Any:
    """A field of a command's dataclass, filled by an argument without a flag."""
    shown = {"metavar": metavar, "required": required}
    return dataclasses.field(default=(), metadata={"argument": shown})


def parameters(group: type) -> Iterator[click.Parameter]:
    """The arguments and options that fill the fields of a command's dataclass."""
    hints = typing.get_type_hints(group)
    for f in dataclasses.fields(group):
        field = as_field(f, hints[f.name])
        if "flag" in f.metadata:
            yield FieldOption(field, f.metadata["flag"], default=field.default)
        elif "argument" in f.metadata:
            yield click.Argument([field.name], type=click.Path(),
                                 nargs=-1 if field.multiple else 1, **f.metadata["argument"])


class FieldOption(click.Option):
    """An option that fills a field of a dataclass."""

    def __init__(self, field: Field, spec: FlagSpec, *, flag: str | None = None,
                 name: str | None = None, default: Any = None) -> None:
        self.field, self.spec, self.flag = field, spec, flag or field.flag
        is_flag = field.type is bool
        long = f"{self.flag}/--no-{self.flag[2:]}" if is_flag else self.flag
        super().__init__([name or field.name, *spec.names, long], default=default,
                         type=BoolType() if is_flag else FieldType(), is_flag=is_flag,
                         multiple=field.multiple, help=field.help, hidden=spec.hidden)

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
        if self.hidden:
            return None
        name = self.field.shown_flag(self.flag)
        short = [other for other in self.spec.names if not other.startswith("--")]
        return " ".join(filter(None, [", ".join([*short, name]), self.shown_metavar])), \
            self.field.described

    @property
    def shown_metavar(self) -> str:
        if self.field.type is bool:
            return ""
        if self.spec.metavar:
            return self.spec.metavar
        return f"[{self.field.kind}]" if self.field.choices else self.field.kind.upper()

    def given_as(self, ctx: click.Context | None) -> str:
        """Where the value is from, for messages: the flag, or a key of the configuration file."""
        assert self.name is not None
        if ctx and ctx.get_parameter_source(self.name) is ParameterSource.DEFAULT_MAP:
            return f"{ctx.meta[CONFIG]}: {self.flag[2:]}"
        return self.flag


class FieldType(click.ParamType):  # type: ignore[type-arg] # older versions of click are not generic
    """The click type of a field; values are checked as in its dataclass."""

    name = "value"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        assert isinstance(param, FieldOption)
        kind = str if param.field.type in REGISTRIES else param.field.type
        with suppress(ValueError):  # text that is no number is refused below
            value = kind(value) if kind in (int, float) else value
        try:
            return checked(param.given_as(ctx), value, kind, param.field.bounds)
        except InputError:
            if hint := foreign_hint(f"{param.flag} {value}", ctx.command.name if ctx else None):
                raise InputError(f"unknown value {param.flag} {value}; {hint}") from None
            raise

    def shell_complete(self, ctx: click.Context, param: click.Parameter,
                       incomplete: str) -> list[CompletionItem]:
        assert isinstance(param, FieldOption)
        if param.spec.metavar in _FILES:
            return [CompletionItem(incomplete, type=_FILES[param.spec.metavar])]
        registry = REGISTRIES.get(param.field.type) or param.spec.registry
        names = registry.names() if registry else param.field.choices
        return [CompletionItem(name) for name in names if name.startswith(incomplete)]


class BoolType(click.types.BoolParamType):
    """True or false, as in a configuration file."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if isinstance(value, bool):
            return value
        assert isinstance(param, FieldOption)
        raise InputError(f"{param.given_as(ctx)} must be true or false; got {brief(value)}")


def set_flags(ctx: click.Context) -> None:
    """Set the flags that `as_flags` uses; if fields share a name, the one that was given counts."""
    every, given = defaultdict[str, set[str]](set), defaultdict[str, set[str]](set)
    for option in ctx.command.get_params(ctx):
        if not isinstance(option, FieldOption):
            continue
        every[option.field.name].add(option.flag)
        if ctx.get_parameter_source(str(option.name)) is not ParameterSource.DEFAULT:
            given[option.field.name].add(option.flag)
    flags.set({name: found.pop() for part in (every, given) for name, found in part.items()
               if len(found) == 1})


def as_flags(text: object, known: Mapping[str, str] | None = None) -> str:
    """The text of an error or warning; the options that its `Wording` names are shown as flags.

    `known` is for worker processes, which do not know the running command.
    """
    rename = partial(_as_flag, flags.get() if known is None else known)
    return with_options(text, partial(_OPTION.sub, rename))


def _as_flag(known: Mapping[str, str], found: re.Match[str]) -> str:
    flag = known.get(found[1])
    value = (found[2] or "").strip("'").replace("!r}", "}")
    if flag is None:
        return found[0]
    if value == "False":
        return f"--no-{flag[2:]}"
    return flag if value in ("", "True") else f"{flag} {value}"
