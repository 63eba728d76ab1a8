"""`minrisk serve`: an OpenAI-compatible server that answers with the best of n samples."""

from __future__ import annotations

import asyncio
import atexit
import gc
import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from threading import Event
from typing import TYPE_CHECKING, Literal

import click

from minrisk._core.adapters import as_metric
from minrisk._core.decoding import METRIC, SAMPLER, make_strategy
from minrisk._core.errors import InputError, needs_extra, unknown, warn
from minrisk._core.options import flag
from minrisk._core.registry import METRICS, SAMPLERS, STRATEGIES
from minrisk._core.strategy import Strategy
from minrisk._core.token_confidence import WINDOW
from minrisk.cli.command import command
from minrisk.cli.components import (
    Component,
    ComponentOptions,
    Names,
    StrategyOptions,
    sampler_component,
)
from minrisk.io.files import Input
from minrisk.metrics.votes.json_match import JsonMatch
from minrisk.tasks.decode import MeasureOptions, SampleWeightOptions
from minrisk.tasks.translate import ANSWER_SAMPLES

if TYPE_CHECKING:
    from minrisk.openai.upstreams import UpstreamServer
    from minrisk.samplers.hf import Transformers
    from minrisk.server.backends import Backend
    from minrisk.server.http import Keys, ListenConfig
    from minrisk.server.monitoring import Recorder
    from minrisk.server.processes import Process
    from minrisk.server.sampling import SampleLimit
    from minrisk.server.settings import Methods, Preset, Settings

_KEYS = "MINRISK_API_KEYS"
# objects made before those of no use that refer to each other are looked for: requests leave few,
# and with Python's 700, the search takes a tenth of the time
_GARBAGE = 10_000
_MAX_WAIT = 10.0  # longest wait in seconds that an upstream may request; clients can wait longer
_ALIAS = ("samples", "metric", "strategy")  # settings of an alias


@dataclass(frozen=True)
class BackendOptions(ComponentOptions):
    """Where samples come from, and how many are drawn."""

    registries = ()

    upstream: tuple[str, ...] = flag(
        (), section="Sampling", metavar="URL[,...]", help="URL of the OpenAI-compatible server "
        "that samples, such as http://localhost:8000/v1; repeat it, with "
        ",model=NAME,samples=N,weight=W, to pool servers.")
    model: str | None = flag(
        None, section="Sampling", metavar="NAME", help="Hub name or folder of a local model to "
        "sample from; with --upstream, the only model that clients may request. [default: all "
        "models of the upstream]")
    samples: int = flag(ANSWER_SAMPLES, "-n", section="Sampling", metavar="N", ge=1,
                        help="Number of samples of each request.")
    max_samples: int = flag(64, section="Sampling", metavar="N", ge=1,
                            help="Maximum number of samples that a client may request.")
    min_samples: int = flag(
        1, section="Sampling", metavar="N", ge=1, advanced=True,
        help="Minimum number of samples for an answer if others fail or are late.")
    temperature: float = flag(1.0, section="Sampling", metavar="T", gt=0,
                              help="Temperature of requests that do not set one.")
    min_temperature: float | None = flag(
        None, section="Sampling", metavar="T", gt=0, advanced=True,
        help="Minimum temperature: requests below it, such as evaluations at 0, are sampled at "
        "this temperature. [default: they are forwarded unchanged]")
    per_request: int = flag(
        16, section="Sampling", metavar="N", ge=1, advanced=True,
        help="Number of samples per upstream request; fewer if the upstream rejects that.")
    window: int = flag(
        WINDOW, section="Sampling", metavar="N", ge=1, advanced=True,
        help="Number of tokens that the confidences lowest-logprob and tail-logprob average.")
    key_variable: str = flag("OPENAI_API_KEY", section="Sampling", metavar="NAME", advanced=True,
                             help="Environment variable with the upstream's API key.")
    alias: tuple[str, ...] = flag(
        (), section="Sampling", metavar="NAME=MODEL[,...]",
        help="Alias of a model, with its own method: ,samples=N,metric=M,strategy=S; may be "
        "repeated.")

    presets: bool = flag(
        False, section="Sampling", advanced=True,
        help="Let clients select a method by name: the model vote-16/MODEL, or the path "
        "/mbr/vote-16/v1, requests 16 samples and a majority vote; mbr-16 uses this server's "
        "method, and METRIC-16 a metric of --allow-metric.")

    @classmethod
    def named(cls, names: Names) -> Iterator[Component]:
        """The sampler of a local model, which has its own options."""
        if not names.last("--upstream"):
            yield sampler_component(SAMPLER, ("model", "temperature", "beams"), is_default=True)

    @property
    def servers(self) -> list[UpstreamServer]:
        from minrisk.openai.upstreams import parse_upstreams

        return parse_upstreams(self.upstream, "--upstream")

    @property
    def samples_by_default(self) -> int:
        """The sum of the upstreams' numbers of samples, if they have some."""
        return sum(one.samples or 0 for one in self.servers) or self.samples

    @property
    def model_name(self) -> str | None:
        """The name that clients use; it does not reveal the folder of a local model."""
        if self.model is None or self.upstream:
            return self.model
        return os.path.basename(os.path.normpath(self.model))

    def local_sampler(self) -> Transformers:
        if self.model is None:
            raise InputError("serve needs --upstream URL, the address of a server that samples, "
                             "or --model NAME, a local model")
        # other servers refuse prompts that are too long, too
        options = {"overlong": "error", "temperature": self.temperature} | self.fields["sampler"]
        made: Transformers = SAMPLERS.make(SAMPLER, model=self.model, **options)
        return made


