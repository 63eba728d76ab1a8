"""Components named by options (metrics, strategies, samplers), and the options for their fields.

`--coarse chrf --coarse.order 3` configures the second metric of a strategy, and `--coarse aggregate
--coarse.groups 4 --coarse.metric chrf --coarse.metric.order 3` a stage of a cascade. Metrics inside
others are addressed by their names: `--metric chrf+comet --metric.chrf.order 4`.
`--references.temperature 1` configures the sampler of separate references, whose options default to
those of the other sampler.
"""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any, ClassVar

from minrisk._core.adapters import named_metric
from minrisk._core.decoding import (
    ENDPOINT_SAMPLER,
    METRIC,
    SAMPLER,
    STRATEGY,
    default_sampler,
    make_sampler,
)
from minrisk._core.errors import InputError
from minrisk._core.metric import AnyMetric, Metric
from minrisk._core.options import FlagSpec, flag
from minrisk._core.registry import METRICS, SAMPLERS, STRATEGIES, Registry, key
from minrisk._core.sampler import Sampler
from minrisk._core.strategy import Strategy
from minrisk.cli.options import Field, FieldOption, entries, fields_of

if TYPE_CHECKING:
    from minrisk.openai.upstreams import UpstreamServer

REFERENCES = "--references."  # prefix of options for the sampler of separate references
COMMON = ("metric", "seed")  # fields of strategies whose options belong to the command
_METRIC_HELP = "Metric that compares the texts; --metric.FIELD sets its options."


class Names(dict[str, list[str]]):
    """The values of each flag of a command line, before it is parsed.

    Some values name metrics, strategies and samplers, which determine the further options.
    """

    def last(self, flag: str, default: Any = None) -> Any:
        return self[flag][-1] if self.get(flag) else default


def names_in(args: Sequence[str]) -> Names:
    """The word that follows each word that may be a flag."""
    names = Names()
    for word, following in pairwise([*args, "--"]):
        if word == "--":
            break
        if word.startswith("--"):
            flag, equals, value = word.partition("=")
            if equals or following != "--":
                names.setdefault(flag.replace("_", "-"), []).append(value if equals else following)
    return names


class ComponentOption(FieldOption):
    """An option for a field of a component; by default, the field keeps its own default."""

    def __init__(self, owner: str, field: Field, flag: str, path: Sequence[str] = ()) -> None:
        self.owner = owner  # the option that names the component, such as `metric` or `coarse`
        self.key = "__".join([*map(key, path), field.name])  # the keyword for `make_metric`
        super().__init__(field, FlagSpec(), flag=flag, name=f"{owner}__{self.key}")


@dataclass(frozen=True)
class Component:
    """A metric, strategy or sampler that the command line names."""

    kind: str
    name: str
    options: tuple[ComponentOption, ...]
    is_default: bool = False  # used without being named by an option
    lacks: Mapping[str, str] | None = None  # hints for options that it does not have

    @property
    def label(self) -> str:
        return f"{self.kind} {self.name!r}"

    @property
    def title(self) -> str:
        return f"{self.kind.capitalize()} {self.name}"

    @property
    def takes(self) -> str:
        flags = " ".join(f"{option.flag}{' (required)' * option.field.required}"
                         for option in self.options)
        return f"{self.label} takes {flags or 'no options'}"

    def lacking(self, option: ComponentOption) -> InputError:
        """The error for a required option that is not there."""
        is_implied = self.kind == "sampler" and self.is_default
        return InputError(f"{self.label} needs {option.flag} {option.shown_metavar}: "
                          f"{option.field.help}"
                          + "; for a model on a server, also give --endpoint URL" * is_implied)


@dataclass(frozen=True)
class ComponentOptions(ABC):
    """Options that name components, with the values for their fields."""

    registries: ClassVar[tuple[Registry, ...]]

    # by the option that names the component
    fields: Mapping[str, dict[str, Any]] = dataclasses.field(
        default_factory=partial(defaultdict, dict))

    @classmethod
    @abstractmethod
    def named(cls, names: Names) -> Iterator[Component]:
        """The components that the command line names."""

    def make_metric(self, name: str, owner: str = "metric") -> AnyMetric:
        """The metric of this name, with the given values for the fields that it has."""
        known = {option.key for component in _metrics(owner, [name])
                 for option in component.options}
        return named_metric(name, **{k: v for k, v in self.fields[owner].items() if k in known})

    def make_strategy(self, name: str, owner: str, common: Mapping[str, Any]) -> Strategy:
        """A strategy or stage; its metric and seed default to the common ones."""
        fields = fields_of(STRATEGIES.get(name))
        options = {f.name: common[f.name] for f in fields if f.name in common} | self.fields[owner]
        for field in fields:
            value = options.get(field.name)
            inside = field.name if owner == "strategy" else f"{owner}__{field.name}"
            if field.type is Metric and isinstance(value, str):
                options[field.name] = self.make_metric(value, inside)
            elif field.type is Strategy:
                options[field.name] = self.make_strategy(value or field.default, inside, common)
        made: Strategy = STRATEGIES.make(name, **options)
        return made


