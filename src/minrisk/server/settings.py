"""The operator's settings of a server."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Literal

from minrisk._core.adapters import as_metric
from minrisk._core.calibration import Calibration
from minrisk._core.decoding import make_strategy
from minrisk._core.errors import InputError, MinriskError, Wording
from minrisk._core.lazy import lazy
from minrisk._core.metric import AnyMetric
from minrisk._core.strategy import Strategy, prepare
from minrisk.io.weighting import UNIFORM, Weighting
from minrisk.metrics.votes.json_match import JsonMatch
from minrisk.server.choosing import RankingMethod
from minrisk.server.http import Hosts, Keys
from minrisk.server.responses import ApiError
from minrisk.strategies.calibrated import fits
from minrisk.strategies.groups import Standard
from minrisk.tasks.decode import MeasureOptions

JSON_STRATEGY = Standard(JsonMatch(by="field"))
AbstainAs = Literal["refusal", "error", "text"]
_MAX_METHODS = 64  # that are cached; clients may send a seed
_NAMED = re.compile(r"(.+)-(\d{1,6})")  # presets that clients name, such as vote-16
_VOTE = "exact-match"
_MAX_NAME = 256  # characters of a model's name, which is logged and cached


@dataclass(frozen=True)
class Preset:
    """What a model name stands for: the upstream's model, and how one sample is chosen."""

    model: str | None  # None: the model that the client names; "": none, the upstream has only one
    samples: int
    strategy: Strategy


@dataclass(frozen=True)
class Methods:
    """The metrics and strategies that clients may request; others could run programs."""

    metrics: Mapping[str, AnyMetric] = field(default_factory=dict)
    strategies: frozenset[str] = frozenset()

    def choose(self, default: Strategy, metric: str | None, strategy: str | None,
               seed: int | None) -> Strategy:
        """The default strategy with the changes that a client requests."""
        if metric is not None and metric not in self.metrics:
            raise _not_allowed("metric", metric, self.metrics)
        if strategy is not None and strategy not in self.strategies:
            raise _not_allowed("strategy", strategy, self.strategies)
        judge = default.metric if metric is None else self.metrics[metric]
        try:
            return _seeded(changed(default, judge, strategy), seed)
        except MinriskError as error:
            raise ApiError(400, str(error), param="minrisk") from None

    def prepare(self) -> None:
        """Load the models of all metrics."""
        for metric in self.metrics.values():
            metric.prepare()


def changed(default: Strategy, metric: AnyMetric, strategy: str | None) -> Strategy:
    """The default strategy with another metric, or another strategy."""
    if strategy is not None and strategy != default.name:
        return make_strategy(strategy, metric)
    return default if metric is default.metric else _replace(default, metric=metric)


def _seeded(strategy: Strategy, seed: int | None) -> Strategy:
    has_seed = any(f.name == "seed" for f in dataclasses.fields(strategy))  # type: ignore[arg-type]
    return _replace(strategy, seed=seed) if has_seed and seed is not None else strategy


def _replace(strategy: Any, **changes: Any) -> Strategy:
    found: Strategy = dataclasses.replace(strategy, **changes)
    return found


def _not_allowed(kind: str, name: str, allowed: Iterable[str]) -> ApiError:
    listed = ", ".join(sorted(allowed)) or "none"
    return ApiError(400, f"{kind} {name!r:.60} is not offered by this server; it offers: "
                    f"{listed}", param=f"minrisk.{kind}")