@dataclass(frozen=True)
class ChoiceOptions(MeasureOptions, SampleWeightOptions):
    """How a sample is chosen, and which methods clients may request."""

    allow_metric: tuple[str, ...] = flag(
        (), section="Method", metavar="NAME", registry=METRICS, advanced=True,
        help="Metric that clients may request; may be repeated.")
    allow_strategy: tuple[str, ...] = flag(
        (), section="Method", metavar="NAME", registry=STRATEGIES, advanced=True,
        help="Strategy that clients may request; may be repeated.")
    compose: bool = flag(
        False, section="Method",
        help="Compose answers to requests for JSON from the samples, field by field.")
    allow_truncated: bool = flag(
        False, section="Method", advanced=True,
        help="Let samples that were truncated at the token limit win over finished ones.")
    confidence: bool | None = flag(
        None, section="Output", help="Add the confidence of each choice. [default: only if the "
        "metric needs no model]")
    abstain_as: Literal["refusal", "error", "text"] = flag(
        "refusal", section="Output", advanced=True,
        help="Response when the server abstains (--abstain, --max-error): a refusal as in OpenAI's "
        "API, an error with status 422, or the text of --abstain-text.")
    abstain_text: str = flag("", section="Output", metavar="TEXT", advanced=True,
                             help="Text of the response with --abstain-as text.")
    stop_error: float = flag(
        0.05, section="Method", metavar="P", ge=0, le=0.5, advanced=True,
        help="Error rate of the early stopping of majority votes; 0 draws all samples.")


@dataclass(frozen=True)
class ServerOptions:
    """Listening address, accepted clients, and records."""

    host: str = flag("127.0.0.1", metavar="ADDRESS", help="Address to listen on.")
    port: int = flag(8001, metavar="PORT", ge=0, le=65535,
                     help="Port to listen on; 0 chooses a free one.")
    api_key_file: str | None = flag(
        None, metavar="FILE", help="File with API keys that clients must send, one per line. "
        f"[default: the environment variable {_KEYS}]")
    allow_host: tuple[str, ...] = flag(
        (), metavar="NAME", advanced=True, help="Host name that a server on loopback without keys "
        "accepts, such as that of a proxy; may be repeated.")
    allow_origin: str | None = flag(None, metavar="ORIGIN", advanced=True,
                                    help="Origin of web pages that may send requests (CORS).")
    workers: int = flag(1, metavar="N", ge=1, advanced=True,
                        help="Number of processes that serve the port.")
    page: bool = flag(False, advanced=True,
                      help="Show the state and the last requests, with their texts, at /.")
    record: str | None = flag(
        None, section="Output", metavar="FILE",
        help="File to which requests and their samples are appended.")
    config: str | None = flag(None, metavar="FILE",
                              help="YAML file with options; flags override it.")


@dataclass(frozen=True)
class LimitOptions:
    deadline: float = flag(
        600.0, metavar="S", gt=0,
        help="Seconds after which a request is answered from the samples that have arrived.")
    connect_timeout: float = flag(10.0, metavar="S", gt=0, advanced=True,
                                  help="Time limit in seconds for connecting to the upstream.")
    idle_timeout: float = flag(300.0, metavar="S", gt=0, advanced=True,
                               help="Maximum seconds without data from the upstream.")
    retries: int = flag(
        2, metavar="N", ge=0, advanced=True,
        help="Number of retries of an upstream request after transient errors.")
    concurrency: int = flag(256, metavar="N", ge=1,
                            help="Maximum number of samples in progress, over all requests.")
    queue: int = flag(1024, metavar="N", ge=0, advanced=True, help="Maximum number of requests "
                      "that wait for their first sample; further ones get status 429.")
    choosing_deadline: float = flag(
        60.0, metavar="S", gt=0, advanced=True,
        help="Time limit in seconds for choosing among the samples of a request.")
    max_body: int = flag(32, metavar="MB", ge=1, advanced=True,
                         help="Maximum size of a request, in megabytes.")
    grace: float = flag(30.0, metavar="S", ge=0, advanced=True,
                        help="Seconds to finish requests after SIGTERM.")