@dataclass(frozen=True)
class StrategyOptions(ComponentOptions):
    """A strategy and its metrics."""

    registries = (STRATEGIES, METRICS)

    metric: str | None = flag(None, section="Method", metavar="NAME", registry=METRICS,
                              help=f"{_METRIC_HELP} [default: {METRIC}]")
    strategy: str = flag(STRATEGY, section="Method", metavar="NAME", registry=STRATEGIES,
                         help="Strategy that computes the utilities; --FIELD sets its options.")
    seed: int | None = flag(None, section="Method", metavar="S", ge=0,
                            help="Random seed of strategies that sample. [default: 0]")

    @classmethod
    def named(cls, names: Names) -> Iterator[Component]:
        strategy = names.last("--strategy", STRATEGY)
        fields = fields_of(STRATEGIES.get(strategy))
        yield Component("strategy", strategy, _options("strategy", fields, COMMON),
                        "--strategy" not in names)
        for field in fields:
            if field.type is Metric:
                default = METRIC if field.name == "metric" else None
                yield from _metrics(field.name, [names.last(field.flag, default)],
                                    field.flag not in names)
            elif field.type is Strategy:
                yield from _stage(field.name, names.last(field.flag, field.default), names)

    def make(self, default_metric: AnyMetric | None = None) -> Strategy:
        """The strategy; `default_metric` is used if no option names or configures a metric."""
        common: dict[str, Any] = {} if self.seed is None else {"seed": self.seed}
        if default_metric and not (self.metric or self.fields["metric"]):
            common["metric"] = default_metric
        else:
            common["metric"] = self.make_metric(self.metric or METRIC)
        return self.make_strategy(self.strategy, "strategy", common)


@dataclass(frozen=True)
class MetricOptions(ComponentOptions):
    """One metric, for commands that do not take all strategies."""

    registries = (METRICS,)

    metric: str = flag(METRIC, section="Method", metavar="NAME", registry=METRICS,
                       help=_METRIC_HELP)

    @classmethod
    def named(cls, names: Names) -> Iterator[Component]:
        return _metrics("metric", [names.last("--metric", METRIC)], "--metric" not in names)

    def make(self) -> AnyMetric:
        return self.make_metric(self.metric)


@dataclass(frozen=True)
class MetricsOptions(ComponentOptions):
    """Any number of metrics."""

    registries = (METRICS,)

    metric: tuple[str, ...] = flag(
        (METRIC,), section="Method", metavar="NAME", registry=METRICS,
        help="Metric of the scores; may be repeated. --metric.FIELD sets an option of every metric "
        "that has it.")

    @classmethod
    def named(cls, names: Names) -> Iterator[Component]:
        return _metrics("metric", names.get("--metric", [METRIC]), "--metric" not in names)

    def make(self) -> list[AnyMetric]:
        return [self.make_metric(name) for name in self.metric]


@dataclass(frozen=True)
class StudyOptions(MetricOptions):
    """A metric, and what some strategies need in addition, for a command that tries all of them.

    That is a second metric, or the stages of a named strategy.
    """

    @classmethod
    def named(cls, names: Names) -> Iterator[Component]:
        yield from super().named(names)
        for strategy, field in _further_fields(names.get("--strategy", [])):
            optional = replace(field, default=None)
            yield Component("strategy", strategy, _options("strategy", [optional]))
            if field.type is Strategy:
                yield from _stage(field.name, names.last(field.flag, field.default), names)
            else:
                yield from _metrics(field.name, [names.last(field.flag)])

    def further(self, strategies: Iterable[str], seed: int) -> dict[str, AnyMetric | Strategy]:
        """The additional metrics and stages, by the name of the strategy's field."""
        common = {"metric": self.make(), "seed": seed}
        given = self.fields["strategy"]
        return {field.name: self.make_strategy(name, field.name, common)
                if field.type is Strategy else self.make_metric(name, field.name)
                for _, field in _further_fields(strategies)
                if (name := given.get(field.name)) is not None}


