"""`minrisk.sample`, `translate` and `answer`: prompts in, samples or the best of them out."""

from __future__ import annotations

import asyncio
import dataclasses
import os
from collections.abc import Generator, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Unpack, overload

from minrisk._api.keywords import SampleKeywords, TranslateKeywords
from minrisk._api.results import DecodedSegment, RunSummary, SampledPrompt
from minrisk._api.runs import complete, field_names, iterate, other_options, run_config
from minrisk._core.adapters import as_sampler
from minrisk._core.decoding import (
    STRATEGY,
    MetricLike,
    SamplerLike,
    StrategyLike,
    default_sampler,
    make_sampler,
    resolve_strategy,
)
from minrisk._core.errors import InputError, Wording
from minrisk._core.registry import SAMPLERS, STRATEGIES
from minrisk._core.sampler import Message, Sampler, check_numbers
from minrisk.io.formats import ChoiceFormat
from minrisk.io.inputs import InputFormat
from minrisk.io.text import FilePath
from minrisk.run.stages import collect
from minrisk.tasks.corpus import prompts_of
from minrisk.tasks.sampling import (
    ANSWER_SAMPLES,
    AnswerOutput,
    OnBlank,
    PromptOptions,
    SampleOutput,
    Sampling,
    TranslationOutput,
    voting_metric,
)

_READING = ("on_blank", "input_format", "reference_samples")  # further options of prompts
Prompts = os.PathLike[str] | Iterable[
    str | Mapping[str, Any] | Sequence[Message] | os.PathLike[str]]


@overload
def sample(
    prompts: Prompts, n: int, *, sampler: SamplerLike | None = None, seed: int = 0,
    reference_samples: int | None = None, reference_options: Mapping[str, Any] | None = None,
    output: None = None, on_blank: OnBlank = "copy", input_format: InputFormat = "auto",
    **options: Unpack[SampleKeywords],
) -> Generator[SampledPrompt]: ...


@overload
def sample(
    prompts: Prompts, n: int, *, sampler: SamplerLike | None = None, seed: int = 0,
    reference_samples: int | None = None, reference_options: Mapping[str, Any] | None = None,
    output: FilePath, repeat: bool = False, format: ChoiceFormat = "json",
    on_blank: OnBlank = "copy", input_format: InputFormat = "auto",
    **options: Unpack[SampleKeywords],
) -> RunSummary: ...


def sample(
    prompts: Prompts,
    n: int,
    *,
    sampler: SamplerLike | None = None,
    seed: int = 0,
    reference_samples: int | None = None,
    reference_options: Mapping[str, Any] | None = None,
    output: FilePath | None = None,
    repeat: bool = False,
    format: ChoiceFormat = "json",
    on_blank: OnBlank = "copy",
    input_format: InputFormat = "auto",
    **options: Unpack[SampleKeywords],
) -> Generator[SampledPrompt] | RunSummary:
    """Draw n samples for every prompt, as `minrisk sample` does.

    Without `output`, prompts are read and sampled from as the iterator is asked for them. A seed
    gives the same samples whatever the batch, but for rounding.

    Args:
        prompts: an iterable of prompts: strings, dicts with the fields of a JSON line ("source",
            "prompt" or "messages", "id", ...), or lists of messages; or a `pathlib.Path` of a file
            with a source a line or JSON lines, or several of them. A string is always a prompt.
        n: number of samples of each prompt.
        sampler: a sampler or its name; "hf" unless given, or "openai" where there is an `endpoint`.
        seed: seed of everything that is drawn at random.
        reference_samples: number of further samples of each prompt that are the references, and
            no hypotheses; the samples themselves are the references unless given.
        reference_options: options of the sampler of these, such as `{"temperature": 1.0}`, where
            they differ; their random streams do in any case.
        output: file or folder to write, as the command line does.
        repeat: whether the output has a sample as often as it was drawn, instead of its count.
        format: of the output: "json", "text" for n lines of plain text for every prompt, or "csv"
            for CSV with a header.
        on_blank: what a blank source gives: "copy" for blank samples, or "fail".
        input_format: format of files: "text", "json", or "auto" for what they look like.
        options: of a sampler that is given by name (`model=...`), and of the run, as of
            `decode_corpus`: `workers`, `resume`, `overwrite`, `on_error`, `progress`, ...

    Returns:
        An iterator of results in input order, each with its `samples`, or its `error` if it failed;
        with `output`, a summary of what was written.

    Raises:
        InputError: if an argument is invalid; for a prompt that fails if `on_error` is "stop",
            or if all of the first ones do.
        UnusableError: if a model is not there, or a server does not answer.
        MissingExtra: if the sampler needs a package that is not installed.

    >>> from minrisk.plugins import Sample, Sampler
    >>> class Parrot(Sampler):
    ...     name = "parrot"
    ...     def sample(self, prompts, n, seed=0, indices=None):
    ...         return [[Sample(f"{prompt}!", count=n)] for prompt in prompts]
    >>> [result.texts for result in sample(["Hello", "Bye"], 4, sampler=Parrot())]
    [['Hello!'], ['Bye!']]
    """
    config, chosen = run_config(output, options), _sampler(sampler, options)
    if output is None and (repeat or format != "json"):
        raise InputError(Wording("repeat= and format= are for output=; samples have their counts"))
    sampling = _sampling(prompts, chosen, n, seed, reference_options, options, on_blank=on_blank,
                         input_format=input_format, reference_samples=reference_samples)
    last = collect(SampledPrompt.of) if output is None else None
    job = SampleOutput(repeat, format).job(sampling, config, last)
    progress = options.get("progress", False)
    return (iterate if output is None else complete)(config, job, progress)


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
    """Draw n samples for every source and keep the best, as `minrisk translate` does.

    Args:
        sources: as the prompts of `sample`.
        n: number of samples of each source.
        sampler: a sampler or its name; "hf" unless given, or "openai" where there is an `endpoint`.
        metric: a metric, its name or class, or a function of hypothesis and reference; unless
            given, chrF, or `ExactMatch` with the pattern of a sampler with `vote`.
        strategy: a strategy, its name or class; standard MBR unless given.
        seed: seed of everything that is drawn at random.
        output: file or folder to write, as the command line does.
        options: `weights` of samples as references ("uniform", "logprobs" or
            "length-normalised"); `confidence`, `uncertainty` and `abstain`, as of
            `decode_corpus`; of the output `format` ("text", "json" or "csv"), `nbest`, `utilities`
            and `matrix`; `on_blank`, `input_format`, `reference_samples` and `reference_options`,
            as of
            `sample`; `sampling_workers`, the number of workers that sample, on the GPUs, where
            `workers` is the number that decode; options of a sampler and a strategy that are
            given by name; and those of the run, as of `decode_corpus`.

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
    """Draw n samples for every prompt and keep the best, as `minrisk answer` does.

    It is `translate` for prompts that are no translations, and writes JSON lines unless told
    otherwise, because answers may have many lines.

    Args:
        prompts: as of `sample`, or one prompt as a string.
        n: number of samples of each prompt.
        sampler, metric, strategy, seed, output, options: as of `translate`.

    Returns:
        As `translate` does, or the result of the one prompt; with the metric "exact-match",
        `answer` is the answer, and `details` has its votes.

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
        [found] = answer([prompts], n, sampler=sampler, metric=metric, strategy=strategy, seed=seed,
                         **options)
        return found
    given: Any = [prompts] if isinstance(prompts, str) else prompts
    return _best(AnswerOutput, given, n, sampler, metric, strategy, seed, output, options)


