"""Reading and checking requests: completions, and rankings of given candidates."""

from __future__ import annotations

import json
import math
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from minrisk._core.errors import InputError
from minrisk._core.segment import Segment
from minrisk._core.strategy import Strategy, loads_model
from minrisk._core.token_confidence import TOKEN_SIGNALS, TOP_LOGPROBS
from minrisk.openai.completions import API, UpstreamRequest, request_seed, requested_logprobs
from minrisk.openai.encoding import MAX_DEPTH, levels
from minrisk.openai.responses_api import LOGPROBS
from minrisk.server.choosing import RankingMethod
from minrisk.server.responses import ApiError
from minrisk.server.settings import Settings
from minrisk.strategies.compose import Compose
from minrisk.strategies.groups import Standard

_REPLACED = ("minrisk", "model", "stream", "stream_options", "seed")  # not forwarded as they are
_COUNTS = ("n", "best_of")  # neither are these of completions
_RANKING_FIELDS = {"candidates", "references", "source", "weights", "counts", "model", "metric",
                   "strategy", "seed"}
_OPTIONS = {"samples", "metric", "strategy", "seed", "return_candidates"}
_MAX_CHOICES = 128
_MAX_SEED = 1 << 63
_MAX_VALUES = 1 << 19  # JSON values in a body; a prompt may be a list of tokens
_MAX_DIGITS = 300  # of an integer, so that it fits the range of a double


@dataclass(frozen=True)
class ClientRequest:
    """A client's request for completions."""

    api: API
    given: dict[str, Any]  # the body as received
    model: str | None  # the one that samples; None: the request to the upstream names none
    n: int  # number of choices in the answer
    samples: int
    method: RankingMethod  # how one of them is chosen
    seed: int
    stream: bool = False
    include_usage: bool = False
    return_candidates: bool = False
    defaults: dict[str, Any] = field(default_factory=dict)  # fields that minrisk adds
    replaceable: frozenset[str] = frozenset()  # fields that the upstream may reject
    # the body as received, if an upstream with /v1/responses gets it; `given` is its chat, then
    forwarded: Mapping[str, Any] | None = None

    @property
    def passes_through(self) -> bool:
        """Whether there is nothing to choose from."""
        return self.samples == 1 or self.given.get("temperature") == 0

    @property
    def wants_json(self) -> bool:
        return wants_json(self.given)

    @property
    def schema(self) -> Any:
        """The JSON schema of an answer that is composed, unchecked; None if there is none."""
        return json_schema(self.given) if isinstance(self.method.strategy, Compose) else None

    @property
    def source(self) -> str | None:
        """The text that is answered, for metrics that use the source."""
        if self.api == "completions":
            prompt = self.given.get("prompt")
            return prompt if isinstance(prompt, str) else None
        users = [m for m in self.given["messages"] if m.get("role") == "user"]
        return _text(users[-1].get("content")) if users else None

    @property
    def prompt_fields(self) -> dict[str, Any]:
        """The prompt as `minrisk sample` writes it."""
        name = "messages" if self.api == "chat" else "prompt"
        return {name: self.given[name]}

    def upstream_request(self) -> UpstreamRequest:
        """The request for samples that is sent to the upstream."""
        if self.forwarded is not None:
            return self._forwarded_request(self.forwarded)
        body = {name: value for name, value in self.given.items()
                if name not in (*_REPLACED, *_COUNTS) and value is not None}
        if "logprobs" in self.defaults and not body.get("logprobs"):
            body.pop("logprobs", None)  # the choice needs them even if the client declined them
        return UpstreamRequest({**self.defaults, **body, **self._model_field()},
                               partial(request_seed, self.seed),
                               self.replaceable | {"seed"} | self.defaults.keys() - body.keys())

    def pass_through_body(self, stream: bool = False) -> dict[str, Any]:
        """The body of a request that is passed through, streamed or not."""
        dropped = {"minrisk", "model"} | (set() if stream else {"stream", "stream_options"})
        if self.forwarded is None:
            body: Mapping[str, Any] = self.given
            dropped.add("best_of")  # the upstream would draw as many
        else:
            body = {**self.forwarded, **self._temperature()}
        return {name: value for name, value in body.items()
                if name not in dropped} | self._model_field()

    def _forwarded_request(self, given: Mapping[str, Any]) -> UpstreamRequest:
        """The request for samples in the protocol of `/v1/responses`."""
        body = {name: value for name, value in given.items()
                if name not in _REPLACED and value is not None}
        defaults: dict[str, Any] = {"temperature": self.defaults["temperature"]}
        include = body.get("include", [])
        if "logprobs" in self.defaults and isinstance(include, list) and LOGPROBS not in include:
            defaults["include"] = [*include, LOGPROBS]
            body.pop("include", None)
            if "top_logprobs" in self.defaults:
                defaults["top_logprobs"] = self.defaults["top_logprobs"]
        return UpstreamRequest({**defaults, **body, **self._temperature(), **self._model_field()},
                               partial(request_seed, self.seed),
                               frozenset({"seed"} | defaults.keys() - body.keys()))

    def _temperature(self) -> dict[str, Any]:
        """The client's temperature, which may have been raised."""
        value = self.given.get("temperature")
        return {} if value is None else {"temperature": value}

    def _model_field(self) -> dict[str, Any]:
        return {} if self.model is None else {"model": self.model}


