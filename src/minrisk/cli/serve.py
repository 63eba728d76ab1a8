"""`minrisk serve`: OpenAI's protocol in front of a model, and the best of n samples behind it."""

from __future__ import annotations

import asyncio
import ipaddress
import os
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import fields
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from minrisk._core.decoding import METRIC, STRATEGY, make_strategy
from minrisk._core.errors import InputError, needs_extra, unknown
from minrisk._core.registry import METRICS, STRATEGIES
from minrisk._core.strategy import Strategy
from minrisk.cli.method import SAMPLER, MethodCommand, sampler_options, strategy_of
from minrisk.cli.shared import SETTINGS, FiniteRange, names_of, option, together
from minrisk.io.record import Weighting

if TYPE_CHECKING:
    from minrisk.samplers.hf import Transformers
    from minrisk.server.limits import SampleLimit
    from minrisk.server.settings import Keys, Methods, Preset, Settings
    from minrisk.server.sources import Source

_KEYS = "MINRISK_API_KEYS"
_EXAMPLES = """\b
Examples:
  minrisk serve --upstream http://localhost:8000/v1 --samples 16
  minrisk serve --upstream http://localhost:8000/v1 --metric exact-match \\
      --metric.pattern "Answer: (.*)" --alias careful=llama,samples=64
  minrisk serve --model Helsinki-NLP/opus-mt-en-fr --samples 64 --metric comet --epsilon 0.02
  minrisk serve --upstream https://api.openai.com/v1 --api-key-file keys.txt --record traffic.jsonl
"""

_POSITIVE = click.IntRange(min=1)
_SECONDS = FiniteRange(min=0, min_open=True)
_upstream = partial(option, "Samples")
_method = partial(option, "Method")
_server = partial(option, "Server")
_limits = partial(option, "Limits")

_source_options = together(
    _upstream("--upstream", metavar="URL", help="Address of a server with OpenAI's protocol that "
              "samples, such as http://localhost:8000/v1."),
    _upstream("--model", metavar="NAME", help="The only model that clients may name, all of the "
              "upstream's unless given; without --upstream, folder or hub name of a local model."),
    _upstream("--samples", "-n", type=_POSITIVE, default=16, show_default=True, metavar="N",
              help="Number of samples of each request."),
    _upstream("--max-samples", type=_POSITIVE, default=64, show_default=True, metavar="N",
              help="Most samples that a client may ask for."),
    _upstream("--min-samples", type=_POSITIVE, default=1, show_default=True, metavar="N",
              help="Fewest samples that are an answer, where others fail or are late."),
    _upstream("--temperature", type=_SECONDS, default=1.0, show_default=True, metavar="T",
              help="Temperature of requests that have none."),
    _upstream("--per-request", type=_POSITIVE, default=16, show_default=True, metavar="N",
              help="Samples that an upstream request asks for; fewer where that is refused."),
    _upstream("--key-variable", default="OPENAI_API_KEY", show_default=True, metavar="NAME",
              help="Environment variable with the upstream's key."),
    _upstream("--alias", multiple=True, metavar="NAME=MODEL[,samples=N][,metric=M][,strategy=S]",
              help="A further name for a model, with its own way of choosing; may be repeated."),
)

_method_options = together(
    _method("--metric", default=METRIC, show_default=True, shell_complete=names_of(METRICS),
            help="What judges a sample; fill its fields with --metric.FIELD."),
    _method("--strategy", default=STRATEGY, show_default=True, shell_complete=names_of(STRATEGIES),
            help="How utilities are computed; fill its fields with --FIELD."),
    _method("--weights", type=click.Choice(["uniform", "logprobs", "length-normalised"]),
            default="uniform", show_default=True, help="Weights of the samples as references: "
            "equal, or by their log-probabilities."),
    _method("--allow-metric", multiple=True, metavar="NAME",
            help="A metric that clients may choose; may be repeated."),
    _method("--allow-strategy", multiple=True, metavar="NAME",
            help="A strategy that clients may choose; may be repeated."),
    _method("--prefer-finished/--no-prefer-finished", default=True, show_default=True,
            help="Whether samples that were cut by length lose to finished ones."),
    _method("--confidence/--no-confidence", default=None,
            help="Add how sure each choice is; without a flag, where no model is needed for it."),
    _method("--stop-error", type=FiniteRange(min=0, max=1, max_open=True), default=0.05,
            show_default=True, metavar="P", help="Where answers are equal or not, stop sampling "
            "when another winner is less likely than this; 0 draws all samples."),
)