@command(examples="""\
  minrisk serve --upstream http://localhost:8000/v1 --samples 16
  minrisk serve --upstream http://localhost:8000/v1 --metric exact-match \\
      --metric.pattern "Answer: (.*)" --alias careful=llama,samples=64
  minrisk serve --model Helsinki-NLP/opus-mt-en-fr --samples 64 --metric comet --epsilon 0.02
  minrisk serve --upstream https://api.openai.com/v1 --api-key-file keys.txt --record traffic.jsonl\
""")
def serve(sampling: BackendOptions, method: StrategyOptions, choice: ChoiceOptions,
          options: ServerOptions, limits: LimitOptions) -> int:
    """Serve the best of n samples over OpenAI's API.

    Needs --upstream URL or a local --model. Clients only change their base URL. For each request,
    the server draws n samples, compares them with each other, and answers with the one of highest
    expected utility. Routes: /v1/chat/completions, /v1/completions, /v1/responses, /v1/models,
    /v1/rank, /health, /ready, /metrics.
    """
    with needs_extra("serve", "serve"):
        from minrisk.server.executor import exit_beside_models
        from minrisk.server.http import ListenConfig
        from minrisk.server.monitoring import Recorder
        from minrisk.server.processes import Process, start
        from minrisk.server.sampling import SampleLimit
    settings = _settings(sampling, method, choice, options, limits)
    _warn_without_keys(options.host, settings.keys)
    backend = _backend(sampling, limits)
    recorder = Recorder(options.record) if options.record else None
    config = ListenConfig(options.host, options.port, limits.grace)
    process: Process | None = None
    if options.workers > 1:
        found, port = start(options.workers, options.host, options.port, limits.grace, _announce)
        if not isinstance(found, Process):
            return found
        process = found
        config = replace(config, port=port, shares_port=True, loads_first=found.is_replacement)
    counts = None if process is None else process.counts
    limit = SampleLimit(limits.concurrency, limits.queue, counts)
    gc.set_threshold(_GARBAGE)
    has_ended = Event()
    # registered first, so that it runs last
    atexit.register(lambda: exit_beside_models() if has_ended.is_set() else None)
    asyncio.run(_serve(backend, settings, limit, recorder, config, process))
    has_ended.set()
    return 0


async def _serve(backend: Backend, settings: Settings, limit: SampleLimit,
                 recorder: Recorder | None, config: ListenConfig, process: Process | None) -> None:
    from minrisk.server.app import Server
    from minrisk.server.http import serve as run

    def announce(url: str, problem: str | None) -> None:
        gc.freeze()  # collections need not look at what is loaded
        (_announce if process is None else process.announce)(url, problem)

    if process is None:
        await run(Server(backend, settings, limit, recorder), config, announce)
        return
    server = Server(backend, settings, limit, recorder, ask=process.ask,
                    compute_workers=process.compute_workers)
    if (earlier := process.earlier_metrics()) is not None:
        server.metrics.restore(earlier)
    stop = asyncio.Event()
    with process.connected(server.tell, stop):
        await run(server, config, announce, stop)


def _announce(url: str, problem: str | None) -> None:
    click.echo(f"minrisk: serving at {url}", err=True)
    if problem:
        click.echo(f"minrisk: warning: {problem}; requests fail until it does", err=True)