@dataclass(frozen=True)
class SamplerOptions(ComponentOptions):
    """A sampler, and the server that it asks."""

    registries = (SAMPLERS,)

    endpoint: tuple[str, ...] = flag(
        (), section="Sampling", metavar="URL[,...]",
        help="URL of an OpenAI-compatible server, such as http://localhost:8000/v1; repeat it, "
        "with ,model=NAME,samples=N,weight=W, to pool servers.")
    sampler: str | None = flag(
        None, section="Sampling", metavar="NAME", registry=SAMPLERS,
        help="Sampler; --FIELD sets its options. "
        f"[default: {SAMPLER}, or {ENDPOINT_SAMPLER} with --endpoint]")

    @classmethod
    def named(cls, names: Names) -> Iterator[Component]:
        name = names.last("--sampler") or default_sampler(names.last("--endpoint"))
        endpoints = names.get("--endpoint", [])
        try:
            names_models = bool(endpoints) and all(one.model for one in _servers(endpoints))
        except InputError:
            names_models = True  # `make` tells what is wrong, rather than that a model is missing
        yield sampler_component(name, ["endpoint"], not {"--sampler", "--endpoint"} & names.keys(),
                                ["model"] if names_models else [])
        if "--reference-samples" in names:
            yield _reference_sampler(name)

    def make(self) -> Sampler:
        options = dict(self.fields["sampler"])
        name = self.sampler or default_sampler(next(iter(self.endpoint), None))
        if not self.endpoint:
            return make_sampler(name, **options)
        if "endpoint" not in [field.name for field in fields_of(SAMPLERS.get(name))]:
            raise InputError(f"--endpoint is only for the sampler {ENDPOINT_SAMPLER!r}; leave out "
                             f"--sampler {name}")
        from minrisk.samplers.ensemble import pool_of_servers

        return pool_of_servers(_servers(self.endpoint),
                               lambda **given: make_sampler(name, **options | given))


def _servers(texts: Sequence[str]) -> list[UpstreamServer]:
    """The servers of `--endpoint`."""
    if not texts:
        return []
    from minrisk.openai.upstreams import parse_upstreams  # few runs need the client

    return parse_upstreams(texts, "--endpoint")


def sampler_component(name: str, without: Sequence[str], is_default: bool,
                      optional: Sequence[str] = ()) -> Component:
    """A sampler with options for its fields, except those that are options of the command."""
    cls = SAMPLERS.get(name)
    fields = [replace(field, default=None) if field.name in optional else field
              for field in fields_of(cls)]
    options = _options("sampler", fields, without)
    return Component("sampler", name, options, is_default, getattr(cls, "lacks", None))


def frequent_options(sampler: Component, helps: Mapping[str, str]) -> list[ComponentOption]:
    """Options of a default sampler, or else of the sampler for servers, with these helps."""
    server = sampler_component(ENDPOINT_SAMPLER, ["endpoint"], is_default=False)
    known = {option.field.name: option.field for option in (*server.options, *sampler.options)}
    return [ComponentOption("sampler", replace(known[name], help=text), known[name].flag)
            for name, text in helps.items()]


def _reference_sampler(name: str) -> Component:
    """The sampler of separate references; none of its options is required."""
    return Component("reference sampler", name, tuple(
        ComponentOption("references", replace(field, default=None), REFERENCES + field.flag[2:])
        for field in fields_of(SAMPLERS.get(name))))


def _metrics(owner: str, names: Iterable[str | None],
             is_default: bool = False) -> Iterator[Component]:
    """Metrics, and those inside them; options that several share are listed for the first."""
    seen: set[str] = set()
    for name in filter(None, names):
        for path, recipe in METRICS.recipe(name).owners():
            prefix = ".".join([_flag(owner), *path])
            options = [ComponentOption(owner, field, f"{prefix}.{field.flag[2:]}", path)
                       for field in fields_of(recipe.cls) if field.name not in recipe.given]
            yield Component("metric", recipe.name,
                            tuple(o for o in options if o.flag not in seen), is_default)
            seen |= {option.flag for option in options}


def _stage(owner: str, name: str | None, names: Names) -> Iterator[Component]:
    """A stage of a cascade, with its metric and nested stages, such as `coarse__fine`."""
    if not isinstance(name, str):
        return
    fields = [replace(field, default=None) if field.name == "metric" else field
              for field in fields_of(STRATEGIES.get(name))]
    yield Component("strategy", name, tuple(
        ComponentOption(owner, field, f"{_flag(owner)}.{field.flag[2:]}") for field in fields))
    for field in fields:
        inside = f"{owner}__{field.name}"
        name = names.last(_flag(inside))
        if field.type is Metric:
            yield from _metrics(inside, [name])
        elif field.type is Strategy:
            yield from _stage(inside, name or field.default, names)


def _flag(owner: str) -> str:
    """The flag that names a component."""
    return "--" + owner.replace("__", ".").replace("_", "-")


def _options(owner: str, fields: Iterable[Field],
             without: Sequence[str] = ()) -> tuple[ComponentOption, ...]:
    return tuple(ComponentOption(owner, field, field.flag) for field in fields
                 if field.name not in without)


def _further_fields(strategies: Iterable[str]) -> list[tuple[str, Field]]:
    """Fields of strategies for a second metric, and fields of the named ones for a stage.

    Each comes with the first strategy that has it; a stage takes precedence over a metric.
    """
    fields = {field.name: (name, field) for name in strategies
              for field in fields_of(STRATEGIES.get(name)) if field.type is Strategy}
    for entry in entries(STRATEGIES):
        for field in entry.fields:
            if field.type is Metric and field.name != "metric":
                owner, own = fields.setdefault(field.name, (entry.name, field))
                if own.type is Strategy and entry.name in strategies:
                    raise InputError(f"{field.flag} is a metric for {entry.name}, but a strategy "
                                     f"for {owner}; try them in separate runs")
    return [*fields.values()]