async def answer_async(prompt: str | Mapping[str, Any] | Sequence[Message],
                       n: int = ANSWER_SAMPLES, **options: Any) -> DecodedSegment:
    """`answer` for one prompt, which leaves the running event loop to others.

    Args:
        prompt: a string, a dict with the fields of a JSON line, or a list of messages.
        n: number of samples.
        options: as of `answer`, without `output`.

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
        found: DecodedSegment
        [found] = answer([prompt], n, **options)
        return found

    return await asyncio.to_thread(run)


def _best(kind: type[TranslationOutput], prompts: Prompts, n: int, sampler: SamplerLike | None,
          metric: MetricLike | None, strategy: StrategyLike | None, seed: int,
          output: FilePath | None, options: Mapping[str, Any],
          ) -> Generator[DecodedSegment] | RunSummary:
    """The best sample of every prompt."""
    config = run_config(output, options)
    sampler_fields = field_names(SAMPLERS, sampler, default_sampler(options.get("endpoint")))
    fields = field_names(STRATEGIES, strategy, STRATEGY)
    choice_fields = [f.name for f in dataclasses.fields(kind)]
    others = other_options(options, sampler_fields, fields, choice_fields, _READING,
                           ["reference_options"])
    reference_options = others.pop("reference_options", None)
    choices = _choices(kind, {k: others.pop(k) for k in choice_fields if k in others}, output)
    reading = {k: others.pop(k) for k in _READING if k in others}
    chosen = _sampler(sampler, {k: others.pop(k) for k in sampler_fields if k in others})
    if isinstance(strategy, str | type | None):  # an object has its seed and its metric
        if "seed" in fields:
            others["seed"] = seed
        metric = voting_metric(chosen) if metric is None else metric
    decision = resolve_strategy(strategy, metric, others)
    sampling = _sampling(prompts, chosen, n, seed, reference_options, options, **reading)
    last = None if output is not None else collect(
        partial(DecodedSegment.of, signature=choices.signature(decision),
                abstain=choices.abstain))
    job = choices.job(sampling, decision, config, last)
    progress = options.get("progress", False)
    return (iterate if output is None else complete)(config, job, progress)


def _choices(kind: type[TranslationOutput], given: dict[str, Any],
             output: FilePath | None) -> TranslationOutput:
    if given.get("matrix") is not None:
        given["matrix"] = os.fspath(given["matrix"])
    choices = kind(**given)
    if output is None:
        choices.check_collected()
    return choices


def _sampler(sampler: SamplerLike | None, options: Mapping[str, Any]) -> Sampler:
    """A sampler by name with its options, or one that has them."""
    fields = field_names(SAMPLERS, sampler, default_sampler(options.get("endpoint")))
    own = other_options(options, fields)
    if sampler is None or isinstance(sampler, str):
        return make_sampler(sampler or default_sampler(options.get("endpoint")), **own)
    found = as_sampler(sampler)
    if own:
        raise InputError(f"{', '.join(own)}: already part of the sampler {found.name!r}; give the "
                         "sampler by name, or these to its constructor")
    return found


def _sampling(prompts: Prompts, sampler: Sampler, n: int, seed: int,
              reference_options: Mapping[str, Any] | None, options: Mapping[str, Any],
              **reading: Any) -> Sampling:
    check_numbers(n, seed)
    return Sampling(prompts_of(prompts, options.get("engine")), sampler,
                    PromptOptions(num_samples=n, seed=seed, **reading),
                    dict(reference_options or {}))
