"""`minrisk export`: samples in, training data out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import click

from minrisk._core.errors import InputError
from minrisk._core.options import flag
from minrisk.cli.command import command
from minrisk.cli.components import StrategyOptions
from minrisk.cli.decode import MatrixOutput, decode_work
from minrisk.cli.execute import execute
from minrisk.cli.run_options import RunOptions
from minrisk.cli.segment_input import SegmentInput
from minrisk.io.training import SOURCE, PairChoice, TrainingRecipe, TrainingWriter
from minrisk.pipeline.stages import CheckRecords


@dataclass(frozen=True)
class TrainingOutput(MatrixOutput):
    pairs: PairChoice | None = flag(
        None, section="Output",
        help="Preference pairs of distinct hypotheses, instead of the best alone.")
    stride: int | None = flag(
        None, section="Output", metavar="K", ge=1,
        help="Distance in rank between the two hypotheses of a consecutive pair; 1 unless given.")
    prompt: str | None = flag(
        None, section="Output", metavar="TEXT",
        help="Template of the prompt, with {source} in it; unless given, the segment's own prompt "
        "or messages, or its source.")
    conversational: bool = flag(False, section="Output",
                                help="Write messages with roles, for chat models.")
    format: Literal["json", "tsv"] = flag(
        "json", section="Output", help="JSON lines, or source and best with a tab between them.")

    def __post_init__(self) -> None:
        if self.format == "tsv" and (self.pairs or self.conversational):
            raise InputError("--format tsv has a source and a target; "
                             "--pairs and --conversational need --format json")
        if self.stride and self.pairs != "consecutive":
            raise InputError("--stride goes with --pairs consecutive")
        if self.prompt is not None and SOURCE not in self.prompt:
            raise InputError(f"--prompt {self.prompt!r} has no {SOURCE}; "
                             "put it where the source belongs")
        if self.prompt is not None and not (self.pairs or self.conversational):
            raise InputError("--prompt goes with --pairs or --conversational; "
                             "the plain format has the source itself")

    @property
    def recipe(self) -> TrainingRecipe:
        return TrainingRecipe(self.pairs, self.stride or 1, self.prompt, self.conversational,
                              self.format == "tsv")


@command(examples="""\
  minrisk export samples.jsonl -o distill.jsonl
  minrisk export samples.jsonl --format tsv --metric comet > train.tsv
  minrisk export samples.jsonl --pairs best-worst -o dpo.jsonl
  minrisk export samples.jsonl --pairs consecutive --stride 8 --conversational \\
      --prompt "Translate into French: {source}" -o dpo.jsonl""")
def export(method: StrategyOptions, segments: SegmentInput, options: RunOptions,
           output: TrainingOutput) -> int:
    """Make training data of what MBR decoding prefers.

    INPUT and the method are those of `minrisk decode`; every segment needs a source, or the prompt
    or messages that its samples answer, as `minrisk sample` writes them. The best hypotheses are
    {"source", "target"} for distillation (Finkelstein et al. 2023), or {"messages"}; pairs are
    {"prompt", "chosen", "rejected"} for preference learning (Yang et al. 2023), as TRL's DPO
    trainer reads them.
    """
    options.apply()
    writer = TrainingWriter(output.recipe)
    outcome = execute(options, decode_work(
        segments, method.make(), options, writer, settings={"recipe": output.recipe},
        extension=f".{'tsv' if output.format == 'tsv' else 'jsonl'}", matrix=output.matrix,
        checks=[CheckRecords(writer.check)]))
    if outcome.counts["without_pairs"] and not options.quiet:
        click.echo("minrisk: segments without two hypotheses of different utility: "
                   f"{outcome.counts['without_pairs']}", err=True)
    return outcome.code
