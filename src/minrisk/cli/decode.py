"""`minrisk decode`: samples in, the best of each segment out."""

from __future__ import annotations

from minrisk.cli.command import command
from minrisk.cli.components import StrategyOptions
from minrisk.cli.execute import execute
from minrisk.cli.run_options import CommandRun
from minrisk.cli.segment_input import SegmentInput
from minrisk.tasks.decode import DecodeOutput


@command(examples="""\
  minrisk decode samples.jsonl -o best.jsonl
  minrisk decode samples.jsonl.xz --strategy aggregate-to-fine --keep 20
  minrisk decode hyps.txt -n 1024 --source src.txt --format text > best.txt
  sampler | minrisk decode --metric chrf --metric.word-order 2 | head -3""")
def decode(method: StrategyOptions, segments: SegmentInput, options: CommandRun,
           output: DecodeOutput) -> int:
    """Pick the best hypothesis of every segment.

    INPUT is JSON lines: {"samples": ["...", ...]} with "id", "source", "counts" (of equal
    samples), "references", "weights", "logprobs" and "lengths" where there are some; other
    fields pass through. Files may be compressed (gz, xz, zst), Parquet, URLs or patterns; `-`,
    or none, is standard input. A finished output appears whole.
    """
    options.apply()
    decoding = segments.decoding(segments.corpus(), method.make())
    return execute(options, output.job(decoding, options, method.seed or 0)).code
