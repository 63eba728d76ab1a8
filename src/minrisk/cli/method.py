"""Options that come from dataclasses: a command learns those of its strategy, metric and sampler.

`--groups 16` fills the field `groups` of the strategy, `--metric.order 4` the field `order` of the
metric, and `--coarse chrf --coarse.order 3` does the same for a strategy's second metric. Metrics
inside others go by their names: `--metric chrf+comet --metric.chrf.order 4`. `--epsilon 0.02` fills
the field `epsilon` of the sampler.
"""

from __future__ import annotations

import typing
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, ClassVar

import click

from minrisk._core.adapters import named_metric
from minrisk._core.decoding import METRIC, STRATEGY
from minrisk._core.errors import InputError, MinriskError, unknown
from minrisk._core.metric import AnyMetric, Metric
from minrisk._core.recipe import key
from minrisk._core.registry import METRICS, SAMPLERS, STRATEGIES, Registry
from minrisk._core.sampler import Sampler
from minrisk._core.strategy import Strategy
from minrisk.cli.config import check_keys, config_arguments
from minrisk.cli.elsewhere import elsewhere, value_elsewhere
from minrisk.cli.listing import SHARED, Field, entries, fields_of

SAMPLER, ENDPOINT = "hf", "openai"  # unless told otherwise; the second for an --endpoint
_OWN = "minrisk.cli.method"  # where a context keeps the options of its strategy and metric


