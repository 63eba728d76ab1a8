"""`minrisk.sample` and `minrisk.translate`: prompts in, samples or the best of them out."""

from __future__ import annotations

import os
from collections.abc import Generator, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Literal, Unpack, overload

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
from minrisk._core.errors import InputError
from minrisk._core.registry import SAMPLERS, STRATEGIES
from minrisk._core.sampler import Message, Sampler, check_numbers
from minrisk._core.signature import signature
from minrisk.io.prompts import InputFormat
from minrisk.io.text_files import FilePath
from minrisk.pipeline.stages import Collect
from minrisk.tasks.corpus import prompts_of
from minrisk.tasks.sampling import (
    OnBlank,
    PromptOptions,
    SampleOutput,
    Sampling,
    TranslationOutput,
)

Prompts = os.PathLike[str] | Iterable[
    str | Mapping[str, Any] | Sequence[Message] | os.PathLike[str]]


@overload
def sample(
    prompts: Prompts, n: int, *, sampler: SamplerLike | None = None, seed: int = 0,
    output: None = None, on_blank: OnBlank = "copy", input_format: InputFormat = "auto",
    **options: Unpack[SampleKeywords],
) -> Generator[SampledPrompt]: ...


@overload
def sample(
    prompts: Prompts, n: int, *, sampler: SamplerLike | None = None, seed: int = 0,
    output: FilePath, repeat: bool = False, on_blank: OnBlank = "copy",
    input_format: InputFormat = "auto", **options: Unpack[SampleKeywords],
) -> RunSummary: ...


def sample(
    prompts: Prompts,
    n: int,
    *,
    sampler: SamplerLike | None = None,
    seed: int = 0,
    output: FilePath | None = None,
    repeat: bool = False,
    on_blank: OnBlank = "copy",
    input_format: InputFormat = "auto",
    **options: Unpack[SampleKeywords],
) -> Generator[SampledPrompt] | RunSummary:
    """Draw n samples for every prompt, as `minrisk sample` does.

    Without `output`, prompts are read and sampled from as the iterator is asked for them. A seed
    gives the same samples whatever the batch.

    Args:
        prompts: an iterable of prompts: strings, dicts with the fields of a JSON line ("source",
            "prompt" or "messages", "id", ...), or lists of messages; or a `pathlib.Path` of a file
            with a source a line or JSON lines, or several of them. A string is always a prompt.
        n: number of samples of each prompt.
        sampler: a sampler or its name; "hf" unless given, or "openai" where there is an `endpoint`.
        seed: seed of everything that is drawn at random.
        output: file or folder to write, as the command line does.
        repeat: whether the output has a sample as often as it was drawn, instead of its count.
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
    ...     def sample(self, prompts, n, seed=0, places=None):
    ...         return [[Sample(f"{prompt}!", count=n)] for prompt in prompts]
    >>> [result.texts for result in sample(["Hello", "Bye"], 4, sampler=Parrot())]
    [['Hello!'], ['Bye!']]
    """
    config, chosen = run_config(output, options), _sampler(sampler, options)
    if output is None and repeat:
        raise InputError("repeat= is for output=; samples have their counts")
    sampling = _sampling(prompts, chosen, n, seed, on_blank, input_format, options)
    last = Collect(SampledPrompt.of) if output is None else None
    work = SampleOutput(repeat).work(sampling, config, last)
    progress = options.get("progress", False)
    return (iterate if output is None else complete)(config, work, progress)


@overload
def translate(
    sources: Prompts, n: int, *, sampler: SamplerLike | None = None,
    metric: MetricLike | None = None, strategy: StrategyLike | None = None, seed: int = 0,
    output: None = None, weights: Literal["uniform", "logprobs"] = "uniform",
    on_blank: OnBlank = "copy", input_format: InputFormat = "auto",
    sampling_workers: int | None = None, **options: Unpack[TranslateKeywords],
) -> Generator[DecodedSegment]: ...


