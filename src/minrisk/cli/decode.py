"""The commands that choose among given samples: `decode` and `export`; the options for inputs."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass

import click

from minrisk._core.errors import InputError, Wording
from minrisk._core.options import flag
from minrisk.cli.command import command
from minrisk.cli.components import StrategyOptions
from minrisk.cli.execute import CommandRun, execute
from minrisk.cli.options import argument
from minrisk.io.inputs import input_files
from minrisk.io.text import TextFiles
from minrisk.tasks.corpus import Corpus
from minrisk.tasks.decode import LIMIT_HELP, DecodeOutput, SegmentOptions, WeightOptions
from minrisk.tasks.export import TrainingOutput

_TEXT_ONLY = ("source", "references", "reference_lprobs", "num_references")


@dataclass(frozen=True)
class InputOptions:
    """The files and patterns that are read."""

    inputs: tuple[str, ...] = argument("[INPUT]...")
    input: tuple[str, ...] = flag((), section="Input", hidden=True)  # in configuration files

    def paths(self) -> Sequence[str]:
        """The given paths and patterns; standard input if there are none."""
        paths = self.inputs or self.input
        if not paths and sys.stdin is not None and sys.stdin.isatty():
            raise InputError("no INPUT was given, and standard input is a terminal; "
                             "name a file, or pipe JSON lines")
        return paths or ["-"]

    def corpus(self) -> Corpus:
        return Corpus(input_files(self.paths()))


@dataclass(frozen=True)
class JsonInput(WeightOptions, InputOptions):
    """Segments in JSON lines, and the weights of their references."""


@dataclass(frozen=True)
class SegmentInput(SegmentOptions, JsonInput):
    """Segments in JSON lines or, with `num_candidates`, in plain text."""

    num_candidates: int | None = flag(
        None, "-n", "--num-samples", section="Input", metavar="N", ge=1,
        help="Number of lines per segment, for INPUT in plain text.")
    source: str | None = flag(None, "-s", "--sources", section="Input", metavar="FILE",
                              help="Sources, one line per segment, for INPUT in plain text.")
    references: str | None = flag(
        None, "-r", section="Input", metavar="FILE",
        help="References, for INPUT in plain text. [default: the hypotheses]")
    num_references: int | None = flag(
        None, section="Input", metavar="N", ge=1, advanced=True,
        help="Number of lines of --references per segment. [default: --num-candidates]")
    reference_lprobs: str | None = flag(
        None, section="Input", metavar="FILE", advanced=True,
        help="Log-probabilities of --references, one per line, which become their weights; "
        "--weights uniform ignores them.")
    limit: int | None = flag(None, section="Input", metavar="N", ge=1, help=LIMIT_HELP)
    # comet-mbr's name of INPUT
    translations: tuple[str, ...] = flag((), "-t", section="Input", hidden=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "inputs", (*self.inputs, *self.translations))
        for name in _TEXT_ONLY:
            if self.num_candidates is None and getattr(self, name) is not None:
                raise InputError(Wording(f"{name}= needs num_candidates=: it is only for plain "
                                         "text"))

    def corpus(self) -> Corpus:
        if self.num_candidates is None:
            return Corpus(input_files(self.paths()), limit=self.limit)
        text = TextFiles(self.paths(), self.num_candidates, self.source, self.references,
                         self.num_references, self.reference_lprobs)
        return Corpus(text.files, text=text, limit=self.limit)


@command(examples="""\
  minrisk decode samples.jsonl -o best.jsonl
  minrisk decode samples.jsonl.xz --strategy aggregate-to-fine --keep 20
  minrisk decode hyps.txt -n 1024 --source src.txt --format text > best.txt
  sampler | minrisk decode --metric chrf --metric.word-order 2 | head -3""")
def decode(method: StrategyOptions, segments: SegmentInput, options: CommandRun,
           output: DecodeOutput) -> int:
    """Choose the best hypothesis of every segment.

    INPUT is JSON lines: {"samples": ["...", ...]}, optionally with "id", "source", "counts" (of
    equal samples), "references", "weights", "logprobs" and "lengths"; other fields are copied.
    Files may be compressed (gz, xz, zst), Parquet, URLs or patterns; `-`, or no INPUT, is standard
    input. An output file only appears when it is complete.
    """
    decoding = segments.decoding(segments.corpus(), method.make())
    return execute(options, output.job(decoding, options, method.seed or 0)).code


@command(examples="""\
  minrisk export samples.jsonl -o distill.jsonl
  minrisk export samples.jsonl --format tsv --metric comet > train.tsv
  minrisk export samples.jsonl --pairs best-worst -o dpo.jsonl
  minrisk export samples.jsonl --pairs consecutive --stride 8 --conversational \\
      --prompt "Translate into French: {source}" -o dpo.jsonl""")
def export(method: StrategyOptions, segments: SegmentInput, options: CommandRun,
           output: TrainingOutput) -> int:
    """Write training data from the choices of MBR decoding.

    INPUT and method are as in `minrisk decode`; every segment needs a source, or the prompt or
    messages that its samples answer, as `minrisk sample` writes them. The output is the best
    hypotheses as {"source", "target"} or {"messages"}, for distillation (Finkelstein et al. 2023);
    or, with --pairs, {"prompt", "chosen", "rejected"} for preference learning (Yang et al. 2023),
    the format of TRL's DPO trainer.
    """
    decoding = segments.decoding(segments.corpus(), method.make())
    result = execute(options, output.job(decoding, options))
    if result.counts["without_pairs"] and not options.quiet:
        click.echo("minrisk: segments without two hypotheses of different utility: "
                   f"{result.counts['without_pairs']}", err=True)
    return result.code
