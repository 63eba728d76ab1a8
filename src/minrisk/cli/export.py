"""`minrisk export`: samples in, training data out."""

from __future__ import annotations

import click

from minrisk.cli.command import command
from minrisk.cli.components import StrategyOptions
from minrisk.cli.execute import execute
from minrisk.cli.run_options import CommandRun
from minrisk.cli.segment_input import SegmentInput
from minrisk.tasks.export import TrainingOutput


@command(examples="""\
  minrisk export samples.jsonl -o distill.jsonl
  minrisk export samples.jsonl --format tsv --metric comet > train.tsv
  minrisk export samples.jsonl --pairs best-worst -o dpo.jsonl
  minrisk export samples.jsonl --pairs consecutive --stride 8 --conversational \\
      --prompt "Translate into French: {source}" -o dpo.jsonl""")
def export(method: StrategyOptions, segments: SegmentInput, options: CommandRun,
           output: TrainingOutput) -> int:
    """Make training data of what MBR decoding prefers.

    INPUT and the method are those of `minrisk decode`; every segment needs a source, or the prompt
    or messages that its samples answer, as `minrisk sample` writes them. The best hypotheses are
    {"source", "target"} for distillation (Finkelstein et al. 2023), or {"messages"}; pairs are
    {"prompt", "chosen", "rejected"} for preference learning (Yang et al. 2023), as TRL's DPO
    trainer reads them.
    """
    options.apply()
    decoding = segments.decoding(segments.corpus(), method.make())
    result = execute(options, output.job(decoding, options))
    if result.counts["without_pairs"] and not options.quiet:
        click.echo("minrisk: segments without two hypotheses of different utility: "
                   f"{result.counts['without_pairs']}", err=True)
    return result.code
