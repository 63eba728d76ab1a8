"""`minrisk.decode_corpus` and `minrisk.export`: segments in, choices or training data out."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from typing import Any, Unpack, cast, overload

from minrisk._api.keywords import DecodeKeywords
from minrisk._api.results import DecodedSegment, RunSummary, SampledPrompt
from minrisk._api.runs import RUN_OPTIONS, complete, field_names, iterate, other_options, run_config
from minrisk._core.decoding import (
    STRATEGY,
    MetricLike,
    StrategyLike,
    check_owners,
    resolve_strategy,
)
from minrisk._core.errors import InputError, Wording, warn
from minrisk._core.registry import STRATEGIES
from minrisk._core.segment import Segment
from minrisk.io.formats import ChoiceFormat, TrainingFormat
from minrisk.io.records import Record
from minrisk.io.segments import SampleReader
from minrisk.io.text import FilePath, TextFiles
from minrisk.io.writers import PairChoice, TrainingWriter
from minrisk.run.stages import collect
from minrisk.tasks.corpus import segments_of
from minrisk.tasks.decoding import (
    DecodeOutput,
    Decoding,
    OracleOption,
    TrainingOutput,
    WeightOptions,
    Weights,
)

Segments = FilePath | TextFiles | Iterable[
    Segment | SampledPrompt | DecodedSegment | Mapping[str, Any] | Sequence[str] | FilePath]


@overload
def decode_corpus(
    segments: Segments, *, metric: MetricLike | None = None, strategy: StrategyLike | None = None,
    output: None = None, weights: Weights = "auto", weights_temperature: float | None = None,
    oracle: str | None = None, confidence: bool = False, uncertainty: bool = False,
    abstain: float | None = None, **options: Unpack[DecodeKeywords],
) -> Generator[DecodedSegment]: ...


@overload
def decode_corpus(
    segments: Segments, *, metric: MetricLike | None = None, strategy: StrategyLike | None = None,
    output: FilePath, weights: Weights = "auto", weights_temperature: float | None = None,
    oracle: str | None = None, confidence: bool = False, uncertainty: bool = False,
    abstain: float | None = None, format: ChoiceFormat = "json",
    nbest: int | None = None, utilities: bool = False, matrix: FilePath | None = None,
    **options: Unpack[DecodeKeywords],
) -> RunSummary: ...


def decode_corpus(
    segments: Segments,
    *,
    metric: MetricLike | None = None,
    strategy: StrategyLike | None = None,
    output: FilePath | None = None,
    weights: Weights = "auto",
    weights_temperature: float | None = None,
    oracle: str | None = None,
    confidence: bool = False,
    uncertainty: bool = False,
    abstain: float | None = None,
    format: ChoiceFormat = "json",
    nbest: int | None = None,
    utilities: bool = False,
    matrix: FilePath | None = None,
    **options: Unpack[DecodeKeywords],
) -> Generator[DecodedSegment] | RunSummary:
    """Pick the best hypothesis of every segment, as `minrisk decode` does.

    Without `output`, segments are read and decoded as the iterator is asked for them. Rankings are
    those of `decode` with the segment's `position` in the input.

    Args:
        segments: names of files (JSON lines, compressed or not, Parquet, URLs, patterns);
            `TextFiles` for plain text; a table (pandas, polars, Arrow) with these fields as
            columns; or an iterable of segments: results of `sample` and other calls, `Segment`
            objects, dicts with the fields of a JSON line ("samples", "counts", "references",
            "source", ...), or lists of samples.
        metric: a metric, its name or class, or a function of hypothesis and reference; chrF unless
            given.
        strategy: a strategy, its name or class; standard MBR unless given.
        output: file or folder to write, as the command line does. A folder gets a file for each
            input, and can be resumed, as a file can.
        weights: how references count: "auto" takes the field `weights` and `counts`; "uniform";
            "logprobs" and "length-normalised" are model-based MBR.
        weights_temperature: divisor of log-probabilities; above 1, weights are more alike.
        oracle: field with human references to score against instead of samples.
        confidence: whether to add the margin of each choice, and the probability that very many
            samples would make the same one.
        uncertainty: whether to add how far the samples disagree: the entropy over clusters of
            samples that agree by the metric, the mass of the largest one, the mean utility of a
            pair, and the share of the samples without an answer.
        abstain: minimum share of all samples in the largest cluster; below it, a result has no
            text.
        format: of the output: "json" for JSON lines, "text" for lines of text, "csv" for CSV with a
            header, as an output whose name ends in .csv is.
        nbest: number of best hypotheses of each segment to add to the output; as text or CSV, its
            number of lines per segment.
        utilities: whether to add the utilities of all hypotheses to the output.
        matrix: NPZ file (or folder, where the output is one) for the scores of all pairs.
        options: of a strategy that is given by name or class (`subset=16`, `seed=1`), and of the
            run: `workers`, a number of processes (none unless given; a script then begins under
            `if __name__ == "__main__":`), `engine`, `address`, `gpus_per_worker`, `batch_size`,
            `threads`, `segment_timeout`, `on_error`, `max_errors`, `resume`, `overwrite`,
            `buffer`, `work`, and `progress`: True for a line on standard error, or a function of
            the numbers of segments that are done and that failed.

    Returns:
        An iterator of results in input order, each with its `ranking`, or its `error` if it failed;
        with `output`, a summary of what was written.

    Raises:
        InputError: if an argument is invalid; for a segment that fails if `on_error` is
            "stop", or if all of the first ones do.

    >>> corpus = [{"id": "a", "samples": ["the cat", "a cat", "the cat"]}, ["yes", "no", "yes"]]
    >>> [(result.id, result.text) for result in decode_corpus(corpus)]
    [('a', 'the cat'), (1, 'yes')]
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     summary = decode_corpus(corpus, output=f"{folder}/best.jsonl", strategy="aggregate")
    >>> summary.segments, summary.failed
    (2, 0)
    """
    config = run_config(output, options)
    choices = DecodeOutput(
        matrix=None if matrix is None else os.fspath(matrix), format=format, nbest=nbest,
        utilities=utilities, confidence=confidence, uncertainty=uncertainty, abstain=abstain)
    if output is None:
        choices.check_collected()
    decoding = make_decoding(segments, metric, strategy, weights, weights_temperature, oracle,
                             options, uses_seed=choices.uses_seed)
    last = None if output is not None else collect(
        partial(DecodedSegment.of, signature=decoding.ranking_signature, abstain=abstain))
    job = choices.job(decoding, config, options.get("seed", 0), last)
    progress = options.get("progress", False)
    return (iterate if output is None else complete)(config, job, progress)


@overload
def export(
    segments: Segments, *, output: None = None, pairs: PairChoice | None = None,
    stride: int | None = None, prompt: str | None = None, conversational: bool = False,
    metric: MetricLike | None = None, strategy: StrategyLike | None = None,
    weights: Weights = "auto",
    weights_temperature: float | None = None, oracle: str | None = None,
    **options: Unpack[DecodeKeywords],
) -> Generator[dict[str, Any]]: ...


@overload
def export(
    segments: Segments, *, output: FilePath, format: TrainingFormat = "json",
    pairs: PairChoice | None = None, stride: int | None = None, prompt: str | None = None,
    conversational: bool = False, metric: MetricLike | None = None,
    strategy: StrategyLike | None = None, weights: Weights = "auto",
    weights_temperature: float | None = None, oracle: str | None = None,
    matrix: FilePath | None = None, **options: Unpack[DecodeKeywords],
) -> RunSummary: ...


def export(
    segments: Segments,
    *,
    output: FilePath | None = None,
    format: TrainingFormat = "json",
    pairs: PairChoice | None = None,
    stride: int | None = None,
    prompt: str | None = None,
    conversational: bool = False,
    metric: MetricLike | None = None,
    strategy: StrategyLike | None = None,
    weights: Weights = "auto",
    weights_temperature: float | None = None,
    oracle: str | None = None,
    matrix: FilePath | None = None,
    **options: Unpack[DecodeKeywords],
) -> Generator[dict[str, Any]] | RunSummary:
    """Make training data of what MBR decoding prefers, as `minrisk export` does.

    Args:
        segments: as of `decode_corpus`; each with a source, or the prompt or messages that its
            samples answer.
        output: file or folder to write.
        format: of the output: "json" for JSON lines, "tsv" for source and best with a tab between,
            "csv" for CSV with a header.
        pairs: preference pairs of distinct hypotheses instead of the best alone: "best-worst",
            "best-middle-worst" or "consecutive".
        stride: distance in rank between the two hypotheses of a consecutive pair; 1 unless given.
        prompt: template of the prompt, with {source} in it; unless given, the segment's own prompt
            or messages, or its source.
        conversational: whether examples are messages with roles, for chat models.
        metric, strategy, weights, weights_temperature, oracle, matrix, options: as of
            `decode_corpus`.

    Returns:
        An iterator of examples, {"source", "target"}, {"messages"} or {"prompt", "chosen",
        "rejected"}; with `output`, a summary of what was written. A segment that fails gives no
        example, and a warning.

    Raises:
        InputError: if an argument is invalid, or as of `decode_corpus`.

    >>> corpus = [{"source": "Guten Tag!", "samples": ["Hello!", "Hello!", "Bye!"]}]
    >>> next(export(corpus))
    {'source': 'Guten Tag!', 'target': 'Hello!'}
    >>> next(export(corpus, pairs="best-worst", prompt="Translate: {source}"))
    {'prompt': 'Translate: Guten Tag!', 'chosen': 'Hello!', 'rejected': 'Bye!'}
    """
    config = run_config(output, options)
    if output is None and (format != "json" or matrix is not None):
        raise InputError(Wording("format={format!r} and matrix= are for output=; examples are "
                                 "dicts otherwise", format=format))
    training = TrainingOutput(None if matrix is None else os.fspath(matrix), pairs, stride, prompt,
                              conversational, format)
    decoding = make_decoding(segments, metric, strategy, weights, weights_temperature, oracle,
                             options)
    last = None if output is not None else collect(_Examples(TrainingWriter(training.recipe)))
    job = training.job(decoding, config, last)
    progress = options.get("progress", False)
    if output is not None:
        return complete(config, job, progress)
    return _examples(iterate(config, job, progress))


def make_decoding(segments: Any, metric: MetricLike | None, strategy: StrategyLike | None,
                  weights: Weights, temperature: float | None, oracle: str | None,
                  options: Mapping[str, Any], reader: type[SampleReader] = SampleReader,
                  uses_seed: bool = False) -> Decoding:
    """The segments of a call, and the strategy that ranks them.

    `uses_seed`: the call has a use for a seed, whatever the strategy.
    """
    fields = field_names(STRATEGIES, strategy, STRATEGY)
    check_owners([*fields, *RUN_OPTIONS, "seed"], metric, options)
    others = other_options(options, fields, ["seed"])
    if "seed" not in fields and (uses_seed or isinstance(strategy, str | None)):
        others.pop("seed", None)  # ignored by strategies without it, as on the command line
    chosen = resolve_strategy(strategy, metric, others)
    corpus = segments_of(segments, options.get("engine"))
    weighting = WeightOptions(weights, temperature).weighting(corpus, oracle)
    return Decoding(corpus, chosen, weighting, OracleOption(oracle).oracle, reader)


@dataclass(frozen=True)
class _Examples:
    """The lines of a record, or its error."""

    write: Callable[[Record], str]

    def __call__(self, record: Record) -> str | InputError:
        if record.error is not None:
            return InputError(f"{record.where}: {record.error}")
        return self.write(record)


def _examples(found: Generator[str | InputError]) -> Generator[dict[str, Any]]:
    with closing(found):
        for lines in found:
            if isinstance(lines, InputError):
                warn(f"{lines}; the segment gives no example")
            else:
                yield from (cast(dict[str, Any], json.loads(line))
                            for line in lines.split("\n") if line)
