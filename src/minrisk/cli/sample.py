"""`minrisk sample`: sources in, samples out, as `minrisk decode` reads them."""

from __future__ import annotations

from functools import partial
from typing import Any

import click

from minrisk._core.signature import settings, signature
from minrisk.cli.method import SamplerCommand, sampler_of
from minrisk.cli.running import Job, RunOptions, execute, output_option, run_options, scale_options
from minrisk.cli.sampling import draw_samples, prompt_files, prompt_reader, sampling_options
from minrisk.cli.shared import SETTINGS, option
from minrisk.io.writer import SampleWriter
from minrisk.pipeline.stages import Write

_EXAMPLES = """\b
Examples:
  minrisk sample sources.txt --model Helsinki-NLP/opus-mt-en-fr --epsilon 0.02 -o samples.jsonl
  minrisk sample sources.txt --sampler ct2 --model opus-mt-ct2 --top-p 0.9 -o samples.jsonl
  minrisk sample prompts.jsonl --endpoint http://localhost:8000/v1 --model NAME -n 64
  minrisk sample sources.txt --model M -n 1024 -o samples.jsonl --resume"""

_output = partial(option, "Output")


@click.command(cls=SamplerCommand, epilog=_EXAMPLES, context_settings=SETTINGS)
@sampling_options
@output_option
@_output("--repeat/--no-repeat", help="Write a sample as often as it was drawn, not its count.")
@run_options
@scale_options
@click.pass_context
def sample(ctx: click.Context, /, **params: Any) -> int:
    """Draw many samples for every source.

    INPUT is plain text, a source a line, or JSON lines: {"source": "..."}, and where there are
    some "id", and "prompt" or "messages" ({"role", "content"} each) to give the model instead;
    other fields pass through. The output is JSON lines: {"id", "source", "samples", "counts",
    "logprobs"}. Beside a file, FILE.run.json says how it was made.
    """
    options, sampler = RunOptions.of(params), sampler_of(params)
    drawing = {"n": params["num_samples"], "seed": params["seed"], "repeat": params["repeat"]}
    draw = draw_samples(params, options, sampler)
    others = {"input_format": params["input_format"], "on_blank": params["on_blank"]}
    return execute(ctx, options, Job(
        files=prompt_files(params),
        reader=partial(prompt_reader, params),
        pools=lambda parse: [options.pool(parse, draw, Write(SampleWriter(params["repeat"])))],
        settings=settings(sampler, "sampler") | drawing | others,
        signatures=[signature(sampler, "sampler", **drawing)],
        block=sampler.batch_size(draw.n),
        is_streaming=sampler.streams,
    )).code
