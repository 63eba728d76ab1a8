"""Options that come from dataclasses: a command learns those of its strategy and metric.

`--groups 16` fills the field `groups` of the strategy, `--metric.order 4` the field `order` of the
metric, and `--coarse chrf --coarse.order 3` does the same for a strategy's second metric. Metrics
inside others go by their names: `--metric chrf+comet --metric.chrf.order 4`.
"""

from __future__ import annotations

import typing
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import click

from minrisk.cli.config import check_keys, config_arguments
from minrisk.cli.listing import SHARED, Entry, Field, entries, fields_of
from minrisk.decoding import METRIC, STRATEGY
from minrisk.errors import InputError, MinriskError, unknown
from minrisk.metric import Metric
from minrisk.recipe import key
from minrisk.registry import METRICS, STRATEGIES
from minrisk.strategy import Strategy

_OWN = "minrisk.cli.method"  # where a context keeps the options of its strategy and metric


class Grouped(click.Option):
    """An option with a place in the help."""

    def __init__(self, *args: Any, section: str = "Options", **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.section = section


class MethodCommand(click.Command):
    """A command whose options grow with the chosen strategy and metric."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        try:
            args = self._prepare(ctx, args)
        except MinriskError:
            if not ctx.resilient_parsing:  # which is for completing a line that is not yet whole
                raise
        try:
            return super().parse_args(ctx, list(args))  # which it would consume
        except click.NoSuchOption as error:
            raise self._unknown(ctx, error.option_name, args) from None

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        return [*super().get_params(ctx), *ctx.meta.get(_OWN, [])]

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        sections: dict[str, list[tuple[str, str]]] = {}
        for param in super().get_params(ctx):
            if isinstance(param, click.Option) and (record := param.get_help_record(ctx)):
                sections.setdefault(getattr(param, "section", "Run"), []).append(record)
        for title, records in sections.items():
            with formatter.section(title):
                formatter.write_dl(records)
        _list_methods(formatter)

    def _prepare(self, ctx: click.Context, args: list[str]) -> list[str]:
        """The arguments with the configuration file's before them, and flags spelled plainly."""
        path = _last(args, "--config")
        configured = config_arguments(path) if path else []
        args = [*configured, *args]
        ctx.meta[_OWN] = list(_own_options(args))
        options = [p for p in self.get_params(ctx) if isinstance(p, click.Option)]
        if path:
            check_keys(path, configured, (name for o in options for name in o.opts), _hint)
        return _spell_flags(args, {name for o in options if o.is_flag for name in o.opts})

    def _unknown(self, ctx: click.Context, name: str, args: Sequence[str]) -> InputError:
        known = [name for p in self.get_params(ctx) for name in p.opts if name.startswith("--")]
        own = [p.opts[-1] for p in ctx.meta.get(_OWN, [])]
        ours = " ".join(o for o in own if "." not in o) or "no options of its own"
        theirs = " ".join(o for o in own if o.startswith("--metric.")) or "no options"
        return InputError(
            f"{_hint(_dashed(name), known)}strategy {_last(args, '--strategy', STRATEGY)!r} takes "
            f"{ours}; metric {_last(args, '--metric', METRIC)!r} takes {theirs}; see --help")


def _hint(name: str, known: Iterable[str]) -> str:
    """Which strategies would have known the option, or else the nearest name."""
    owners = [e.name for e in entries(STRATEGIES) if name in (f.flag for f in e.fields)]
    if owners:
        return f"unknown option {name!r}; it belongs to strategy {', '.join(owners)}; "
    return str(unknown("option", name, known)).partition("known: ")[0]


def strategy_of(params: dict[str, Any]) -> Strategy:
    """The strategy that the parsed options describe."""
    given = {key: value for key, value in params.items() if value is not None}
    fields = {f.name: f for f in fields_of(STRATEGIES.get(given["strategy"]))}
    options = _values(given, "strategy")
    for name in [n for n, f in fields.items() if f.type is Metric]:
        chosen = given["metric"] if name == "metric" else options.get(name)
        if chosen:
            options[name] = METRICS.make(chosen, **_values(given, name))
    if "seed" in fields and "seed" in given:
        options["seed"] = given["seed"]
    made: Strategy = STRATEGIES.make(given["strategy"], **options)
    return made


def _values(given: dict[str, Any], owner: str) -> dict[str, Any]:
    start = f"{owner}__"
    return {key.removeprefix(start): value for key, value in given.items() if key.startswith(start)}


def _own_options(args: Sequence[str]) -> Iterator[click.Option]:
    for field in fields_of(STRATEGIES.get(_last(args, "--strategy", STRATEGY))):
        if field.name not in SHARED:
            yield _option("strategy", field, field.flag)
        if field.type is Metric:
            chosen = _last(args, field.flag, METRIC if field.name == "metric" else "")
            yield from _metric_options(field, chosen) if chosen else ()


def _metric_options(field: Field, chosen: str) -> Iterator[click.Option]:
    """Those of a metric, and of the metrics inside it under their names."""
    for path, recipe in METRICS.recipe(chosen).owners():
        owner = "__".join([field.name, *map(key, path)])
        flag = ".".join([field.flag, *path])
        for own in fields_of(recipe.cls):
            if own.name not in recipe.given:
                yield _option(owner, own, f"{flag}.{own.flag[2:]}")


def _option(owner: str, field: Field, flag: str) -> click.Option:
    """An option that leaves the dataclass its default; the name says whose field it fills."""
    shown = f"{flag}/--no-{flag[2:]}" if field.type is bool else flag
    names = _metric_names if field.type is Metric else None
    return click.Option([f"{owner}__{field.name}", shown], type=_type(field), default=None,
                        shell_complete=names)


def _metric_names(ctx: click.Context, param: click.Parameter, start: str) -> list[str]:
    return [name for name in METRICS.names() if name.startswith(start)]


def _type(field: Field) -> Any:
    if typing.get_origin(field.type) is typing.Literal:
        return click.Choice(typing.get_args(field.type))
    return field.type if field.type in (int, float, bool) else str


def _last(args: Sequence[str], option: str, default: str = "") -> str:
    """The value of an option before the options that depend on it are known."""
    found = default
    for arg, following in zip(args, [*args, ""][1:], strict=True):
        name, equals, value = arg.partition("=")
        if _dashed(name) == option:
            found = value if equals else following or found
    return found


def _spell_flags(args: Iterable[str], flags: set[str]) -> list[str]:
    """`--flag=true` and `--flag=false`, as files have them, as `--flag` and `--no-flag`."""
    spelled: list[str] = []
    for arg in args:
        name, equals, value = arg.partition("=")
        if equals and _dashed(name) in flags:
            spelled.append(_flag(_dashed(name), value))
        else:
            spelled.append(arg)
    return spelled


def _flag(name: str, value: str) -> str:
    if value not in ("true", "false"):
        raise InputError(f"found {name}={value}, wanted true or false")
    return name if value == "true" else f"--no-{name[2:]}"


def _dashed(name: str) -> str:
    return name.replace("_", "-") if name.startswith("--") else name


def _list_methods(formatter: click.HelpFormatter) -> None:
    for title, registry, prefix in (
        ("Strategies (--strategy NAME) and their options", STRATEGIES, "--"),
        ("Metrics (--metric NAME) and their options", METRICS, "--metric."),
    ):
        with formatter.section(title):
            formatter.write_dl([row for e in entries(registry) for row in _describe(e, prefix)])


def _describe(entry: Entry, prefix: str) -> Iterator[tuple[str, str]]:
    yield entry.name, entry.problem or entry.summary
    for field in (f for f in entry.fields if f.name not in SHARED):
        yield f"  {field.shown(prefix)}", field.help
