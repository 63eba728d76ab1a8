"""`translate` and `answer`, as tasks and as Python calls: the best of many samples per prompt."""

from __future__ import annotations

import asyncio
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Unpack, overload

from minrisk._core.adapters import named_metric
from minrisk._core.decoding import MetricLike, SamplerLike, StrategyLike
from minrisk._core.errors import InputError, Wording
from minrisk._core.metric import AnyMetric
from minrisk._core.options import flag
from minrisk._core.sampler import Message, Sampler
from minrisk._core.signature import settings as settings_of
from minrisk._core.signature import signature
from minrisk._core.strategy import Strategy
from minrisk.io.formats import ChoiceFormat
from minrisk.io.text import FilePath
from minrisk.io.writers import ChoiceWriter
from minrisk.run.driver import Job
from minrisk.run.options import RunOptions
from minrisk.run.stages import samples_to_segments
from minrisk.tasks.calls import Call
from minrisk.tasks.corpus import Prompts
from minrisk.tasks.decode import FORMAT_HELP, ChoiceOutput, SampleWeightOptions
from minrisk.tasks.results import DecodedSegment, RunSummary
from minrisk.tasks.sample import Sampling, called_sampling

if TYPE_CHECKING:
    from minrisk.tasks.keywords import TranslateKeywords

ANSWER_SAMPLES = 16  # samples per prompt; few, because language models may cost money


def voting_metric(sampler: Sampler) -> AnyMetric | None:
    """The metric that counts votes as the sampler's early stopping does; None without a vote."""
    return None if sampler.vote is None else named_metric("exact-match", pattern=sampler.vote)


@dataclass(frozen=True)
class TranslationOutput(ChoiceOutput, SampleWeightOptions):
    """How `translate` chooses among samples, and what its output says about each source."""

    must_instruct: ClassVar[bool] = True  # a causal model must be told to translate
    prefer_finished: ClassVar[bool] = False

    format: ChoiceFormat = flag("text", section="Output", metavar="FORMAT", help=FORMAT_HELP)
    sampling_workers: int | None = flag(
        None, metavar="W", ge=1, advanced=True,
        help="Number of workers that sample (on the GPUs); --workers then only counts those that "
        "decode.")

    def job(self, sampling: Sampling, strategy: Strategy, config: RunOptions) -> Job:
        weighting, chosen = self.sample_weighting, self.reweighted(strategy)
        self._check_vote(sampling.sampler)
        seed, writer = sampling.options.seed, self.writer(config.output, strategy)
        # batch_size applies to sampling only
        choose = self.choose(chosen, replace(config, batch_size=None), seed)
        # the first pool samples, on GPUs if there are any; the second decodes the samples
        pools = [replace(config, workers=self.sampling_workers).pool(
                     *sampling.stages(config, self.must_instruct)),
                 replace(config, gpus_per_worker=None).pool(
                     samples_to_segments(weighting, self.prefer_finished,
                                         strategy.metric.is_vote),
                     choose)]
        return sampling.job(
            pools, writer,
            settings=settings_of(chosen) | self.settings(seed, writer) | {
                "weights": weighting},
            signatures=[self.signature(strategy)],
            matrix=self.matrix)

    def signature(self, strategy: Strategy) -> str:
        return signature(self.reweighted(strategy), weights=self.sample_weighting)

    def _check_vote(self, sampler: Sampler) -> None:
        """Raise InputError if sampling would stop by a vote that counts otherwise."""
        if sampler.vote is not None and self.weights != "uniform":
            raise InputError(Wording("vote= stops sampling by an unweighted majority, so it "
                                     "cannot be used with weights={weights!r}; instead of vote=, "
                                     "give metric='exact-match' with its pattern=",
                                     weights=self.weights))