def _text(content: Any) -> str | None:
    if isinstance(content, list):
        content = "".join(part["text"] for part in content if isinstance(part, dict)
                          and isinstance(part.get("text"), str))
    return content if isinstance(content, str) and content else None


def read_json(raw: bytes) -> dict[str, Any]:
    """The JSON object of a body; values that cannot be forwarded unchanged are refused."""
    try:
        body = json.loads(raw, parse_constant=_no_number, parse_float=_number, parse_int=_integral)
    except RecursionError:
        raise ApiError(400, "the body is nested too deeply") from None
    except ValueError as error:
        raise ApiError(400, f"the body is not valid JSON: {error}") from None
    if not isinstance(body, dict):
        raise ApiError(400, f"the body is a JSON {type(body).__name__}; expected an object")
    _check_size(body)
    return body


def _no_number(name: str) -> float:
    raise ValueError(f"{name} is not a JSON number")


def _number(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"the number {text[:20]} is too large")
    return value


def _integral(text: str) -> int:
    if len(text) > _MAX_DIGITS:
        raise ValueError(f"the number {text[:20]}... is too large")
    return int(text)


def _check_size(found: Any) -> None:
    values = 0
    for depth, level in enumerate(levels(found), 1):
        values += sum(map(len, level))
        if depth > MAX_DEPTH:
            raise ApiError(400, f"the body is nested more than {MAX_DEPTH} levels deep")
        if values > _MAX_VALUES:
            raise ApiError(413, f"the body has more than {_MAX_VALUES:,} values; send less")


def read_request(api: API, given: dict[str, Any], settings: Settings) -> ClientRequest:
    """Check the fields that minrisk reads; the upstream checks the others."""
    _check_prompt(api, given)
    preset = settings.preset_of(given.get("model"))
    options = _options(given)
    seed = _integer(options, "seed", 0, _MAX_SEED, "minrisk.")
    n = _integer(given, "n", 1, min(_MAX_CHOICES, settings.max_samples)) or 1
    given = _with_temperature(given, settings.min_temperature)
    samples = _samples(given, options, settings)
    if given.get("temperature") == 0:
        if (options.get("samples") or 1) > 1:
            raise ApiError(400, "minrisk.samples needs samples that differ, and temperature 0 "
                           "gives one text; leave temperature out, or set one above 0",
                           param="minrisk.samples")
        samples = n
    stream_options = given.get("stream_options")
    strategy = settings.methods.choose(preset.strategy, options.get("metric"),
                                       options.get("strategy"), seed)
    if (wants_json(given) and options.get("metric") is None
            and strategy.metric.name != settings.json_strategy.metric.name):
        strategy = settings.json_strategy
    if isinstance(strategy, Compose) and json_schema(given) is not None and loads_model(strategy):
        # patterns of a schema may take forever, and only worker processes can be ended
        strategy = Standard(strategy.metric)
    method = settings.method(strategy)
    return ClientRequest(
        api=api, given=given,
        model=given.get("model") if preset.model is None else preset.model or None,
        n=n, samples=max(n, preset.samples if samples is None else samples),
        method=method, seed=_seed(given, seed), stream=_boolean(given, "stream"),
        include_usage=isinstance(stream_options, dict)
        and stream_options.get("include_usage") is True,
        return_candidates=_boolean(options, "return_candidates", "minrisk."),
        defaults=_defaults(api, settings, method))


def wants_json(given: dict[str, Any]) -> bool:
    wanted = given.get("response_format")
    return isinstance(wanted, dict) and wanted.get("type") in ("json_object", "json_schema")


def json_schema(given: dict[str, Any]) -> Any:
    wanted = given.get("response_format")
    named = wanted.get("json_schema") if isinstance(wanted, dict) else None
    return named.get("schema") if isinstance(named, dict) else None


def _with_temperature(given: dict[str, Any], smallest: float | None) -> dict[str, Any]:
    """The request, with the temperature raised to the operator's minimum."""
    value: Any = given.get("temperature")
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if smallest is None or not is_number or value >= smallest:
        return given
    return given | {"temperature": smallest}


