"""`minrisk.decode_corpus` and `minrisk.export`: segments in, choices or training data out."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, Unpack, cast, overload

from minrisk._api.keywords import DecodeKeywords
from minrisk._api.results import Collect, DecodedSegment, RunSummary
from minrisk._api.runs import (
    CorpusInput,
    complete,
    field_names,
    iterate,
    other_options,
    run_config,
    segment_input,
)
from minrisk._core.decoding import STRATEGY, MetricLike, StrategyLike, resolve_strategy
from minrisk._core.errors import InputError
from minrisk._core.options import Bounds, checked
from minrisk._core.registry import STRATEGIES
from minrisk._core.segment import Segment
from minrisk._core.signature import settings as signature_settings
from minrisk._core.signature import signature
from minrisk._core.strategy import Strategy
from minrisk.io.jsonl import SampleReader
from minrisk.io.record import AUTO, Record, Weighting
from minrisk.io.text_files import FilePath, TextFiles
from minrisk.io.training import SOURCE, PairChoice, TrainingRecipe, TrainingWriter
from minrisk.io.writer import ChoiceWriter
from minrisk.pipeline.batches import BATCH, LIGHT_BLOCK
from minrisk.pipeline.job import RunConfig, Work
from minrisk.pipeline.stages import CheckRecords, Decode, Stage, Write
from minrisk.strategies.confident import Confident
from minrisk.strategies.uncertain import Uncertain

Weights = Literal["auto", "uniform", "logprobs", "length-normalised"]
Segments = FilePath | TextFiles | Iterable[
    Segment | Mapping[str, Any] | Sequence[str] | FilePath]


@overload
def decode_corpus(
    segments: Segments, *, metric: MetricLike | None = None, strategy: StrategyLike | None = None,
    output: None = None, weights: Weights = "auto", weights_temperature: float | None = None,
    oracle: str | None = None, confidence: bool = False, uncertainty: bool = False,
    **options: Unpack[DecodeKeywords],
) -> Generator[DecodedSegment]: ...


@overload
def decode_corpus(
    segments: Segments, *, metric: MetricLike | None = None, strategy: StrategyLike | None = None,
    output: FilePath, weights: Weights = "auto", weights_temperature: float | None = None,
    oracle: str | None = None, confidence: bool = False, uncertainty: bool = False,
    abstain: float | None = None, format: Literal["json", "text"] = "json",
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
    format: Literal["json", "text"] = "json",
    nbest: int | None = None,
    utilities: bool = False,
    matrix: FilePath | None = None,
    **options: Unpack[DecodeKeywords],
) -> Generator[DecodedSegment] | RunSummary:
    """Pick the best hypothesis of every segment, as `minrisk decode` does.

    Without `output`, segments are read and decoded as the iterator is asked for them. Rankings are
    those of `decode` with the segment's place in the input as `index`.

    Args:
        segments: names of files (JSON lines, compressed or not, Parquet, URLs, patterns);
            `TextFiles` for plain text; or an iterable of segments: `Segment` objects, dicts with
            the fields of a JSON line ("samples", "counts", "references", "source", ...), or lists
            of samples.
        metric: a metric, its name or class, or a function of hypothesis and reference; chrF unless
            given.
        strategy: a strategy, its name or class; standard MBR unless given.
        output: file or folder to write, as the command line does. A folder gets a file for each
            input, and can be resumed, as a file can.
        weights: how references count: "auto" takes the field `weights` and `counts`; "uniform";
            "logprobs" and "length-normalised" are model-based MBR.
        weights_temperature: divisor of log-probabilities; above 1, weights are more alike.
        oracle: field with human references to score against instead of samples.
        confidence: whether to add the margin of each choice, and its probability under resampled
            references.
        uncertainty: whether to add how far the samples disagree: the entropy over clusters of
            meaning, the mass of the largest one, and the mean utility of a pair.
        abstain: share of the samples that a meaning must have; otherwise the output has no text.
        format: of the output: "json" for JSON lines, "text" for a line of text per segment.
        nbest: number of best hypotheses of each segment to add to the output.
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
    if output is None and (format != "json" or nbest or utilities or matrix
                           or abstain is not None):
        raise InputError("format=, nbest=, utilities=, abstain= and matrix= are for output=; "
                         "rankings have all utilities, and their uncertainty")
    checked("format", format, Literal["json", "text"])
    checked("nbest", nbest, int | None, Bounds(ge=1))
    checked("abstain", abstain, float | None, Bounds(ge=0, le=1))
    if format == "text" and (nbest or utilities or confidence or uncertainty):
        raise InputError("nbest=, utilities=, confidence= and uncertainty= need format='json'; "
                         "text has one line per segment")
    setup = _decoding_setup(segments, metric, strategy, weights, weights_temperature, oracle,
                            options)
    changes: dict[str, Any] = {"form": format, "nbest": nbest, "utilities": utilities,
                               "confidence": confidence}
    chosen, seed = setup.strategy, options.get("seed", 0)
    if confidence:
        chosen, changes = Confident(chosen, seed=seed), changes | {"confidence.seed": seed}
    if uncertainty or abstain is not None:
        chosen = Uncertain(chosen, seed=seed)
        changes |= ({"uncertainty": True} if uncertainty else {}) | (
            {} if abstain is None else {"abstain": abstain})
    last: Stage = (Collect(partial(DecodedSegment.of, signature=setup.signature))
                   if output is None else Write(ChoiceWriter(format, nbest, utilities, abstain)))
    work = setup.work(config, chosen, last, changes, ".txt" if format == "text" else ".jsonl",
                      matrix=None if matrix is None else str(matrix))
    progress = options.get("progress", False)
    return (iterate if output is None else complete)(config, work, progress)


