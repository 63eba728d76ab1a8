"""`minrisk decode`: samples in, the best of each segment out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from minrisk._core.errors import InputError
from minrisk._core.options import flag
from minrisk._core.signature import settings as settings_of
from minrisk._core.signature import signature
from minrisk._core.strategy import Strategy
from minrisk.cli.command import command
from minrisk.cli.components import StrategyOptions
from minrisk.cli.execute import execute
from minrisk.cli.run_options import RunOptions
from minrisk.cli.segment_input import SegmentInput
from minrisk.io.writer import ChoiceWriter, Writer
from minrisk.pipeline.batches import BATCH, LIGHT_BLOCK
from minrisk.pipeline.job import Work
from minrisk.pipeline.stages import Decode, Stage, Write
from minrisk.strategies.confident import Confident
from minrisk.strategies.uncertain import Uncertain

UTILITIES_HELP = "Add the utilities of all hypotheses, and the number of evaluated pairs."
NBEST_HELP = "Add the K best hypotheses of each segment."


@dataclass(frozen=True)
class MatrixOutput:
    matrix: str | None = flag(
        None, section="Output", metavar="FILE", advanced=True,
        help="NPZ file for all scores, an array (hypotheses, references) per segment; a folder "
        "where the output is one.")


@dataclass(frozen=True)
class ChoiceOutput(MatrixOutput):
    format: Literal["json", "text"] = flag(
        "json", section="Output", help="JSON lines, or one line of text per segment.")
    nbest: int | None = flag(None, section="Output", metavar="K", ge=1, help=NBEST_HELP)
    utilities: bool = flag(False, section="Output", help=UTILITIES_HELP)
    confidence: bool = flag(
        False, section="Output",
        help="Add the margin of each choice, and its probability under resampled references.")
    uncertainty: bool = flag(
        False, section="Output",
        help="Add how far the samples disagree: the entropy over clusters of meaning, and more.")
    abstain: float | None = flag(
        None, section="Output", metavar="P", ge=0, le=1,
        help="Share of the samples that a meaning must have; otherwise there is no text.")

    def __post_init__(self) -> None:
        if self.format == "text" and (self.nbest or self.utilities or self.confidence
                                      or self.uncertainty):
            raise InputError("--nbest, --utilities, --confidence and --uncertainty need "
                             "--format json; text has one line per segment")

    def settings(self) -> dict[str, Any]:
        return {"form": self.format, "nbest": self.nbest, "utilities": self.utilities,
                "confidence": self.confidence,
                **({"uncertainty": True} if self.uncertainty else {}),
                **({} if self.abstain is None else {"abstain": self.abstain})}

    def with_confidence(self, strategy: Strategy, seed: int) -> Strategy:
        """The strategy wrapped to add confidence and uncertainty."""
        if self.confidence:
            strategy = Confident(strategy, seed=seed)
        if self.uncertainty or self.abstain is not None:
            strategy = Uncertain(strategy, seed=seed)
        return strategy


@command(examples="""\
  minrisk decode samples.jsonl -o best.jsonl
  minrisk decode samples.jsonl.xz --strategy aggregate-to-fine --keep 20
  minrisk decode hyps.txt -n 1024 --source src.txt --format text > best.txt
  sampler | minrisk decode --metric chrf --metric.word-order 2 | head -3""")
def decode(method: StrategyOptions, segments: SegmentInput, options: RunOptions,
           output: ChoiceOutput) -> int:
    """Pick the best hypothesis of every segment.

    INPUT is JSON lines: {"samples": ["...", ...]} with "id", "source", "counts" (of equal
    samples), "references", "weights", "logprobs" and "lengths" where there are some; other
    fields pass through. Files may be compressed (gz, xz, zst), Parquet, URLs or patterns; `-`,
    or none, is standard input. A finished output appears whole.
    """
    options.apply()
    strategy, seed = method.make(), method.seed or 0
    writer = ChoiceWriter(output.format, output.nbest, output.utilities, output.abstain)
    return execute(options, decode_work(
        segments, strategy, options, writer, matrix=output.matrix,
        ranker=output.with_confidence(strategy, seed),
        settings=output.settings() | ({"confidence.seed": seed} if output.confidence else {}),
        extension=".txt" if output.format == "text" else ".jsonl",
    )).code


def decode_work(segments: SegmentInput, strategy: Strategy, options: RunOptions, writer: Writer, *,
               settings: dict[str, Any], extension: str, matrix: str | None,
               ranker: Strategy | None = None, checks: Sequence[Stage] = ()) -> Work:
    """The work of `decode` and `export`: rank segments, and write the choices with a writer."""
    choose = Decode(ranker or strategy, options.batch_size, options.on_error,
                    scores=matrix is not None)
    oracle = {"oracle": segments.oracle} if segments.oracle else {}
    return Work(
        files=segments.files(),
        reader=segments.reader,
        pools=[options.pool(*checks, choose, Write(writer))],
        settings=settings_of(strategy) | segments.settings() | settings,
        signatures=[signature(strategy, weights=segments.weighting, **oracle)],
        extension=extension,
        block=LIGHT_BLOCK if choose.is_light else BATCH,
        matrix=matrix,
        also_read=segments.further_files(),
    )