def _defaults(api: API, settings: Settings, method: RankingMethod) -> dict[str, Any]:
    defaults: dict[str, Any] = {"temperature": settings.temperature}
    signal, column = settings.calibrated_signal, settings.weighting.column
    # metrics that need the whole segment may use log-probabilities
    if column is not None or method.needs_segment or signal in TOKEN_SIGNALS:
        needs_top = signal == "certainty" or column == "certainties"
        defaults |= requested_logprobs(api, TOP_LOGPROBS if needs_top else None)
    return defaults


def _check_prompt(api: API, given: dict[str, Any]) -> None:
    if api == "completions":
        prompt = given.get("prompt")
        if isinstance(prompt, list) and len(prompt) > 1 and not isinstance(prompt[0], int):
            raise ApiError(400, f"found {len(prompt)} prompts; expected one a request",
                           param="prompt")
        if not isinstance(prompt, str | list) or not prompt:
            raise ApiError(400, "prompt must be a text", param="prompt")
        return
    messages = given.get("messages")
    if not isinstance(messages, list) or not messages or not all(
            isinstance(message, dict) for message in messages):
        raise ApiError(400, "messages must be a list of objects, with at least one item",
                       param="messages")


def _options(given: dict[str, Any]) -> dict[str, Any]:
    """The `minrisk` object of the request body."""
    options = given.get("minrisk")
    if options is None:
        return {}
    if not isinstance(options, dict):
        raise ApiError(400, "minrisk must be an object", param="minrisk")
    for name in options.keys() - _OPTIONS:
        raise ApiError(400, f"unknown field minrisk.{name:.60}; known: "
                       f"{', '.join(sorted(_OPTIONS))}", param="minrisk")
    for name in ("metric", "strategy"):
        if not isinstance(options.get(name), str | None):
            raise ApiError(400, f"minrisk.{name} must be a string", param=f"minrisk.{name}")
    return options


def _samples(given: dict[str, Any], options: dict[str, Any], settings: Settings) -> int | None:
    wanted = _integer(options, "samples", 1, settings.max_samples, "minrisk.")
    best_of = _integer(given, "best_of", 1, settings.max_samples)
    return best_of if wanted is None else wanted


def _seed(given: dict[str, Any], own: int | None) -> int:
    seed = given.get("seed") if own is None else own
    is_seed = isinstance(seed, int) and not isinstance(seed, bool)
    return abs(seed) % _MAX_SEED if is_seed and seed is not None else secrets.randbits(32)


def _integer(fields: dict[str, Any], name: str, least: int, most: int,
             owner: str = "") -> int | None:
    value = fields.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise ApiError(400, f"{owner}{name} must be an integer from {least} to {most}",
                       param=f"{owner}{name}")
    return value


def _boolean(fields: dict[str, Any], name: str, owner: str = "") -> bool:
    value = fields.get(name)
    if not isinstance(value, bool | None):
        raise ApiError(400, f"{owner}{name} must be true or false", param=f"{owner}{name}")
    return bool(value)


# rankings


def read_ranking_request(given: dict[str, Any], settings: Settings) -> tuple[Segment, Strategy]:
    """The segment to rank, and the strategy."""
    for name in given.keys() - _RANKING_FIELDS:
        raise ApiError(400, f"unknown field {name:.60}; known: "
                       f"{', '.join(sorted(_RANKING_FIELDS))}")
    _check_names(given)
    for name in ("candidates", "references"):
        _check_texts(given, name, settings.max_candidates)
    preset = settings.preset_of(given.get("model"))
    strategy = settings.methods.choose(preset.strategy, given.get("metric"),
                                       given.get("strategy"), given.get("seed"))
    try:
        segment = Segment(given["candidates"], given.get("references"), given.get("source"),
                          given.get("weights"), 0, given.get("counts"))
    except InputError as error:
        raise ApiError(400, str(error)) from None
    if len(segment.references) > settings.max_candidates:
        raise ApiError(400, f"{len(segment.references)} references, with their counts; this server "
                            f"takes at most {settings.max_candidates}", param="counts")
    return segment, strategy


def _check_names(given: dict[str, Any]) -> None:
    for name, kind in (("metric", str), ("strategy", str), ("seed", int)):
        value = given.get(name)
        if value is not None and (not isinstance(value, kind) or isinstance(value, bool)):
            raise ApiError(400, f"{name} must be of type {kind.__name__}", param=name)


def _check_texts(given: dict[str, Any], name: str, most: int) -> None:
    texts = given.get(name)
    if texts is None and name != "candidates":
        return
    if not isinstance(texts, list) or not texts or not all(isinstance(t, str) for t in texts):
        raise ApiError(400, f"{name} must be a list of texts, with at least one item", param=name)
    if len(texts) > most:
        raise ApiError(400, f"{len(texts)} {name}; this server takes at most {most}", param=name)
