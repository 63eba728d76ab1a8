"""`export` and `minrisk.export`: training data from segments."""

from __future__ import annotations

import json
from collections.abc import Generator
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Unpack, cast, overload

from minrisk._core.decoding import MetricLike, StrategyLike
from minrisk._core.errors import InputError, Wording, warn
from minrisk._core.options import flag
from minrisk._core.texts import check_template
from minrisk.io.formats import FORMATS, OutputFormat, TrainingFormat, format_help
from minrisk.io.records import Record
from minrisk.io.text import FilePath
from minrisk.io.writers import PairChoice, TrainingRecipe, TrainingWriter, Writer
from minrisk.run.driver import Job
from minrisk.run.options import RunOptions
from minrisk.run.stages import Decode, check_records
from minrisk.tasks.calls import Call
from minrisk.tasks.corpus import Segments, segments_of
from minrisk.tasks.decode import Decoding, MatrixOutput, SegmentOptions
from minrisk.tasks.results import RunSummary

if TYPE_CHECKING:
    from minrisk.tasks.keywords import ExportKeywords, ExportOutputKeywords


@dataclass(frozen=True)
class TrainingOutput(MatrixOutput):
    """The training data that `export` writes."""

    pairs: PairChoice | None = flag(
        None, section="Output",
        help="Preference pairs to write, instead of only the best hypothesis.")
    stride: int | None = flag(
        None, section="Output", metavar="K", ge=1,
        help="Distance in rank between the two hypotheses of a consecutive pair. [default: 1]")
    prompt: str | None = flag(
        None, section="Output", metavar="TEXT",
        help="Template of the prompt, with {source}. [default: the prompt or messages of the "
        "segment, else its source]")
    conversational: bool = flag(False, section="Output",
                                help="Write messages with roles, as chat models are trained on.")
    format: TrainingFormat = flag("json", section="Output", metavar="FORMAT",
                                  help=format_help(TrainingFormat))

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.stride and self.pairs != "consecutive":
            raise InputError(Wording("stride= is only for pairs='consecutive'"))
        check_template(self.prompt)
        if self.prompt is not None and not (self.pairs or self.conversational):
            raise InputError(Wording("prompt= is only for pairs= or conversational=; the plain "
                                     "format has the source"))

    @property
    def recipe(self) -> TrainingRecipe:
        return TrainingRecipe(self.pairs, self.stride or 1, self.prompt, self.conversational)

    def job(self, decoding: Decoding, config: RunOptions) -> Job:
        format = FORMATS[self.format].named(config.output)
        format.check(self)
        writer = TrainingWriter(self.recipe, format)
        choose = Decode(decoding.strategy, config.batch_size, config.on_error,
                        scores=self.matrix is not None)
        return decoding.job(choose, writer, config, settings=self._settings(format),
                            checks=[check_records(writer.check)], matrix=self.matrix)

    def _settings(self, format: OutputFormat) -> dict[str, Any]:
        """Settings that a resumed run must share, in the format of earlier versions."""
        recipe = f"{repr(self.recipe)[:-1]}, tabs={format.name == 'tsv'})"
        return {"recipe": recipe} | ({"format": "csv"} if format.name == "csv" else {})


@overload
def export(
    segments: Segments, *, metric: MetricLike | None = None, strategy: StrategyLike | None = None,
    output: None = None, **options: Unpack[ExportKeywords],
) -> Generator[dict[str, Any]]: ...


@overload
def export(
    segments: Segments, *, metric: MetricLike | None = None, strategy: StrategyLike | None = None,
    output: FilePath, **options: Unpack[ExportOutputKeywords],
) -> RunSummary: ...


def export(
    segments: Segments,
    *,
    metric: MetricLike | None = None,
    strategy: StrategyLike | None = None,
    output: FilePath | None = None,
    **options: Unpack[ExportOutputKeywords],
) -> Generator[dict[str, Any]] | RunSummary:
    """Create training data from the choices of MBR decoding, as `minrisk export` does.

    Args:
        segments: as in `decode_corpus`; each with a source, or the prompt or messages that its
            samples answer.
        output: file or folder to write.
        format: format of the output: "json" (default) for JSON lines, "tsv" for source and best
            text separated by a tab, "csv" for CSV with a header.
        pairs: preference pairs of distinct hypotheses instead of the best alone: "best-worst",
            "best-middle-worst" or "consecutive".
        stride: distance in rank between the two hypotheses of a consecutive pair; default: 1.
        prompt: template of the prompt, with {source} in it; default: the segment's own prompt or
            messages, or its source.
        conversational: whether examples are messages with roles, for chat models.
        metric, strategy, weights, weights_temperature, oracle, matrix, options: as in
            `decode_corpus`.

    Returns:
        An iterator of examples, {"source", "target"}, {"messages"} or {"prompt", "chosen",
        "rejected"}; with `output`, a summary of what was written. Failed segments are skipped with
        a warning.

    Raises:
        InputError: if an argument is invalid, or as in `decode_corpus`.

    >>> corpus = [{"source": "Guten Tag!", "samples": ["Hello!", "Hello!", "Bye!"]}]
    >>> next(export(corpus))
    {'source': 'Guten Tag!', 'target': 'Hello!'}
    >>> next(export(corpus, pairs="best-worst", prompt="Translate: {source}"))
    {'prompt': 'Translate: Guten Tag!', 'chosen': 'Hello!', 'rejected': 'Bye!'}
    """
    call = Call(output, options)
    training, seed = call.take(TrainingOutput), call.seed()
    if output is None and (training.format != "json" or training.matrix is not None):
        raise InputError(Wording("format={format!r} and matrix= need output=; without it, "
                                 "examples are dicts", format=training.format))
    decoding = call.take(SegmentOptions).decoding(
        segments_of(segments, call.config.engine), call.strategy(strategy, metric, seed))
    job = training.job(decoding, call.config)
    if output is not None:
        return call.complete(job)
    return _examples(call.results(job, partial(_lines_of, job.writer)))


def _lines_of(writer: Writer, record: Record) -> str | InputError:
    """The lines of a record, or its error."""
    return writer(record) if record.error is None else InputError(record.message)


def _examples(found: Generator[str | InputError]) -> Generator[dict[str, Any]]:
    with closing(found):
        for lines in found:
            if isinstance(lines, InputError):
                warn(f"{lines}; the segment gives no example")
            else:
                yield from (cast(dict[str, Any], json.loads(line))
                            for line in lines.split("\n") if line)
