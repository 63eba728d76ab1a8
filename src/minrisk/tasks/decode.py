"""`decode` and `minrisk.decode_corpus`: segments in, the best hypothesis of each out."""

from __future__ import annotations

import dataclasses
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Unpack, overload

from minrisk._core.adapters import named_metric
from minrisk._core.decoding import MetricLike, StrategyLike
from minrisk._core.errors import InputError, Wording
from minrisk._core.lazy import lazy
from minrisk._core.metric import AnyMetric
from minrisk._core.options import Options, flag
from minrisk._core.signature import settings as settings_of
from minrisk._core.signature import signature
from minrisk._core.strategy import Strategy, WeightingStrategy, proposes
from minrisk.io.formats import FORMATS, ChoiceFormat, format_help
from minrisk.io.inputs import InputFile
from minrisk.io.segments import SampleReader
from minrisk.io.text import FilePath
from minrisk.io.weighting import AUTO, Weighting
from minrisk.io.writers import ChoiceWriter, Writer
from minrisk.run.driver import Job
from minrisk.run.options import RunOptions
from minrisk.run.stages import BATCH, LIGHT_BLOCK, Decode, Stage
from minrisk.tasks.calls import Call
from minrisk.tasks.corpus import Corpus, Segments, segments_of
from minrisk.tasks.results import DecodedSegment, RunSummary

if TYPE_CHECKING:
    from minrisk._core.calibration import Calibration
    from minrisk.tasks.keywords import DecodeKeywords, DecodeOutputKeywords

REWARD = "reward:"
_WEIGHTS = (
    "uniform, probabilities (logprobs, length-normalised), confidences (mean-logprob, "
    "lowest-logprob, tail-logprob, certainty) or rewards (reward:METRIC).")
LIMIT_HELP = "Maximum number of segments to read. [default: all]"
NBEST_HELP = "Add the K best hypotheses of each segment; text and CSV then have K lines for each."
FORMAT_HELP = format_help(ChoiceFormat)
UTILITIES_HELP = "Add the utilities of all hypotheses, and the number of evaluated pairs."


@dataclass(frozen=True)
class SampleWeightOptions(Options):
    """How samples are weighted as references."""

    weights: str = flag("uniform", section="Method", metavar="NAME",
                        help="Weights of samples: " + _WEIGHTS)
    weights_temperature: float | None = flag(
        None, section="Method", metavar="T", gt=0, advanced=True,
        help="Divisor of log-probabilities, confidences and rewards; values above 1 make the "
        "weights more similar.")
    keep_confident: float | None = flag(
        None, section="Method", metavar="SHARE", gt=0, le=1, advanced=True,
        help="Share of the samples to keep as references: the most confident by --weights.")

    @property
    def sample_weighting(self) -> Weighting:
        """The weighting of drawn samples."""
        weighting = self._weighting()
        if weighting.column is None:
            self._check_temperature()
        return weighting

    def reweighted(self, strategy: Strategy) -> Strategy:
        """The strategy, with references that are weighted by rewards where `weights` says so."""
        if self._reward is None:
            return strategy
        from minrisk.strategies.quality import RewardWeighted  # few runs need it

        return RewardWeighted(strategy, self._reward, self.weights_temperature or 1.0)

    @lazy
    def _reward(self) -> AnyMetric | None:
        """The metric that gives rewards, if `weights` names one."""
        kind, is_reward, name = self.weights.partition(REWARD)
        return named_metric(name) if is_reward and not kind else None

    def _weighting(self) -> Weighting:
        keep = self.keep_confident or 1.0
        if self._reward is not None:
            return Weighting(type(self).weights, keep=keep)
        return Weighting(self.weights, self.weights_temperature or 1.0, keep)

    def _check_temperature(self) -> None:
        if self.weights_temperature is not None and self._reward is None:
            raise InputError(Wording("weights_temperature={temperature} has no effect with "
                                     "weights={weights!r}; choose 'logprobs', 'length-normalised' "
                                     "or a confidence, such as 'mean-logprob'",
                                     temperature=self.weights_temperature, weights=self.weights))


