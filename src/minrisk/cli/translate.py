"""`minrisk translate`: sources in, the best of many samples out."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import click

from minrisk._core.decoding import METRIC, STRATEGY
from minrisk._core.errors import InputError
from minrisk._core.registry import METRICS, STRATEGIES
from minrisk._core.signature import settings, signature
from minrisk.cli.method import SamplerMethodCommand, sampler_of, strategy_of
from minrisk.cli.running import Job, RunOptions, execute, output_option, run_options, scale_options
from minrisk.cli.sampling import draw_samples, prompt_files, prompt_reader, sampling_options
from minrisk.cli.shared import SETTINGS, names_of, option
from minrisk.io.record import Weighting
from minrisk.io.writer import ChoiceWriter
from minrisk.pipeline.stages import Decode, SamplesToSegments, Write

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
@output_option
@_output("--format", "form", type=click.Choice(["text", "json"]), default="text",
         show_default=True, help="One line of text per segment, or JSON lines.")
@_output("--nbest", type=click.IntRange(min=1), metavar="K", help="Add the K best of each segment.")
@_output("--utilities/--no-utilities", help="Add the utilities of all samples.")
@option("Scale", "--sampling-workers", type=click.IntRange(min=1),
        metavar="W", help="Those that draw, which have the GPUs; --workers are those that choose.")
@run_options
@scale_options
@click.pass_context
def translate(ctx: click.Context, /, **params: Any) -> int:
    """Draw many samples for every source, and keep the best.

    It is `minrisk sample` and `minrisk decode` in one, segment by segment. INPUT is plain text, a
    source a line, or JSON lines: {"source": "..."}, and where there are some "id", and "prompt" or
    "messages" to give the model instead.
    """
    options = RunOptions.of(params)
    if params["form"] == "text" and (params["nbest"] or params["utilities"]):
        raise InputError("--nbest and --utilities need --format json; "
                         "text has one line per segment")
    sampler, strategy = sampler_of(params), strategy_of(params)
    weighting = Weighting(params["weights"])
    drawing = {"n": params["num_samples"], "seed": params["seed"]}
    output = {name: params[name] for name in ("form", "nbest", "utilities", "weights",
                                              "input_format", "on_blank")}
    draw = draw_samples(params, options, sampler, must_instruct=True)
    choose = (SamplesToSegments(weighting), Decode(strategy, None, options.on_error),
              Write(ChoiceWriter(params["form"], params["nbest"], params["utilities"])))
    return execute(ctx, options, Job(
        files=prompt_files(params),
        reader=partial(prompt_reader, params),
        # some draw, on GPUs where there are some, and others choose from what they drew
        pools=lambda parse: [replace(options.pool(parse, draw), workers=params["sampling_workers"]),
                             options.pool(*choose, gpus=False)],
        settings=settings(sampler, "sampler") | settings(strategy) | drawing | output,
        signatures=[signature(sampler, "sampler", **drawing),
                    signature(strategy, weights=params["weights"])],
        extension=".txt" if params["form"] == "text" else ".jsonl",
        block=sampler.batch_size(draw.n),
        is_streaming=sampler.streams,
    )).code