_server_options = together(
    _server("--host", default="127.0.0.1", show_default=True, help="Address to listen on."),
    _server("--port", type=click.IntRange(0, 65535), default=8001, show_default=True,
            help="Port to listen on; 0 is any that is free."),
    _server("--api-key-file", metavar="FILE", type=click.Path(),
            help=f"Keys of clients, one a line; or in the environment variable {_KEYS}."),
    _server("--allow-origin", metavar="ORIGIN", help="Origin of web pages that may call (CORS)."),
    _server("--page/--no-page", help="Show the last requests, without texts, at /."),
    _server("--record", metavar="FILE", type=click.Path(),
            help="Append every request and its samples, in the format of `minrisk sample`."),
    _server("--config", metavar="FILE", type=click.Path(),
            help="YAML file with any of these options; the command line wins."),
)

_limit_options = together(
    _limits("--deadline", type=_SECONDS, default=600.0, show_default=True, metavar="S",
            help="Seconds after which a request is answered with the samples that are there."),
    _limits("--connect-timeout", type=_SECONDS, default=10.0, show_default=True, metavar="S",
            help="Seconds to get a connection to the upstream."),
    _limits("--idle-timeout", type=_SECONDS, default=300.0, show_default=True, metavar="S",
            help="Seconds that the upstream may be silent."),
    _limits("--retries", type=click.IntRange(min=0), default=2, show_default=True, metavar="N",
            help="Retries of an upstream request that failed for the time being."),
    _limits("--concurrency", type=_POSITIVE, default=256, show_default=True, metavar="N",
            help="Samples that are drawn at a time, over all requests."),
    _limits("--queue", type=click.IntRange(min=0), default=1024, show_default=True, metavar="N",
            help="Requests that may wait for their first sample; further ones get status 429."),
    _limits("--max-body", type=_POSITIVE, default=10, show_default=True, metavar="MB",
            help="Largest body of a request."),
    _limits("--grace", type=FiniteRange(min=0), default=30.0, show_default=True, metavar="S",
            help="Seconds for unfinished requests after SIGTERM."),
)


class ServeCommand(MethodCommand):
    """A command whose options grow with its strategy and metric, and with a local model."""

    def own_options(self, args: Sequence[str]) -> Iterator[click.Option]:
        if not any(arg.partition("=")[0] == "--upstream" for arg in args):
            yield from sampler_options(SAMPLER, {"model", "temperature", "beams"})
        yield from super().own_options(args)


@click.command(cls=ServeCommand, epilog=_EXAMPLES, context_settings=SETTINGS)
@_source_options
@_method_options
@_server_options
@_limit_options
def serve(**params: Any) -> int:
    """Serve OpenAI's protocol: a client that changes its base URL gets the best of n samples.

    Each request is sampled n times from the upstream, the samples are compared with each other, and
    the one with the highest expected utility is the answer. Routes: /v1/chat/completions,
    /v1/completions, /v1/models, /v1/rank, /health, /ready, /metrics.
    """
    with needs_extra("serve", "serve"):
        from minrisk.server.limits import SampleLimit
        from minrisk.server.run import Address
    limit = SampleLimit(params["concurrency"], params["queue"])
    settings = settings_of(params)
    _warn_of_strangers(params["host"], settings.keys)
    source = source_of(params, settings, limit)
    return asyncio.run(_serve(params, settings, source, limit, Address(
        params["host"], params["port"], params["grace"]))) or 0


async def _serve(params: dict[str, Any], settings: Settings, source: Source, limit: SampleLimit,
                 address: Any) -> None:
    from minrisk.server.app import Server
    from minrisk.server.recording import Recorder
    from minrisk.server.run import serve as run

    recorder = Recorder(params["record"]) if params["record"] else None
    await run(Server(source, settings, limit, recorder), address,
              lambda url: click.echo(f"minrisk: serving at {url}", err=True))


