"""`minrisk export`: samples in, training data out."""

from __future__ import annotations

import typing
from functools import partial
from typing import Any

import click

from minrisk._core.errors import InputError
from minrisk.cli.decode import decode, decode_job
from minrisk.cli.method import MethodCommand
from minrisk.cli.running import RunOptions, execute
from minrisk.cli.shared import SETTINGS, option
from minrisk.io.training import SOURCE, PairChoice, TrainingRecipe, TrainingWriter
from minrisk.pipeline.stages import CheckRecords

_EXAMPLES = """\b
Examples:
  minrisk export samples.jsonl -o distill.jsonl
  minrisk export samples.jsonl --format tsv --metric comet > train.tsv
  minrisk export samples.jsonl --pairs best-worst -o dpo.jsonl
  minrisk export samples.jsonl --pairs consecutive --stride 8 --conversational \\
      --prompt "Translate into French: {source}" -o dpo.jsonl"""

_OTHERS = ("form", "nbest", "utilities", "confidence")
_SHARED = [p for p in decode.params if p.name not in _OTHERS]
_output = partial(option, "Output")


@click.command(cls=MethodCommand, epilog=_EXAMPLES, params=_SHARED,
               context_settings=SETTINGS)
@_output("--pairs", type=click.Choice(typing.get_args(PairChoice)),
         help="Preference pairs of distinct hypotheses, instead of the best alone.")
@_output("--stride", type=click.IntRange(min=1), metavar="K",
         help="Consecutive pairs of every K-th hypothesis; of all unless given.")
@_output("--prompt", metavar="TEXT", help="Template of the prompt, with {source} in it; unless "
         "given, the segment's own prompt or messages, or its source.")
@_output("--conversational", is_flag=True, help="As messages with roles, for chat models.")
@_output("--format", "form", type=click.Choice(["json", "tsv"]), default="json",
         show_default=True, help="JSON lines, or source and best with a tab between them.")
@click.pass_context
def export(ctx: click.Context, /, **params: Any) -> int:
    """Make training data of what MBR decoding prefers.

    INPUT and the method are those of `minrisk decode`; every segment needs a source, or the prompt
    or messages that its samples answer, as `minrisk sample` writes them. The best hypotheses are
    {"source", "target"} for distillation (Finkelstein et al. 2023), or {"messages"}; pairs are
    {"prompt", "chosen", "rejected"} for preference learning (Yang et al. 2023), as TRL's DPO
    trainer reads them.
    """
    options, recipe = RunOptions.of(params), _recipe(params)
    extension = ".tsv" if recipe.tabs else ".jsonl"
    writer = TrainingWriter(recipe)
    job = decode_job(params, options, writer, {"recipe": recipe}, extension,
                     CheckRecords(writer.check))
    outcome = execute(ctx, options, job)
    if outcome.counts["without_pairs"] and not options.quiet:
        click.echo("minrisk: segments without two hypotheses of different utility: "
                   f"{outcome.counts['without_pairs']}", err=True)
    return outcome.code


def _recipe(params: dict[str, Any]) -> TrainingRecipe:
    pairs, prompt, tabs = params["pairs"], params["prompt"], params["form"] == "tsv"
    if tabs and (pairs or params["conversational"]):
        raise InputError("--format tsv has a source and a target; "
                         "--pairs and --conversational need --format json")
    if params["stride"] and pairs != "consecutive":
        raise InputError("--stride goes with --pairs consecutive")
    if prompt is not None and SOURCE not in prompt:
        raise InputError(f"--prompt {prompt!r} has no {SOURCE}; put it where the source belongs")
    if prompt is not None and not (pairs or params["conversational"]):
        raise InputError("--prompt goes with --pairs or --conversational; "
                         "the plain format has the source itself")
    return TrainingRecipe(pairs, params["stride"] or 1, prompt, params["conversational"], tabs)