def _settings(sampling: BackendOptions, method: StrategyOptions, choice: ChoiceOptions,
              options: ServerOptions, limits: LimitOptions) -> Settings:
    from minrisk.evaluation.calibration import read_calibration
    from minrisk.server.http import Hosts, is_loopback
    from minrisk.server.settings import Preset, Settings
    from minrisk.strategies.compose import import_jsonschema

    preset = Preset(sampling.model_name, sampling.samples_by_default, method.make())
    keys = _keys(options.api_key_file)
    is_private = is_loopback(options.host) and not keys
    calibration = None if choice.calibration is None else read_calibration(choice.calibration)
    if choice.compose:
        import_jsonschema()
    # raises if the calibration does not fit the strategy
    choice.wrap(preset.strategy, confidence=False, calibration=calibration)
    return Settings(
        preset, dict(_alias(text, preset, method) for text in sampling.alias),
        _methods(choice, method, preset.strategy),
        make_strategy("compose" if choice.compose else "standard", JsonMatch(by="field")),
        choice.sample_weighting, choice.reweighted,
        max_samples=sampling.max_samples, min_samples=sampling.min_samples,
        temperature=sampling.temperature, min_temperature=sampling.min_temperature,
        abstain_as=choice.abstain_as, abstain_text=choice.abstain_text,
        prefer_finished=not choice.allow_truncated,
        confidence=choice.confidence, measures=choice, calibration=calibration,
        # the samples of several models are no draws of one distribution, which the test assumes
        stop_error=choice.stop_error or None if len(sampling.upstream) < 2 else None,
        deadline=limits.deadline, choosing_deadline=limits.choosing_deadline,
        max_body=limits.max_body << 20, keys=keys,
        hosts=Hosts(frozenset(map(str.lower, options.allow_host)) if is_private else None),
        allow_origin=options.allow_origin, presets=sampling.presets, show_page=options.page)


def _backend(sampling: BackendOptions, limits: LimitOptions) -> Backend:
    """The upstream or, without one, a local model."""
    from minrisk.openai.client import Client
    from minrisk.openai.client_options import server_key
    from minrisk.server.backends import LocalBackend, UpstreamBackend
    from minrisk.server.upstream_pool import Member, UpstreamPool

    if not sampling.upstream:
        return LocalBackend(sampling.local_sampler(), sampling.model_name or "")
    members = []
    for one in sampling.servers:
        client = Client(one.endpoint, server_key(one.key_variable or sampling.key_variable),
                        concurrency=limits.concurrency, timeout=None, retries=limits.retries,
                        connect=limits.connect_timeout, idle=limits.idle_timeout,
                        max_wait=_MAX_WAIT)
        backend = UpstreamBackend(client, sampling.per_request, sampling.window)
        members.append(Member(backend, one))
    if len(members) == 1 and members[0].server.model is None:
        return members[0].backend
    return UpstreamPool(members)


def _alias(text: str, default: Preset, method: StrategyOptions) -> tuple[str, Preset]:
    """`careful=MODEL,samples=64,metric=M,strategy=S`."""
    from minrisk.server.settings import Preset, changed

    name, equals, rest = text.partition("=")
    model, *given = rest.split(",")
    if not (name and equals and model):
        raise InputError(f"--alias {text!r:.80}; expected NAME=MODEL, optionally followed by "
                         "samples=N, metric=M or strategy=S, separated by commas")
    pairs = {key: value for key, _, value in (one.partition("=") for one in given)}
    for key in pairs.keys() - set(_ALIAS):
        raise unknown(f"setting of --alias {name}", key, _ALIAS)
    samples = pairs.get("samples", str(default.samples))
    if not samples.isdecimal():
        raise InputError(f"--alias {name}: samples={samples!r:.20}; expected a number")
    metric = pairs.get("metric", method.metric)
    judge = default.strategy.metric if metric == method.metric else as_metric(metric)
    # keeps the options of the default strategy and metric where the alias does not change them
    chosen = changed(default.strategy, judge, pairs.get("strategy"))
    return name, Preset(model, int(samples), chosen)


def _methods(choice: ChoiceOptions, method: StrategyOptions, default: Strategy) -> Methods:
    """The methods that clients may request; making each strategy once checks it."""
    from minrisk.server.settings import Methods, named_metrics

    for name in choice.allow_strategy:
        make_strategy(name, default.metric)
    metrics = named_metrics(choice.allow_metric) | {method.metric or METRIC: default.metric}
    return Methods(metrics, frozenset({*choice.allow_strategy, method.strategy}))


def _keys(path: str | None) -> Keys:
    from minrisk.server.http import Keys

    lines = os.environ.get(_KEYS, "").replace(",", "\n").splitlines()
    if path is not None:
        lines += Input(path).texts()
    keys = [line.strip() for line in lines if line.strip()]
    if path is not None and not keys:
        raise InputError(f"{path}: found no API key; expected one per line")
    return Keys(keys)


def _warn_without_keys(host: str, keys: Keys) -> None:
    from minrisk.server.http import is_loopback

    if not is_loopback(host) and not keys:
        warn(f"--host {host} accepts clients from other machines without a key; "
             "give --api-key-file")