@dataclass(frozen=True)
class Settings:
    """Everything that is the same for all requests."""

    preset: Preset  # for model names that are not aliases
    aliases: Mapping[str, Preset] = field(default_factory=dict)
    methods: Methods = Methods()
    json_strategy: Strategy = JSON_STRATEGY  # for requests with a JSON format
    weighting: Weighting = UNIFORM
    # the strategy with references that are weighted by rewards, or as it is
    reweighted: Callable[[Strategy], Strategy] = lambda strategy: strategy
    max_samples: int = 64
    min_samples: int = 1
    max_candidates: int = 1024  # per ranking request
    temperature: float = 1.0  # default if the client sends none
    min_temperature: float | None = None  # lower temperatures of clients are raised to this
    prefer_finished: bool = True  # ignore samples truncated at the token limit if others remain
    confidence: bool | None = None  # None: only where it needs no model
    measures: MeasureOptions = field(default_factory=MeasureOptions)  # uncertainty, abstention
    calibration: Calibration | None = None  # only applies to the strategy it was fitted for
    abstain_as: AbstainAs = "refusal"
    abstain_text: str = ""  # the answer if abstain_as is "text"
    stop_error: float | None = 0.05  # error rate of early stopping; None: no early stopping
    deadline: float = 600.0  # seconds for the samples of a request
    choosing_deadline: float = 60.0  # seconds for choosing one of them
    heartbeat: float = 10.0  # seconds between comments in a stream
    body_timeout: float = 30.0  # seconds to receive a request's body
    write_timeout: float = 60.0  # seconds after which a client that does not read is disconnected
    max_body: int = 10 << 20  # bytes of a request
    keys: Keys = field(default_factory=Keys)
    hosts: Hosts = field(default_factory=Hosts)
    allow_origin: str | None = None  # CORS: whose pages may send requests
    presets: bool = False  # clients may name a method and a number of samples: vote-16/MODEL
    show_page: bool = False  # serve the page of recent requests at `GET /`

    def __post_init__(self) -> None:
        self._check_samples(self.preset, "samples={samples}")
        for name, preset in self.aliases.items():
            self._check_samples(preset, "alias {alias!r}: {samples} samples", alias=name)

    def _check_samples(self, preset: Preset, given: str, **values: Any) -> None:
        if not self.min_samples <= preset.samples <= self.max_samples:
            raise InputError(Wording(
                given + "; expected at least min_samples={least} and at most max_samples={most}",
                samples=preset.samples, least=self.min_samples, most=self.max_samples, **values))

    def preset_of(self, model: Any) -> Preset:
        """The preset for the model that a client requests."""
        if model is not None and not (isinstance(model, str) and len(model) <= _MAX_NAME):
            raise ApiError(400, f"model must be a string of at most {_MAX_NAME} characters",
                           param="model")
        if model is not None and model in self.aliases:
            return self.aliases[model]
        if self.presets and model is not None:
            method, slash, other = model.partition("/")
            match = _NAMED.fullmatch(method)
            if match and (slash or match[1] in self.named_strategies):
                samples, strategy = self._named(method)
                inner = (self.preset_of(other) if other else self.preset).model
                return Preset(other if inner is None else inner, samples, strategy)
        if self.preset.model is None or model in (None, self.preset.model):
            return self.preset
        raise ApiError(404, f"the model {model!r:.100} does not exist here", param="model",
                       code="model_not_found")

    def _named(self, preset: str) -> tuple[int, Strategy]:
        """The number of samples and the strategy of a preset such as `vote-16`."""
        known, least, most = self.named_strategies, self.min_samples, self.max_samples
        match = _NAMED.fullmatch(preset)
        if match and match[1] in known and least <= int(match[2]) <= most:
            return int(match[2]), known[match[1]]
        listed = ", ".join(f"{name}-N" for name in known)
        raise ApiError(404, f"there is no preset {preset:.60}; there are {listed}, "
                       f"with N from {least} to {most}", param="model", code="model_not_found")

    @lazy
    def named_strategies(self) -> dict[str, Strategy]:
        """How presets choose that clients name: as this server does, by a vote, or by a metric that
        is allowed.
        """
        default, metrics = self.preset.strategy, self.methods.metrics
        vote = default.metric if default.metric.is_vote else metrics.get(_VOTE, as_metric(_VOTE))
        chosen = {name: changed(default, metric, None) for name, metric in metrics.items()}
        return {**chosen, "mbr": default, "vote": Standard(vote)}

    def model_of(self, preset: str, model: Any) -> Any:
        """The name that stands for a preset in a path and the model of a request."""
        if preset in self.aliases:
            return preset
        self._named(preset)
        return model if not isinstance(model, str | None) else f"{preset}/{model or ''}"

    @property
    def strategies(self) -> list[Strategy]:
        """Those that may choose, but for the seeds of clients."""
        found = [self.json_strategy, *(self.named_strategies.values() if self.presets else ())]
        for preset in (self.preset, *self.aliases.values()):
            for metric in (None, *self.methods.metrics):
                for name in (None, *self.methods.strategies):
                    with suppress(ApiError):  # a strategy that the metric does not fit
                        found.append(self.methods.choose(preset.strategy, metric, name, None))
        return [self.reweighted(strategy) for strategy in found]

    @property
    def calibrated_signal(self) -> str | None:
        """The part of a confidence, or of an uncertainty, that the calibration maps."""
        return None if self.calibration is None else self.calibration.signal.rpartition(".")[2]

    def prepare(self) -> None:
        """Load all models that metrics need."""
        for preset in (self.preset, *self.aliases.values()):
            prepare(self.reweighted(preset.strategy))
        self.methods.prepare()

    def method(self, strategy: Strategy) -> RankingMethod:
        """How samples are ranked with a strategy."""
        try:
            return self._methods(strategy)
        except TypeError:  # it cannot be hashed
            return self._method(strategy)

    @lazy
    def _methods(self) -> Callable[[Strategy], RankingMethod]:
        cached: Any = lru_cache(_MAX_METHODS)(self._method)
        found: Callable[[Strategy], RankingMethod] = cached
        return found

    def _method(self, strategy: Strategy) -> RankingMethod:
        calibration = self.calibration
        if calibration is not None and not fits(calibration, strategy):
            calibration = None
        return RankingMethod(self.reweighted(strategy), strategy.metric.is_vote,
                             self.prefer_finished, self.weighting, self.confidence, self.measures,
                             calibration)


def named_metrics(names: Iterable[str]) -> dict[str, AnyMetric]:
    return {name: as_metric(name) for name in names}