@overload
def translate(
    sources: Prompts, n: int, *, sampler: SamplerLike | None = None,
    metric: MetricLike | None = None, strategy: StrategyLike | None = None, seed: int = 0,
    output: FilePath, format: Literal["text", "json"] = "text", nbest: int | None = None,
    utilities: bool = False, weights: Literal["uniform", "logprobs"] = "uniform",
    on_blank: OnBlank = "copy", input_format: InputFormat = "auto",
    sampling_workers: int | None = None, **options: Unpack[TranslateKeywords],
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
    format: Literal["text", "json"] = "text",
    nbest: int | None = None,
    utilities: bool = False,
    weights: Literal["uniform", "logprobs"] = "uniform",
    on_blank: OnBlank = "copy",
    input_format: InputFormat = "auto",
    sampling_workers: int | None = None,
    **options: Unpack[TranslateKeywords],
) -> Generator[DecodedSegment] | RunSummary:
    """Draw n samples for every source and keep the best, as `minrisk translate` does.

    Args:
        sources: as the prompts of `sample`.
        n: number of samples of each source.
        sampler: a sampler or its name; "hf" unless given, or "openai" where there is an `endpoint`.
        metric: a metric, its name or class, or a function of hypothesis and reference; chrF unless
            given.
        strategy: a strategy, its name or class; standard MBR unless given.
        seed: seed of everything that is drawn at random.
        output: file or folder to write, as the command line does.
        format: of the output: "text" for a line of text per source, "json" for JSON lines.
        nbest: number of best samples of each source to add to the output.
        utilities: whether to add the utilities of all samples to the output.
        weights: how samples count as references: all alike, or by their "logprobs".
        on_blank: what a blank source gives: "copy" for a blank choice, or "fail".
        input_format: format of files: "text", "json", or "auto" for what they look like.
        sampling_workers: number of workers that sample, on the GPUs; `workers` is the number that
            decode.
        options: of a sampler and a strategy that are given by name, and of the run, as of
            `decode_corpus`.

    Returns:
        An iterator of results in input order, each with its `ranking` and `samples`, or its `error`
        if it failed; with `output`, a summary of what was written.

    Raises:
        InputError, UnusableError, MissingExtra: as `sample` and `decode_corpus` do.

    >>> from minrisk.plugins import Sample, Sampler
    >>> class Parrot(Sampler):
    ...     name = "parrot"
    ...     def sample(self, prompts, n, seed=0, places=None):
    ...         return [[Sample(f"{prompt}!", n - 1), Sample("What?")] for prompt in prompts]
    >>> [result.text for result in translate(["Hello", "Bye"], 4, sampler=Parrot())]
    ['Hello!', 'Bye!']
    """
    config = run_config(output, options)
    if output is None and (format != "text" or nbest or utilities):
        raise InputError("format=, nbest= and utilities= are for output=; rankings have all "
                         "utilities")
    choices = TranslationOutput(weights, format, nbest, utilities, sampling_workers)
    sampler_fields = field_names(SAMPLERS, sampler, default_sampler(options.get("endpoint")))
    fields = field_names(STRATEGIES, strategy, STRATEGY)
    others = other_options(options, sampler_fields, fields)
    chosen = _sampler(sampler, {k: v for k, v in others.items() if k in sampler_fields})
    own = {k: v for k, v in others.items() if k not in sampler_fields}
    if "seed" in fields and isinstance(strategy, str | type | None):
        own["seed"] = seed
    decision = resolve_strategy(strategy, metric, own)
    sampling = _sampling(sources, chosen, n, seed, on_blank, input_format, options)
    last = None if output is not None else Collect(
        partial(DecodedSegment.of, signature=signature(decision)))
    work = choices.work(sampling, decision, config, last)
    progress = options.get("progress", False)
    return (iterate if output is None else complete)(config, work, progress)


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


def _sampling(prompts: Prompts, sampler: Sampler, n: int, seed: int, on_blank: OnBlank,
              input_format: InputFormat, options: Mapping[str, Any]) -> Sampling:
    check_numbers(n, seed)
    return Sampling(prompts_of(prompts, options.get("engine")), sampler,
                    PromptOptions(input_format, on_blank, n, seed))