@overload
def export(
    segments: Segments, *, output: None = None, pairs: PairChoice | None = None, stride: int = 1,
    prompt: str | None = None, conversational: bool = False, metric: MetricLike | None = None,
    strategy: StrategyLike | None = None, weights: Weights = "auto",
    weights_temperature: float | None = None, oracle: str | None = None,
    **options: Unpack[DecodeKeywords],
) -> Generator[dict[str, Any]]: ...


@overload
def export(
    segments: Segments, *, output: FilePath, format: Literal["json", "tsv"] = "json",
    pairs: PairChoice | None = None, stride: int = 1, prompt: str | None = None,
    conversational: bool = False, metric: MetricLike | None = None,
    strategy: StrategyLike | None = None, weights: Weights = "auto",
    weights_temperature: float | None = None, oracle: str | None = None,
    **options: Unpack[DecodeKeywords],
) -> RunSummary: ...


def export(
    segments: Segments,
    *,
    output: FilePath | None = None,
    format: Literal["json", "tsv"] = "json",
    pairs: PairChoice | None = None,
    stride: int = 1,
    prompt: str | None = None,
    conversational: bool = False,
    metric: MetricLike | None = None,
    strategy: StrategyLike | None = None,
    weights: Weights = "auto",
    weights_temperature: float | None = None,
    oracle: str | None = None,
    **options: Unpack[DecodeKeywords],
) -> Generator[dict[str, Any]] | RunSummary:
    """Make training data of what MBR decoding prefers, as `minrisk export` does.

    Args:
        segments: as of `decode_corpus`; each with a source, or the prompt or messages that its
            samples answer.
        output: file or folder to write.
        format: of the output: "json" for JSON lines, "tsv" for source and best with a tab between.
        pairs: preference pairs of distinct hypotheses instead of the best alone: "best-worst",
            "best-middle-worst" or "consecutive".
        stride: distance in rank between the two hypotheses of a consecutive pair.
        prompt: template of the prompt, with {source} in it; unless given, the segment's own prompt
            or messages, or its source.
        conversational: whether examples are messages with roles, for chat models.
        metric, strategy, weights, weights_temperature, oracle, options: as of `decode_corpus`.

    Returns:
        An iterator of examples: {"source", "target"}, {"messages"} or {"prompt", "chosen",
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
    recipe = _recipe(format, pairs, stride, prompt, conversational, output)
    setup = _decoding_setup(segments, metric, strategy, weights, weights_temperature, oracle,
                            options)
    writer = TrainingWriter(recipe)
    last: Stage = Collect(_Examples(writer)) if output is None else Write(writer)
    work = setup.work(config, setup.strategy, last, {"recipe": recipe},
                      ".tsv" if recipe.tabs else ".jsonl", CheckRecords(writer.check))
    progress = options.get("progress", False)
    if output is not None:
        return complete(config, work, progress)
    return _examples(iterate(config, work, progress))


@dataclass(frozen=True)
class DecodingSetup:
    """The input, strategy and weighting of one call."""

    source: CorpusInput
    strategy: Strategy
    weighting: Weighting
    oracle: str | None

    @property
    def signature(self) -> str:
        """The signature of `decode`, with `weights` unless "auto", and with `oracle` if given."""
        more: dict[str, Any] = {} if self.weighting == AUTO else {"weights": self.weighting}
        return signature(self.strategy, **more | self._oracle)

    @property
    def _oracle(self) -> dict[str, str]:
        return {"oracle": self.oracle} if self.oracle else {}

    def work(self, config: RunConfig, chosen: Strategy, last: Stage, changes: Mapping[str, Any],
             extension: str, *checks: Stage, matrix: str | None = None) -> Work:
        choose = Decode(chosen, config.batch_size, config.on_error, scores=matrix is not None)
        lines = partial(SampleReader, weighting=self.weighting, oracle=self.oracle)
        return Work(
            files=self.source.files,
            reader=partial(self.source.reader, lines),
            pools=[config.pool(*checks, choose, last)],
            settings=signature_settings(self.strategy) | {
                "weights": self.weighting, "oracle": self.oracle} | dict(changes)
            | self.source.settings,
            signatures=[signature(self.strategy, weights=self.weighting, **self._oracle)],
            extension=extension,
            block=LIGHT_BLOCK if choose.is_light else BATCH,
            matrix=matrix,
            parser=self.source.parser(lines),
            also_read=self.source.further_files,
        )


def _decoding_setup(segments: Any, metric: MetricLike | None, strategy: StrategyLike | None,
                    weights: Weights, temperature: float | None, oracle: str | None,
                    options: Mapping[str, Any]) -> DecodingSetup:
    fields = field_names(STRATEGIES, strategy, STRATEGY)
    others = other_options(options, fields, ["seed"])
    if "seed" not in fields and isinstance(strategy, str | None):
        others.pop("seed", None)  # ignored by strategies without it, as on the command line
    chosen = resolve_strategy(strategy, metric, others)
    source = segment_input(segments, options)
    if oracle and source.text:
        raise InputError("oracle= names a field of JSON lines; for plain text, give the human "
                         "references as references= with num_references=1")
    has_lprobs = source.text is not None and source.text.reference_lprobs is not None
    weighed = weighting(weights, temperature, oracle, has_lprobs)
    if source.text and weighed.by_logprobs and not has_lprobs:
        raise InputError(f"weights={weights!r} needs reference_lprobs= of plain text")
    return DecodingSetup(source, chosen, weighed, checked("oracle", oracle, str | None))


def weighting(weights: Weights, temperature: float | None, oracle: str | None = None,
              has_lprobs: bool = False) -> Weighting:
    """The weighting of references; `has_lprobs` says that plain text has log-probabilities."""
    checked("weights", weights, Weights)
    checked("weights_temperature", temperature, float | None, Bounds(gt=0))
    found = Weighting(weights) if temperature is None else Weighting(weights, temperature)
    if temperature is not None and not found.by_logprobs and not (
            weights == "auto" and has_lprobs):
        raise InputError(f"weights_temperature={temperature} does nothing with weights="
                         f"{weights!r}; choose 'logprobs' or 'length-normalised'")
    if oracle and found.by_logprobs:
        raise InputError(f"weights={weights!r} weighs samples; with oracle= there are none to "
                         "weigh: leave one of them out")
    return found


def _recipe(format: str, pairs: PairChoice | None, stride: int, prompt: str | None,
            conversational: bool, output: FilePath | None) -> TrainingRecipe:
    checked("format", format, Literal["json", "tsv"])
    checked("pairs", pairs, PairChoice | None)
    checked("stride", stride, int, Bounds(ge=1))
    checked("prompt", prompt, str | None)
    if format == "tsv" and output is None:
        raise InputError("format='tsv' is for output=; examples are dicts otherwise")
    if format == "tsv" and (pairs or conversational):
        raise InputError("format='tsv' has a source and a target; pairs= and conversational= need "
                         "format='json'")
    if stride != 1 and pairs != "consecutive":
        raise InputError("stride= goes with pairs='consecutive'")
    if prompt is not None and SOURCE not in prompt:
        raise InputError(f"prompt {prompt!r} has no {SOURCE}; put it where the source belongs")
    if prompt is not None and not (pairs or conversational):
        raise InputError("prompt= goes with pairs= or conversational=; the plain format has the "
                         "source itself")
    return TrainingRecipe(pairs, stride, prompt, conversational, format == "tsv")


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
                warnings.warn(f"{lines}; the segment gives no example", stacklevel=2)
            else:
                yield from (cast(dict[str, Any], json.loads(line)) for line in lines.splitlines())
