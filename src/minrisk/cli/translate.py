"""`minrisk translate`: sources in, the best of many samples out."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import click

from minrisk.cli.drawing import drawn, inputs_for, prompts_for, run_options, sampling_options
from minrisk.cli.inputs import fraction_read
from minrisk.cli.method import SamplerMethodCommand, sampler_of, strategy_of
from minrisk.cli.progress import Progress
from minrisk.cli.shared import SETTINGS, bar_fits, names_of, option, summing_up
from minrisk.decoding import METRIC, STRATEGY
from minrisk.engine import run
from minrisk.engine.sampling import Drawn
from minrisk.errors import InputError, MinriskError
from minrisk.io.files import Output
from minrisk.io.jsonl import JsonLines
from minrisk.io.prompts import Asked
from minrisk.io.record import Record, Weighting
from minrisk.io.writer import Writer
from minrisk.registry import METRICS, STRATEGIES
from minrisk.sampling.columns import columns
from minrisk.sampling.sample import Sampler
from minrisk.signature import settings, signature
from minrisk.strategy import Strategy
from minrisk.threads import set_threads

_EXAMPLES = """\b
Examples:
  minrisk translate sources.txt --model Helsinki-NLP/opus-mt-en-fr --epsilon 0.02 > out.txt
  minrisk translate sources.txt --model M -n 1024 --metric comet --strategy aggregate > out.txt
  minrisk translate sources.txt --endpoint http://localhost:8000/v1 --model NAME \\
      --prompt "Translate into French, and say nothing else: {source}" --temperature 0.7"""

_method = partial(option, "Method")
_output = partial(option, "Output")


@click.command(cls=SamplerMethodCommand, epilog=_EXAMPLES, context_settings=SETTINGS)
@sampling_options
@_method("--metric", default=METRIC, show_default=True, shell_complete=names_of(METRICS),
         help="What judges a sample; fill its fields with --metric.FIELD.")
@_method("--strategy", default=STRATEGY, show_default=True, shell_complete=names_of(STRATEGIES),
         help="How utilities are computed; fill its fields with --FIELD.")
@_method("--weights", type=click.Choice(["uniform", "logprobs"]), default="uniform",
         show_default=True, help="How samples count as references: all alike, or by the softmax "
         "of their log-probabilities.")
@_output("-o", "--output", default="-", metavar="FILE", type=click.Path(),
         help="Standard output unless given; compressed if it ends in .gz, .xz or .zst.")
@_output("--format", "form", type=click.Choice(["text", "json"]), default="text",
         show_default=True, help="One line of text per segment, or JSON lines.")
@_output("--nbest", type=click.IntRange(min=1), metavar="K", help="Add the K best of each segment.")
@_output("--utilities/--no-utilities", help="Add the utilities of all samples.")
@run_options
@click.pass_context
def translate(ctx: click.Context, /, **params: Any) -> None:
    """Draw many samples for every source, and keep the best.

    It is `minrisk sample` and `minrisk decode` in one, segment by segment. INPUT is plain text, a
    source a line, or JSON lines: {"source": "..."}, and where there are some "id", and "prompt" or
    "messages" to give the model instead.
    """
    set_threads(params["threads"])
    if params["quiet"]:
        warnings.simplefilter("ignore")
    sampler, strategy = sampler_of(params), strategy_of(params)
    inputs = inputs_for(params)
    _check(params)
    read = partial(fraction_read, inputs)
    progress = Progress(params["quiet"], read, bar_fits(params["output"]))
    drawing = {"n": params["num_samples"], "seed": params["seed"]}
    choosing = {name: params[name] for name in ("weights", "nbest", "utilities")}
    made = settings(sampler, "sampler") | settings(strategy) | drawing | choosing
    asked = prompts_for(params, inputs, made, progress)
    progress.note(signature(sampler, "sampler", **drawing))
    progress.note(signature(strategy, weights=params["weights"]))
    with summing_up(ctx, progress, params["output"]):
        results = drawn(sampler, _instructed(asked, sampler), params, progress)
        _write(strategy, _records(results, Weighting(params["weights"])), params, progress)


def _check(params: dict[str, Any]) -> None:
    if params["form"] == "text" and (params["nbest"] or params["utilities"]):
        raise InputError("--nbest and --utilities need --format json; "
                         "text has one line per segment")
    if params["form"] == "text" and params["resume"]:
        raise InputError("--resume needs --format json, whose lines say what they are of")


def _instructed(asked: Iterable[Asked], sampler: Sampler) -> Iterator[Asked]:
    """A model that writes on would write on a bare source, instead of translating it."""
    causal = getattr(sampler, "is_causal", False) and getattr(sampler, "prompt", None) is None
    for item in asked:
        if causal and item.is_source and not isinstance(item.prompt, InputError):
            raise InputError(f"{item.where}: the model does not know what to do with a source; say "
                             'so with --prompt "Translate into French: {source}"')
        yield item


def _records(results: Iterable[tuple[Asked, Drawn]], weighting: Weighting) -> Iterator[Record]:
    """As if the samples had been written and read again."""
    reader = JsonLines([], weighting)
    for item, result in results:
        if isinstance(result, MinriskError):
            yield Record(item.id, item.where, InputError(str(result)), item.fields)
        else:
            fields = {"id": item.id, **item.fields, **columns(result)}
            yield replace(reader.record(fields, item.where, item.index), extra=item.fields)


def _write(strategy: Strategy, records: Iterable[Record], params: dict[str, Any],
           progress: Progress) -> None:
    with Output(params["output"], append=params["resume"]) as output:
        writer = Writer(output, params["form"], params["nbest"], params["utilities"])
        for record, result in run(strategy, records, on_error=params["on_error"]):
            if isinstance(result, MinriskError):
                writer.fail(record, result)
            else:
                writer.write(record, result)
                progress.count(pairs=result.pairs)
            progress.advance(failed=isinstance(result, MinriskError))