@dataclass(frozen=True)
class WeightOptions(SampleWeightOptions):
    """How the references of a corpus are weighted."""

    takes_rewards: ClassVar[bool] = False  # because it also compares weights with others

    weights: str = flag("auto", section="Method", metavar="NAME",
                        help="Weights of references: those of the input (auto), " + _WEIGHTS)

    def weighting(self, corpus: Corpus, oracle: str | None = None) -> Weighting:
        """The weighting of references, checked against what the corpus has."""
        weighting = self._weighting()
        has_logprobs = corpus.text is not None and corpus.text.reference_lprobs is not None
        if self._reward and not self.takes_rewards:
            raise InputError(Wording("weights={weights!r} is only for decode, export, translate, "
                                     "answer and serve", weights=self.weights))
        if weighting.column is None and not (self.weights == "auto" and has_logprobs):
            self._check_temperature()
        if oracle and corpus.text:
            raise InputError(Wording("oracle= names a field of JSON lines; for plain text, give "
                                     "the human references as references= with num_references=1"))
        if oracle and (weighting.column or self._reward):
            raise InputError(Wording("weights={weights!r} is for samples as references, which "
                                     "oracle= replaces; leave out one of "
                                     "them", weights=self.weights))
        if corpus.text and weighting.column and not (
                has_logprobs and weighting.column == "logprobs"):
            raise InputError(Wording("weights={weights!r} needs reference_lprobs= of plain text"
                                     if weighting.column == "logprobs" else
                                     "weights={weights!r} needs JSON lines, with {column}",
                                     weights=self.weights, column=weighting.column))
        return weighting

    def decoding(self, corpus: Corpus, strategy: Strategy,
                 reader: type[SampleReader] = SampleReader) -> Decoding:
        """The segments with their weighting, and the strategy that ranks them."""
        return Decoding(corpus, strategy, self.weighting(corpus), reader=reader)


@dataclass(frozen=True)
class SegmentOptions(WeightOptions):
    """Which references segments have, and how they are weighted."""

    takes_rewards: ClassVar[bool] = True

    oracle: str | None = flag(
        None, section="Method", metavar="FIELD", advanced=True,
        help="Field with human references to score against, instead of the samples: an upper bound "
        "by the same metric.")

    def decoding(self, corpus: Corpus, strategy: Strategy,
                 reader: type[SampleReader] = SampleReader) -> Decoding:
        return Decoding(corpus, self.reweighted(strategy), self.weighting(corpus, self.oracle),
                        self.oracle, reader)


@dataclass(frozen=True)
class MatrixOutput(Options):
    """A file for the scores of all pairs."""

    matrix: str | None = flag(
        None, section="Output", metavar="FILE", advanced=True,
        help="NPZ file for the scores of all pairs, one array (hypotheses, references) per "
        "segment; a folder if the output is one.")


@dataclass(frozen=True)
class Decoding:
    """Segments and the strategy that ranks them: shared by `decode`, `export` and `inspect`."""

    corpus: Corpus
    strategy: Strategy
    weighting: Weighting = AUTO
    oracle: str | None = None
    reader: type[SampleReader] = SampleReader

    def signature(self, with_auto: bool = True) -> str:
        """The signature; that of `minrisk.decode` is without the weighting "auto"."""
        further: dict[str, Any] = {}
        if with_auto or self.weighting != AUTO:
            further["weights"] = self.weighting
        if self.oracle:
            further["oracle"] = self.oracle
        return signature(self.strategy, **further)

    def job(self, choose: Decode, writer: Writer, config: RunOptions, *,
            settings: Mapping[str, Any], checks: Sequence[Stage] = (),
            matrix: str | None = None) -> Job:
        """The job that ranks the segments with this stage."""
        lines = self.reader(self.corpus.files, self.weighting, self.oracle,
                            is_vote=self.strategy.metric.is_vote)
        return Job(
            **self.corpus.inputs(lines),
            pools=[config.pool(*checks, choose)],
            settings=settings_of(self.strategy) | self.corpus.settings | {
                "weights": self.weighting, "oracle": self.oracle, **settings},
            signatures=[self.signature()],
            writer=writer,
            block=BATCH if choose.loads_model else LIGHT_BLOCK,
            matrix=matrix,
        )