@dataclass(frozen=True)
class AnswerOutput(TranslationOutput):
    """Options of `answer`: prompts contain instructions, and answers may have many lines."""

    must_instruct: ClassVar[bool] = False
    prefer_finished: ClassVar[bool] = True  # as in `serve`

    format: ChoiceFormat = flag("json", section="Output", metavar="FORMAT", help=FORMAT_HELP)

    def writer(self, output: str | None, strategy: Strategy) -> ChoiceWriter:
        return replace(super().writer(output, strategy), samples=True)


@overload
def translate(
    sources: Prompts, n: int, *, sampler: SamplerLike | None = None,
    metric: MetricLike | None = None, strategy: StrategyLike | None = None, seed: int = 0,
    output: None = None, **options: Unpack[TranslateKeywords],
) -> Generator[DecodedSegment]: ...


@overload
def translate(
    sources: Prompts, n: int, *, sampler: SamplerLike | None = None,
    metric: MetricLike | None = None, strategy: StrategyLike | None = None, seed: int = 0,
    output: FilePath, **options: Unpack[TranslateKeywords],
) -> RunSummary: ...


def translate(
    sources: Prompts,
    n: int,
    *,
    sampler: SamplerLike | None = None,
    metric: MetricLike | None = None,
    strategy: StrategyLike | None = None,
    seed: int = 0,
    output: FilePath | None = None,
    **options: Unpack[TranslateKeywords],
) -> Generator[DecodedSegment] | RunSummary:
    """Draw n samples for every source, and keep the best, as `minrisk translate` does.

    Args:
        sources: as `prompts` in `sample`.
        n: number of samples of each source.
        sampler: a sampler or its name; default: "hf", or "openai" with an `endpoint`.
        metric: a metric, its name or class, or a function of hypothesis and reference; default:
            chrF, or `ExactMatch` with the pattern of the sampler's `vote`.
        strategy: a strategy, its name or class; default: standard MBR.
        seed: seed of everything that is drawn at random.
        output: file or folder to write, as the command line does.
        options: `weights` of samples as references (default: "uniform"),
            `weights_temperature` and `keep_confident`, as in `decode_corpus`; `confidence`,
            `uncertainty`, `abstain`, `calibration` and `max_error`, as in `decode_corpus`; `format`
            of the output (default: "text"), `nbest`, `utilities` and `matrix`; `on_blank`,
            `input_format`, `reference_samples` and `reference_options`, as in `sample`;
            `sampling_workers`, the number of workers that sample (on GPUs), while `workers` is the
            number that decode; options of a sampler and a strategy that are given by name; and
            those of the run, as in `decode_corpus`.

    Returns:
        An iterator of results in input order, each with its `ranking` and `samples`, or its `error`
        if it failed; with `output`, a summary of what was written.

    Raises:
        InputError, UnusableError, MissingExtra: as `sample` and `decode_corpus` do.

    >>> from minrisk.plugins import Sample, Sampler
    >>> class Parrot(Sampler):
    ...     name = "parrot"
    ...     def sample(self, prompts, n, seed=0, indices=None):
    ...         return [[Sample(f"{prompt}!", n - 1), Sample("What?")] for prompt in prompts]
    >>> [result.text for result in translate(["Hello", "Bye"], 4, sampler=Parrot())]
    ['Hello!', 'Bye!']
    """
    return _best(TranslationOutput, sources, n, sampler, metric, strategy, seed, output, options)


@overload
def answer(  # type: ignore[overload-overlap] # a string is an iterable of strings, too
    prompts: str, n: int = ANSWER_SAMPLES, *, sampler: SamplerLike | None = None,
    metric: MetricLike | None = None, strategy: StrategyLike | None = None, seed: int = 0,
    output: None = None, **options: Unpack[TranslateKeywords],
) -> DecodedSegment: ...


@overload
def answer(
    prompts: Prompts, n: int = ANSWER_SAMPLES, *, sampler: SamplerLike | None = None,
    metric: MetricLike | None = None, strategy: StrategyLike | None = None, seed: int = 0,
    output: None = None, **options: Unpack[TranslateKeywords],
) -> Generator[DecodedSegment]: ...


