"""`minrisk rank`: ranks the hypotheses of one segment by references in any number of files."""

from __future__ import annotations

import sys
from contextlib import redirect_stdout
from dataclasses import dataclass
from typing import Literal

from minrisk._core.decoding import make_strategy
from minrisk._core.errors import InputError
from minrisk._core.options import flag
from minrisk._core.reference_parts import PartsDecoder
from minrisk._core.segment import Segment
from minrisk._core.signature import signature
from minrisk.cli.command import command
from minrisk.cli.components import MetricOptions
from minrisk.cli.execute import QUIET_HELP, command_progress, summary
from minrisk.cli.options import argument
from minrisk.io.files import Output
from minrisk.io.inputs import PARQUET, InputFile, is_json
from minrisk.io.records import Record, error_location
from minrisk.io.segments import ReferenceFile, SampleReader, parse
from minrisk.io.store import check_new, write_text
from minrisk.io.writers import ChoiceWriter
from minrisk.run.driver import check_files
from minrisk.run.options import WorkerOptions, is_stream
from minrisk.tasks.decode import UTILITIES_HELP
from minrisk.tasks.parts import as_parts_strategy, sum_parts


@dataclass(frozen=True)
class RankOptions(WorkerOptions):
    hypotheses: str = argument("HYPOTHESES", required=True)
    references: tuple[str, ...] = argument("REFERENCES...", required=True)
    strategy: Literal["aggregate", "standard"] = flag(
        "aggregate", section="Method",
        help="Score hypotheses against the average of all references, or exactly against each.")
    output: str = flag(
        "-", "-o", section="Output", metavar="FILE",
        help="Output file, compressed if it ends in .gz, .xz or .zst. [default: standard output]")
    overwrite: bool = flag(False, help="Replace an output that exists.")
    nbest: int | None = flag(None, section="Output", metavar="K", ge=1,
                             help="Add the K best hypotheses.")
    utilities: bool = flag(False, section="Output", help=UTILITIES_HELP)
    quiet: bool = flag(False, "-q", help=QUIET_HELP)

    def __post_init__(self) -> None:
        super().__post_init__()
        if "-" in self.references and (self.engine or self.workers):
            raise InputError("workers cannot read standard input; name files, or leave out "
                             "--workers and --engine")
        check_files([self.hypotheses, *self.references], [self.output])
        if self.output.endswith(PARQUET):
            raise InputError(f"{self.output} is Parquet, but rank writes a line of JSON; name a "
                             ".json file")
        if not is_stream(self.output):
            check_new(self.output, self.overwrite)


@command(examples="""\
  minrisk rank hyps.txt references/*.txt.zst --workers 8
  minrisk rank segment.jsonl more-samples-*.jsonl --strategy standard --nbest 5
  minrisk rank hyps.txt s3://bucket/part-0.parquet s3://bucket/part-1.parquet --engine ray""")
def rank(metric: MetricOptions, options: RankOptions) -> None:
    """Rank the hypotheses of one segment by very many references.

    HYPOTHESES is plain text, one per line, or one line of JSON as `decode` reads it, with a source
    if the metric needs one. REFERENCES are plain text, one per line, or JSON lines (or Parquet)
    with lists of "references" or "samples", optionally with "weights" or "counts". Files may be
    compressed, or URLs. The workers read the references in parts, so they need not fit into memory.
    """
    files = [InputFile.at(path) for path in options.references]
    for file in files:
        file.open()  # fail before the work begins if it is missing
    strategy = make_strategy(options.strategy, metric.make())
    record = _hypotheses(options.hypotheses, strategy.metric.is_vote)
    assert record.segment is not None
    progress = command_progress(options.quiet, output=options.output)
    progress.note(signature(strategy).brief)
    with summary(progress, is_stream=True):
        decoder = PartsDecoder(as_parts_strategy(strategy), record.segment)
        parts = [ReferenceFile(file.location, file.name) for file in files]
        with redirect_stdout(sys.stderr):  # what a metric prints must not mix with results
            part = sum_parts(decoder, parts, options)
        ranking = decoder.ranking(part)
        writer = ChoiceWriter(nbest=options.nbest, utilities=options.utilities)
        _write(options.output, writer(record.replace(ranking=ranking)))
        progress.advance(references=part.count, pairs=ranking.pairs)


def _write(path: str, line: str) -> None:
    if is_stream(path):
        with Output(path) as output:
            output.write(line)
    else:
        write_text(path, line)


def _hypotheses(path: str, is_vote: bool) -> Record:
    """The record with the single segment to rank."""
    source = InputFile.at(path).open()
    texts = [source.text(line, number) for number, line in enumerate(source, 1)]
    record = Record(0, 0, source.name, 1)
    if not is_json("auto", path, texts[0].encode() if texts else b""):
        with error_location(source.name):
            return record.replace(segment=Segment(texts))
    objects = [text for text in texts if text.strip()]
    if len(objects) != 1:
        raise InputError(f"{source.name} has {len(objects)} segments, expected one")
    with error_location(source.name):
        reader = SampleReader((), is_vote=is_vote)
        record = reader.parse_fields(parse(objects[0], "name it .txt"), record)
        if record.error:
            raise record.error
    return record