@dataclass(frozen=True)
class MeasureOptions(Options):
    """What is measured of each choice in addition to its utility."""

    uncertainty: bool = flag(
        False, section="Output",
        help="Add measures of disagreement among the samples, such as the entropy over clusters.")
    abstain: float | None = flag(
        None, section="Output", metavar="P", ge=0, le=1,
        help="Abstain (output null) when the largest cluster of similar samples holds less than P "
        "(0 to 1).")
    calibration: str | None = flag(
        None, section="Output", metavar="FILE",
        help="File from `minrisk calibrate`; adds the probability that the choice is right.")
    max_error: float | None = flag(
        None, section="Output", metavar="P", gt=0, lt=1,
        help="Target error rate: abstain when the probability by --calibration is too low.")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.max_error is not None and self.calibration is None:
            raise InputError(Wording("max_error= needs calibration=, a file of `minrisk "
                                     "calibrate`"))

    def wrap(self, strategy: Strategy, confidence: bool, seed: int = 0,
             calibration: Calibration | None = None) -> Strategy:
        """The strategy, wrapped to add these measurements; the calibration has been read before."""
        if isinstance(strategy, WeightingStrategy):  # measurements are of the weighted references
            inner = self.wrap(strategy.strategy, confidence, seed, calibration)
            return dataclasses.replace(strategy, strategy=inner)
        measured = strategy  # few runs need what is imported below
        if confidence or calibration is not None:
            from minrisk.strategies.confident import Confident

            measured = Confident(measured, seed=seed)
        if self.uncertainty or self.abstain is not None:
            from minrisk.strategies.uncertain import Uncertain

            measured = Uncertain(measured, seed=seed)
        if calibration is not None:
            from minrisk.strategies.calibrated import Calibrated

            measured = Calibrated(measured, calibration, self.max_error)
        return measured


@dataclass(frozen=True)
class ChoiceOutput(MeasureOptions, MatrixOutput):
    """What the output says about the choice in each segment."""

    format: ChoiceFormat = flag("json", section="Output", metavar="FORMAT", help=FORMAT_HELP)
    nbest: int | None = flag(None, section="Output", metavar="K", ge=1, help=NBEST_HELP)
    utilities: bool = flag(False, section="Output", help=UTILITIES_HELP)
    confidence: bool = flag(
        False, section="Output",
        help="Add the margin over the runner-up, and the probability that more samples would lead "
        "to the same choice.")

    def check_collected(self) -> None:
        """Raise InputError for options that only concern an output, if there is none."""
        if self != replace(self, format=type(self).format, nbest=None, utilities=False,
                           matrix=None):
            raise InputError(Wording("format=, nbest=, utilities= and matrix= need output=; "
                                     "rankings have all utilities"))

    def choose(self, strategy: Strategy, config: RunOptions, seed: int) -> Decode:
        """The stage that ranks, with the measurements that the output needs."""
        calibration = None
        if self.calibration is not None:
            from minrisk.evaluation.calibration import read_calibration  # few runs need it

            calibration = read_calibration(self.calibration)
        measured = self.wrap(strategy, self.confidence, seed, calibration)
        return Decode(measured, config.batch_size, config.on_error, scores=self.matrix is not None)

    def writer(self, output: str | None, strategy: Strategy) -> ChoiceWriter:
        """The writer for choices of this strategy, to an output of this name."""
        format = FORMATS[self.format].named(output)
        format.check(self)
        return ChoiceWriter(format, self.nbest, self.utilities, self.abstain,
                            confidence=self.confidence, uncertainty=self.uncertainty,
                            answers=strategy.metric.is_vote,
                            calibrated=self.calibration is not None,
                            proposals=proposes(strategy))

    @property
    def uses_seed(self) -> bool:
        """Whether measurements use random numbers."""
        return (self.confidence or self.uncertainty or self.abstain is not None
                or self.calibration is not None)

    def settings(self, seed: int, writer: ChoiceWriter) -> dict[str, Any]:
        return {"format": writer.format.rendered, "nbest": self.nbest, "utilities": self.utilities,
                "confidence": self.confidence, "uncertainty": self.uncertainty,
                "abstain": self.abstain,
                **({"confidence.seed": seed} if self.confidence else {}),
                **({"calibration": InputFile.at(self.calibration).identity(),
                    "max_error": self.max_error} if self.calibration is not None else {})}


@dataclass(frozen=True)
class DecodeOutput(ChoiceOutput):
    """The output of `decode`."""

    def job(self, decoding: Decoding, config: RunOptions, seed: int = 0) -> Job:
        writer = self.writer(config.output, decoding.strategy)
        return decoding.job(self.choose(decoding.strategy, config, seed), writer, config,
                            settings=self.settings(seed, writer), matrix=self.matrix)


@overload
def decode_corpus(
    segments: Segments, *, metric: MetricLike | None = None, strategy: StrategyLike | None = None,
    output: None = None, **options: Unpack[DecodeKeywords],
) -> Generator[DecodedSegment]: ...


