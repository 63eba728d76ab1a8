"""`minrisk translate`: sources in, the best of many samples out."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from typing import Any

import click

from minrisk.cli.drawing import (
    drawn,
    inputs_for,
    paths_of,
    prompts_for,
    run_options,
    sampling_options,
)
from minrisk.cli.inputs import fraction_read
from minrisk.cli.method import SamplerMethodCommand, sampler_of, strategy_of
from minrisk.cli.progress import Progress
from minrisk.cli.scaling import crew_of, is_folder, work_into_folder
from minrisk.cli.shared import SETTINGS, bar_fits, code_for, names_of, option, summing_up
from minrisk.decoding import METRIC, STRATEGY
from minrisk.engine.crew import Crew
from minrisk.engine.ranking import run
from minrisk.engine.sampling import batch_size_for, instructed
from minrisk.engine.stages import Decode, Draw, records
from minrisk.errors import InputError, MinriskError
from minrisk.io.files import Output
from minrisk.io.record import Record, Weighting
from minrisk.io.writer import Writer
from minrisk.registry import METRICS, STRATEGIES
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
         help="Standard output unless given; compressed if it ends in .gz, .xz or .zst. A folder "
         "(out/, s3://bucket/out/) gets a file for each INPUT.")
@_output("--format", "form", type=click.Choice(["text", "json"]), default="text",
         show_default=True, help="One line of text per segment, or JSON lines.")
@_output("--nbest", type=click.IntRange(min=1), metavar="K", help="Add the K best of each segment.")
@_output("--utilities/--no-utilities", help="Add the utilities of all samples.")
@option("Scale (with a folder as output)", "--sampling-workers", type=click.IntRange(min=1),
        metavar="W", help="Those that draw, which have the GPUs; --workers are those that choose.")
@run_options
@click.pass_context
def translate(ctx: click.Context, /, **params: Any) -> int:
    """Draw many samples for every source, and keep the best.

    It is `minrisk sample` and `minrisk decode` in one, segment by segment. INPUT is plain text, a
    source a line, or JSON lines: {"source": "..."}, and where there are some "id", and "prompt" or
    "messages" to give the model instead.
    """
    if params["quiet"]:
        warnings.simplefilter("ignore")
    sampler, strategy = sampler_of(params), strategy_of(params)
    into_folder = is_folder(params, "sampling_workers")
    _check(params, into_folder)
    drawing = {"n": params["num_samples"], "seed": params["seed"]}
    choosing = {name: params[name] for name in ("weights", "nbest", "utilities")}
    made = settings(sampler, "sampler") | settings(strategy) | drawing | choosing
    told = [signature(sampler, "sampler", **drawing),
            signature(strategy, weights=params["weights"])]
    if into_folder:
        return work_into_folder(
            ctx, params, paths_of(params), _crews(params, sampler, strategy),
            made | {"form": params["form"]}, told, params["input_format"],
            batch_size_for(sampler, drawing["n"]))
    set_threads(params["threads"])
    inputs = inputs_for(params)
    read = partial(fraction_read, inputs)
    progress = Progress(params["quiet"], read, bar_fits(params["output"]))
    asked = prompts_for(params, inputs, made, progress)
    for line in told:
        progress.note(line)
    with summing_up(ctx, progress, params["output"]):
        results = drawn(sampler, instructed(asked, sampler), params, progress)
        _write(strategy, records(results, Weighting(params["weights"])), params, progress)
    return code_for(progress.failed)


def _crews(params: dict[str, Any], sampler: Sampler, strategy: Strategy) -> list[Crew]:
    """Some draw, on GPUs where there are some, and others choose from what they drew."""
    size, seed, n = (params[name] for name in ("batch_size", "seed", "num_samples"))
    writer = partial(Writer, form=params["form"], nbest=params["nbest"],
                     utilities=params["utilities"])
    draw = Draw(sampler, n, seed, size)
    decode = Decode(strategy, writer, Weighting(params["weights"]))
    return [replace(crew_of(params, draw), workers=params["sampling_workers"]),
            replace(crew_of(params, decode), gpus=0.0)]


def _check(params: dict[str, Any], into_folder: bool) -> None:
    if params["form"] == "text" and (params["nbest"] or params["utilities"]):
        raise InputError("--nbest and --utilities need --format json; "
                         "text has one line per segment")
    if params["form"] == "text" and params["resume"] and not into_folder:
        raise InputError("--resume needs --format json, whose lines say what they are of")


def _write(strategy: Strategy, records: Iterable[Record], params: dict[str, Any],
           progress: Progress) -> None:
    with Output(params["output"], append=params["resume"]) as output:
        writer = Writer(output, params["form"], params["nbest"], params["utilities"])
        for record, result in run(strategy, records, on_error=params["on_error"] or "stop"):
            if isinstance(result, MinriskError):
                writer.fail(record, result)
            else:
                writer.write(record, result)
                progress.count(pairs=result.pairs)
            progress.advance(failed=isinstance(result, MinriskError))
