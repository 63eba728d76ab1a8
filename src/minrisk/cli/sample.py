"""`minrisk sample`: sources in, samples out, as `minrisk decode` reads them."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
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
from minrisk.cli.method import SamplerCommand, sampler_of
from minrisk.cli.progress import Progress
from minrisk.cli.scaling import crew_of, is_folder, work_into_folder
from minrisk.cli.shared import SETTINGS, bar_fits, code_for, option, summing_up
from minrisk.engine.sampling import Drawn, batch_size_for
from minrisk.engine.stages import Sample, samples_line
from minrisk.errors import MinriskError
from minrisk.io.files import Output
from minrisk.io.prompts import Asked
from minrisk.signature import settings, signature
from minrisk.threads import set_threads

_EXAMPLES = """\b
Examples:
  minrisk sample sources.txt --model Helsinki-NLP/opus-mt-en-fr --epsilon 0.02 -o samples.jsonl
  minrisk sample sources.txt --sampler ct2 --model opus-mt-ct2 --top-p 0.9 -o samples.jsonl
  minrisk sample prompts.jsonl --endpoint http://localhost:8000/v1 --model NAME -n 64
  minrisk sample sources.txt --model M -n 1024 -o samples.jsonl --resume"""

_output = partial(option, "Output")


@click.command(cls=SamplerCommand, epilog=_EXAMPLES, context_settings=SETTINGS)
@sampling_options
@_output("-o", "--output", default="-", metavar="FILE", type=click.Path(),
         help="Standard output unless given; compressed if it ends in .gz, .xz or .zst. A folder "
         "(out/, s3://bucket/out/) gets a file for each INPUT.")
@_output("--repeat/--no-repeat", help="Write a sample as often as it was drawn, not its count.")
@run_options
@click.pass_context
def sample(ctx: click.Context, /, **params: Any) -> int:
    """Draw many samples for every source.

    INPUT is plain text, a source a line, or JSON lines: {"source": "..."}, and where there are
    some "id", and "prompt" or "messages" ({"role", "content"} each) to give the model instead;
    other fields pass through. The output is JSON lines: {"id", "source", "samples", "counts",
    "logprobs"}. Beside a file, FILE.run.json says how it was made.
    """
    if params["quiet"]:
        warnings.simplefilter("ignore")
    sampler = sampler_of(params)
    run = {"n": params["num_samples"], "seed": params["seed"], "repeat": params["repeat"]}
    made = settings(sampler, "sampler") | run
    told = signature(sampler, "sampler", **run)
    if is_folder(params):
        stage = Sample(sampler, **run, batch_size=params["batch_size"])
        return work_into_folder(ctx, params, paths_of(params), [crew_of(params, stage)], made,
                                [told], params["input_format"], batch_size_for(sampler, run["n"]))
    set_threads(params["threads"])
    inputs = inputs_for(params)
    read = partial(fraction_read, inputs)
    progress = Progress(params["quiet"], read, bar_fits(params["output"]))
    asked = prompts_for(params, inputs, made, progress)
    progress.note(told)
    with summing_up(ctx, progress, params["output"]):
        _write(drawn(sampler, asked, params, progress), params, progress)
    return code_for(progress.failed)


def _write(results: Iterable[tuple[Asked, Drawn]], params: dict[str, Any],
           progress: Progress) -> None:
    with Output(params["output"], append=params["resume"]) as output:
        for item, result in results:
            failed = isinstance(result, MinriskError)
            if not failed or params["on_error"] == "skip":  # otherwise it will be raised
                output.write(samples_line(item, result, params["repeat"]))
                progress.advance(failed=failed)