@overload
def decode_corpus(
    segments: Segments, *, metric: MetricLike | None = None, strategy: StrategyLike | None = None,
    output: FilePath, **options: Unpack[DecodeOutputKeywords],
) -> RunSummary: ...


def decode_corpus(
    segments: Segments,
    *,
    metric: MetricLike | None = None,
    strategy: StrategyLike | None = None,
    output: FilePath | None = None,
    **options: Unpack[DecodeOutputKeywords],
) -> Generator[DecodedSegment] | RunSummary:
    """Choose the best hypothesis of every segment, as `minrisk decode` does.

    Without `output`, segments are read and decoded lazily, as results are consumed. Rankings equal
    those of `decode` with the segment's `position` in the input.

    Args:
        segments: names of files (JSON lines, compressed or not, Parquet, URLs, patterns);
            `TextFiles` for plain text; a table (pandas, polars, Arrow) with these fields as
            columns; or an iterable of segments: results of `sample` and other calls, `Segment`
            objects, dicts with the fields of a JSON line ("samples", "counts", "references",
            "source", ...), or lists of samples.
        metric: a metric, its name or class, or a function of hypothesis and reference; default:
            chrF.
        strategy: a strategy, its name or class; default: standard MBR.
        output: file or folder to write, as the command line does. A folder gets a file for each
            input, and can be resumed, as a file can.
        weights: weights of references: "auto" (default) uses the fields `weights` and `counts`;
            "uniform"; "logprobs" and "length-normalised" are model-based MBR; "mean-logprob",
            "lowest-logprob", "tail-logprob" and "certainty" weight samples by the confidence of the
            model; "reward:METRIC" by a reward.
        weights_temperature: divisor of log-probabilities, confidences and rewards; above 1, weights
            are more similar.
        keep_confident: share of the samples that count, the most confident ones by `weights`.
        oracle: field with human references to score against instead of samples.
        confidence: whether to add the margin of each choice, and the probability that very many
            samples would make the same one.
        uncertainty: whether to add how far the samples disagree: the entropy over clusters of
            samples that agree by the metric, the mass of the largest one, the mean utility of a
            pair, and the share of the samples without an answer.
        abstain: minimum share of all samples in the largest cluster; below it, a result has no
            text.
        calibration: file of `minrisk.calibrate`; confidences then have the probability that the
            choice is right.
        max_error: largest share of wrong ones among the choices that are given, by the
            calibration; results whose choice is too uncertain have no text.
        format: format of the output, as `--format`; default: "json", or that which the extension
            of the output names.
        nbest: number of best hypotheses of each segment to add to the output; as text or CSV, its
            number of lines per segment.
        utilities: whether to add the utilities of all hypotheses to the output.
        matrix: NPZ file (or folder, where the output is one) for the scores of all pairs.
        options: also of a strategy that is given by name or class (`subset=16`, `seed=1`), and of
            the run: `workers`, the number of workers (default: none), `engine` (default:
            "local", processes on this machine; scripts that use them need `if __name__ ==
            "__main__":`), `address`, `gpus_per_worker`, `batch_size`, `threads`,
            `segment_timeout`, `on_error`, `max_errors`, `resume`, `overwrite`, `buffer`, `work`,
            and `progress`: True for a line on standard error, or a function that is called with the
            numbers of finished and of failed segments.

    Returns:
        An iterator of results in input order, each with its `ranking`, or its `error` if it failed;
        with `output`, a summary of what was written.

    Raises:
        InputError: if an argument is invalid; if a segment fails and `on_error` is "stop"; or if
            all of the first segments fail.

    >>> corpus = [{"id": "a", "samples": ["the cat", "a cat", "the cat"]}, ["yes", "no", "yes"]]
    >>> [(result.id, result.text) for result in decode_corpus(corpus)]
    [('a', 'the cat'), (1, 'yes')]
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     summary = decode_corpus(corpus, output=f"{folder}/best.jsonl", strategy="aggregate")
    >>> summary.segments, summary.failed
    (2, 0)
    """
    call = Call(output, options)
    choices, seed = call.take(DecodeOutput), call.seed()
    if output is None:
        choices.check_collected()
    decoding = call.take(SegmentOptions).decoding(
        segments_of(segments, call.config.engine),
        call.strategy(strategy, metric, seed, choices.uses_seed))
    return call.run(choices.job(decoding, call.config, seed or 0), partial(
        DecodedSegment.of, signature=decoding.signature(with_auto=False), abstain=choices.abstain))