def settings_of(params: dict[str, Any]) -> Settings:
    """What the parsed options say."""
    from minrisk.server.settings import Preset, Settings

    strategy = strategy_of(params)
    model = params["model"]
    if model is not None and params["upstream"] is None:
        model = os.path.basename(os.path.normpath(model))  # clients need not know our folders
    preset = Preset(model, params["samples"], strategy)
    names = {f.name for f in fields(Settings)} & params.keys()
    return Settings(
        preset=preset, aliases=dict(_alias(text, preset, params) for text in params["alias"]),
        methods=_methods(params, strategy), weighting=Weighting(params["weights"]),
        stop_error=params["stop_error"] or None, max_body=params["max_body"] << 20,
        keys=_keys(params["api_key_file"]), show_page=params["page"],
        **{name: params[name] for name in names - {"stop_error", "max_body"}})


def source_of(params: dict[str, Any], settings: Settings, limit: SampleLimit) -> Source:
    """The upstream, or where there is none the model of a folder."""
    from minrisk.openai.client import Client
    from minrisk.samplers.openai import Endpoint
    from minrisk.server.local import LocalModel
    from minrisk.server.sources import Upstream

    if params["upstream"] is None:
        if params["model"] is None:
            raise InputError("found neither --upstream nor --model, wanted the address of a server "
                             "that samples, or the folder of a model")
        return LocalModel(_local_sampler(params), settings.preset.model or "", limit)
    # which checks the address, and reads the key
    endpoint = Endpoint(params["upstream"], params["model"] or "any",
                        key_variable=params["key_variable"])
    client = Client(endpoint.endpoint, endpoint.key(), concurrency=params["concurrency"],
                    timeout=settings.deadline, retries=params["retries"],
                    connect=params["connect_timeout"], idle=params["idle_timeout"], max_wait=10.0)
    return Upstream(client, limit, params["per_request"])


def _local_sampler(params: dict[str, Any]) -> Transformers:
    from minrisk.samplers.hf import Transformers

    own = {name.removeprefix("sampler__"): value for name, value in params.items()
           if name.startswith("sampler__") and value is not None}
    # a prompt that is too long is an error at other servers too
    return Transformers(params["model"], temperature=params["temperature"],
                        **{"overlong": "error"} | own)


def _alias(text: str, default: Preset, params: dict[str, Any]) -> tuple[str, Preset]:
    """`careful=MODEL,samples=64,metric=M,strategy=S`."""
    from minrisk.server.settings import Preset

    name, equals, rest = text.partition("=")
    model, *settings = rest.split(",")
    if not (name and equals and model):
        raise InputError(f"--alias {text!r:.80}; wanted NAME=MODEL, and after it where wanted "
                         "samples=N, metric=M or strategy=S, with commas between them")
    pairs = dict(setting.partition("=")[::2] for setting in settings)
    for key in pairs.keys() - {"samples", "metric", "strategy"}:
        raise unknown(f"setting of --alias {name}", key, ("samples", "metric", "strategy"))
    samples = pairs.get("samples", str(default.samples))
    if not samples.isdecimal():
        raise InputError(f"--alias {name}: samples={samples!r:.20}; wanted a number")
    strategy = default.strategy
    if pairs.keys() & {"metric", "strategy"}:
        strategy = make_strategy(pairs.get("strategy", params["strategy"]),
                                 pairs.get("metric", strategy.metric))
    return name, Preset(model, int(samples), strategy)


def _methods(params: dict[str, Any], default: Strategy) -> Methods:
    """What clients may name; each strategy is made once, to see that it can be."""
    from minrisk.server.settings import Methods, named_metrics

    strategies = frozenset(params["allow_strategy"]) | {params["strategy"]}
    for name in strategies - {params["strategy"]}:
        make_strategy(name, default.metric)
    metrics = named_metrics(params["allow_metric"]) | {params["metric"]: default.metric}
    return Methods(metrics, strategies)


def _keys(path: str | None) -> Keys:
    from minrisk.io.files import Input
    from minrisk.server.settings import Keys

    lines: list[str] = os.environ.get(_KEYS, "").replace(",", "\n").splitlines()
    if path is not None:
        source = Input(path)
        lines += [source.text(line) for line in source]
    keys = [line.strip() for line in lines if line.strip()]
    if path is not None and not keys:
        raise InputError(f"{path}: found no key, wanted one a line")
    return Keys(keys)


def _warn_of_strangers(host: str, keys: Keys) -> None:
    try:
        is_local = ipaddress.ip_address(host).is_loopback
    except ValueError:
        is_local = host == "localhost"
    if not is_local and not keys:
        warnings.warn(f"--host {host} lets others in, and no key is wanted of them; "
                      "give --api-key-file", stacklevel=2)