class Grouped(click.Option):
    """An option with a place in the help."""

    def __init__(self, *args: Any, section: str = "Options", **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.section = section


class MethodCommand(click.Command):
    """A command whose options grow with the chosen strategy and metric."""

    registries: ClassVar[tuple[Registry, ...]] = (STRATEGIES, METRICS)

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
        for param in self.get_params(ctx):
            if isinstance(param, click.Option) and (record := param.get_help_record(ctx)):
                sections.setdefault(getattr(param, "section", "Run"), []).append(record)
        for title, records in sections.items():
            with formatter.section(title):
                formatter.write_dl(records)
        formatter.write_paragraph()
        for registry in self.registries:
            flag = f"--{registry.kind}"
            if any(flag in param.opts for param in self.params):
                formatter.write_text(f"{flag}: {', '.join(registry.names())}. `{flag} NAME --help` "
                                     "shows the options of another.")

    def _prepare(self, ctx: click.Context, args: list[str]) -> list[str]:
        """The arguments with the configuration file's before them, and flags spelled plainly."""
        path = _last(args, "--config")
        configured = config_arguments(path) if path else []
        args = [*configured, *args]
        _check_values(args)
        ctx.meta[_OWN] = list(self.own_options(args))
        options = [p for p in self.get_params(ctx) if isinstance(p, click.Option)]
        if path:
            check_keys(path, configured, (name for o in options for name in o.opts),
                       partial(_hint, registries=self.registries))
        return _spell_flags(args, {name for o in options if o.is_flag for name in o.opts})

    def own_options(self, args: Sequence[str]) -> Iterator[click.Option]:
        name = _last(args, "--strategy", STRATEGY)
        for field in fields_of(STRATEGIES.get(name)):
            if field.name not in SHARED:
                yield _option("strategy", field, field.flag, f"Strategy {name}")
            if field.type is Metric:
                yield from _metric_options(field.name, _last(args, field.flag, _default(field)))

    def _unknown(self, ctx: click.Context, name: str, args: Sequence[str]) -> InputError:
        known = [name for p in self.get_params(ctx) for name in p.opts if name.startswith("--")]
        own = [p.opts[-1] for p in ctx.meta.get(_OWN, [])]
        hint = _hint(_dashed(name), known, self.registries)
        return InputError(f"{hint}{self.describe(args, own)}; see --help")

    def describe(self, args: Sequence[str], own: Sequence[str]) -> str:
        """Who takes which of the options that are not the command's."""
        ours = " ".join(o for o in own if "." not in o) or "no options of its own"
        return (f"strategy {_last(args, '--strategy', STRATEGY)!r} takes {ours}; "
                + _describe_metrics([_last(args, "--metric", METRIC)], own))


class MetricCommand(MethodCommand):
    """A command whose options grow with its metrics, and which chooses no strategy."""

    registries = (METRICS,)

    def own_options(self, args: Sequence[str]) -> Iterator[click.Option]:
        return _metric_options("metric", *(_all(args, "--metric") or [METRIC]))

    def describe(self, args: Sequence[str], own: Sequence[str]) -> str:
        return _describe_metrics(_all(args, "--metric") or [METRIC], own)


class StudyCommand(MethodCommand):
    """A command that tries all strategies, and takes the further metrics that some of them need."""

    registries = (METRICS,)

    def own_options(self, args: Sequence[str]) -> Iterator[click.Option]:
        yield from _metric_options("metric", _last(args, "--metric", METRIC))
        for field in _further_metrics():
            yield _option("strategy", field, field.flag, "Method")
            yield from _metric_options(field.name, _last(args, field.flag))

    def describe(self, args: Sequence[str], own: Sequence[str]) -> str:
        return _describe_metrics([_last(args, "--metric", METRIC)], own)


class SamplerCommand(MethodCommand):
    """A command whose options grow with its sampler, and which chooses no strategy."""

    registries = (SAMPLERS,)

    def own_options(self, args: Sequence[str]) -> Iterator[click.Option]:
        return _sampler_options(args)

    def describe(self, args: Sequence[str], own: Sequence[str]) -> str:
        return _describe_sampler(args, own)


class SamplerMethodCommand(MethodCommand):
    """A command whose options grow with its sampler, strategy and metric."""

    registries = (SAMPLERS, STRATEGIES, METRICS)

    def own_options(self, args: Sequence[str]) -> Iterator[click.Option]:
        yield from _sampler_options(args)
        yield from super().own_options(args)

    def describe(self, args: Sequence[str], own: Sequence[str]) -> str:
        theirs = [option.opts[-1] for option in _sampler_options(args)]
        others = [option for option in own if option not in theirs]
        return f"{_describe_sampler(args, theirs)}; {super().describe(args, others)}"


def _further_metrics() -> list[Field]:
    fields = (field for entry in entries(STRATEGIES) for field in entry.fields)
    return list({f.name: f for f in fields if f.type is Metric and f.name != "metric"}.values())


def _describe_metrics(names: Iterable[str], own: Sequence[str]) -> str:
    theirs = " ".join(o for o in own if o.startswith("--metric.")) or "no options"
    return f"metric {', '.join(map(repr, names))} takes {theirs}"


def _describe_sampler(args: Sequence[str], own: Sequence[str]) -> str:
    return f"sampler {_sampler_name(args)!r} takes {' '.join(own) or 'no options'}"


def _hint(name: str, known: Iterable[str], registries: Iterable[Registry]) -> str:
    """Who would have known the option, what it is called here, or else the nearest name."""
    owners = [f"{registry.kind} {e.name}" for registry in registries if registry is not METRICS
              for e in entries(registry) if name in (f.flag for f in e.fields)]
    if owners:
        return f"unknown option {name!r}; it belongs to {', '.join(owners)}; "
    if ours := elsewhere(name):
        return f"unknown option {name!r}; here it is {ours}; "
    return str(unknown("option", name, known)).partition("known: ")[0]


def _check_values(args: Sequence[str]) -> None:
    for value in _all(args, "--format"):
        if ours := value_elsewhere("--format", value):
            raise InputError(f"unknown value --format {value}; here it is {ours}")


def strategy_of(params: dict[str, Any]) -> Strategy:
    """The strategy that the parsed options describe."""
    given = {key: value for key, value in params.items() if value is not None}
    fields = {f.name: f for f in fields_of(STRATEGIES.get(given["strategy"]))}
    options = _values(given, "strategy")
    for name in [n for n, f in fields.items() if f.type is Metric]:
        chosen = given["metric"] if name == "metric" else options.get(name)
        if chosen:
            options[name] = named_metric(chosen, **_values(given, name))
    if "seed" in fields and "seed" in given:
        options["seed"] = given["seed"]
    made: Strategy = STRATEGIES.make(given["strategy"], **options)
    return made


def study_metrics(params: dict[str, Any]) -> dict[str, AnyMetric]:
    """The metric, and the further ones by the names of their fields."""
    given = {key: value for key, value in params.items() if value is not None}
    names = {"metric": given["metric"]} | _values(given, "strategy")
    return {owner: named_metric(name, **_values(given, owner)) for owner, name in names.items()}


def metrics_of(params: dict[str, Any]) -> list[AnyMetric]:
    """The metrics that the parsed options describe; a field is for every metric that has it."""
    return [named_metric(name, **_metric_values(params, name)) for name in params["metric"]]


def _metric_values(params: dict[str, Any], name: str) -> dict[str, Any]:
    known = {option.name for option in _metric_options("metric", name)}
    return _values({k: v for k, v in params.items() if k in known and v is not None}, "metric")


def sampler_of(params: dict[str, Any]) -> Sampler:
    """The sampler that the parsed options describe."""
    values = _values({key: v for key, v in params.items() if v is not None}, "sampler")
    name = params["sampler"] or (ENDPOINT if "endpoint" in values else SAMPLER)
    made: Sampler = SAMPLERS.make(name, **values)
    return made


def _values(given: dict[str, Any], owner: str) -> dict[str, Any]:
    start = f"{owner}__"
    return {key.removeprefix(start): value for key, value in given.items() if key.startswith(start)}


def _sampler_options(args: Sequence[str]) -> Iterator[click.Option]:
    return sampler_options(_sampler_name(args))


def sampler_options(name: str, but: Collection[str] = ()) -> Iterator[click.Option]:
    """`--FIELD` for the fields of a sampler, but for some."""
    for field in fields_of(SAMPLERS.get(name)):
        if field.name not in but:
            yield _option("sampler", field, field.flag, f"Sampler {name}")


def _sampler_name(args: Sequence[str]) -> str:
    """An address says well enough which sampler is meant."""
    return _last(args, "--sampler", ENDPOINT if _last(args, "--endpoint") else SAMPLER)


def _metric_options(owner: str, *names: str) -> Iterator[click.Option]:
    """`--OWNER.FIELD` for the fields of these metrics."""
    found = (option for name in names if name for option in _part_options(owner, name))
    yield from {option.name: option for option in found}.values()


def _part_options(owner: str, name: str) -> Iterator[click.Option]:
    """Those of a metric, and of the metrics inside it under their names."""
    for path, recipe in METRICS.recipe(name).owners():
        inside = "__".join([owner, *map(key, path)])
        flag = ".".join([f"--{owner.replace('_', '-')}", *path])
        for field in fields_of(recipe.cls):
            if field.name not in recipe.given:
                yield _option(inside, field, f"{flag}.{field.flag[2:]}", f"Metric {recipe.name}")


def _default(field: Field) -> str:
    return METRIC if field.name == "metric" else ""


def _option(owner: str, field: Field, flag: str, section: str) -> click.Option:
    """An option that leaves the dataclass its default; the name says whose field it fills."""
    shown = f"{flag}/--no-{flag[2:]}" if field.type is bool else flag
    names = _metric_names if field.type is Metric else None
    return Grouped([f"{owner}__{field.name}", shown], type=_type(field), default=None,
                   shell_complete=names, help=field.described, metavar=field.metavar,
                   section=section)


def _metric_names(ctx: click.Context, param: click.Parameter, start: str) -> list[str]:
    return [name for name in METRICS.names() if name.startswith(start)]


def _type(field: Field) -> Any:
    if typing.get_origin(field.type) is typing.Literal:
        return click.Choice(typing.get_args(field.type))
    return field.type if field.type in (int, float, bool) else str


def _last(args: Sequence[str], option: str, default: str = "") -> str:
    return [default, *_all(args, option)][-1]


def _all(args: Sequence[str], option: str) -> list[str]:
    """The values of an option before the options that depend on it are known."""
    found = []
    for arg, following in zip(args, [*args, ""][1:], strict=True):
        name, equals, value = arg.partition("=")
        if _dashed(name) == option and (equals or following):
            found.append(value if equals else following)
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