@overload
def answer(
    prompts: Prompts, n: int = ANSWER_SAMPLES, *, sampler: SamplerLike | None = None,
    metric: MetricLike | None = None, strategy: StrategyLike | None = None, seed: int = 0,
    output: FilePath, **options: Unpack[TranslateKeywords],
) -> RunSummary: ...


def answer(
    prompts: str | Prompts,
    n: int = ANSWER_SAMPLES,
    *,
    sampler: SamplerLike | None = None,
    metric: MetricLike | None = None,
    strategy: StrategyLike | None = None,
    seed: int = 0,
    output: FilePath | None = None,
    **options: Unpack[TranslateKeywords],
) -> DecodedSegment | Generator[DecodedSegment] | RunSummary:
    """Draw n samples for every prompt, and keep the best, as `minrisk answer` does.

    It is `translate` for prompts other than translations. Its output is JSON lines by default,
    because answers may have many lines.

    Args:
        prompts: as in `sample`, or one prompt as a string.
        n: number of samples of each prompt.
        sampler, metric, strategy, seed, output, options: as in `translate`.

    Returns:
        As in `translate`, or a single result for a single prompt; with the metric "exact-match",
        results have the `answer`, and its votes in `details`.

    Raises:
        InputError, UnusableError, MissingExtra: as `translate` does.

    >>> import minrisk
    >>> from minrisk.plugins import Sample, Sampler
    >>> class Guesser(Sampler):
    ...     name = "guesser"
    ...     def sample(self, prompts, n, seed=0, indices=None):
    ...         return [[Sample("It is 4.", n - 2), Sample("5", 1), Sample("It's 5.", 1)]
    ...                 for _ in prompts]
    >>> metric = minrisk.ExactMatch(pattern=r"\\d+")
    >>> [result.details["answer"] for result in answer(["2 + 2?"], 5, sampler=Guesser(),
    ...                                                metric=metric)]
    ['4']
    """
    if isinstance(prompts, str) and output is None:
        [result] = answer([prompts], n, sampler=sampler, metric=metric, strategy=strategy,
                          seed=seed, **options)
        return result
    given: Any = [prompts] if isinstance(prompts, str) else prompts
    return _best(AnswerOutput, given, n, sampler, metric, strategy, seed, output, options)


async def answer_async(prompt: str | Mapping[str, Any] | Sequence[Message],
                       n: int = ANSWER_SAMPLES, **options: Any) -> DecodedSegment:
    """`answer` for one prompt, without blocking the running event loop.

    Args:
        prompt: a string, a dict with the fields of a JSON line, or a list of messages.
        n: number of samples.
        options: as in `answer`, without `output`.

    Returns:
        The result.

    Raises:
        InputError, UnusableError, MissingExtra: as `answer` does.

    >>> import asyncio
    >>> def guess(prompt, n):
    ...     return ["It is 4."] * n
    >>> asyncio.run(answer_async("2 + 2?", 3, sampler=guess)).text
    'It is 4.'
    """
    def run() -> DecodedSegment:
        result: DecodedSegment
        [result] = answer([prompt], n, **options)
        return result

    return await asyncio.to_thread(run)


def _best(kind: type[TranslationOutput], prompts: Prompts, n: int, sampler: SamplerLike | None,
          metric: MetricLike | None, strategy: StrategyLike | None, seed: int,
          output: FilePath | None, options: Mapping[str, Any],
          ) -> Generator[DecodedSegment] | RunSummary:
    """The common implementation of `translate` and `answer`."""
    call = Call(output, options)
    choices = call.take(kind)
    if output is None:
        choices.check_collected()
    sampling = called_sampling(call, prompts, sampler, n, seed)
    if isinstance(strategy, str | type | None):
        chosen = call.strategy(
            strategy, voting_metric(sampling.sampler) if metric is None else metric, seed,
            is_seed_used=True)
    else:  # an object has its own seed and metric
        chosen = call.strategy(strategy, metric)
    return call.run(choices.job(sampling, chosen, call.config), partial(
        DecodedSegment.of, signature=choices.signature(chosen), abstain=choices.abstain))
