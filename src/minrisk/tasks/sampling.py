"""The job of `sample` and `translate`: draw samples for prompts, and choose among them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal

import numpy as np

from minrisk._core.adapters import named_metric
from minrisk._core.errors import InputError, Wording
from minrisk._core.lazy import lazy
from minrisk._core.metric import AnyMetric
from minrisk._core.options import Options, flag
from minrisk._core.sampler import Sampler
from minrisk._core.signature import settings as settings_of
from minrisk._core.signature import signature
from minrisk._core.strategy import Strategy
from minrisk.io.formats import FORMATS, ChoiceFormat, OutputFormat
from minrisk.io.inputs import InputFormat
from minrisk.io.prompts import PromptReader
from minrisk.io.records import Record, Weighting
from minrisk.io.writers import ChoiceWriter, SampleWriter
from minrisk.run.driver import Job
from minrisk.run.options import RunOptions
from minrisk.run.stages import (
    GenerateReferences,
    GenerateSamples,
    Stage,
    check_records,
    samples_to_segments,
)
from minrisk.run.workers import WorkerPool
from minrisk.tasks.corpus import Corpus
from minrisk.tasks.decoding import FORMAT_HELP, ChoiceOutput

OnBlank = Literal["copy", "fail"]
ANSWER_SAMPLES = 16  # of each prompt of a language model, which may cost money


@dataclass(frozen=True)
class PromptOptions(Options):
    """How prompts are read, and how many samples each gets."""

    input_format: InputFormat = flag(
        "auto", section="Input", advanced=True,
        help="Format of INPUT; auto is JSON lines if its name or first character says so.")
    on_blank: OnBlank = flag(
        "copy", section="Input", advanced=True,
        help="Result of a blank source: a blank output, or a failure.")
    num_samples: int = flag(256, "-n", section="Sampling", metavar="N", ge=1,
                            help="Number of samples of each prompt.")
    seed: int = flag(0, section="Sampling", metavar="S", ge=0,
                     help="Seed of everything that is drawn at random.")
    reference_samples: int | None = flag(
        None, section="Sampling", metavar="M", ge=1,
        help="Number of further samples of each prompt that are the references; "
        "--references.FIELD sets fields of their sampler, otherwise equal to those above.")


@dataclass(frozen=True)
class Sampling:
    """Prompts and the sampler that draws for them: what `sample` and `translate` have in common."""

    corpus: Corpus
    sampler: Sampler
    options: PromptOptions
    reference_options: Mapping[str, Any] = field(default_factory=dict)  # changes to the sampler

    def __post_init__(self) -> None:
        if self.reference_options and self.options.reference_samples is None:
            raise InputError(Wording("reference_options= needs reference_samples=, their number"))

    @lazy
    def reference_sampler(self) -> Sampler:
        return self.sampler.with_options(**self.reference_options)

    def stages(self, config: RunOptions, must_instruct: bool = False) -> list[Stage]:
        """The stages that sample, for hypotheses and then for references of their own."""
        options = self.options
        samples = GenerateSamples(self.sampler, options.num_samples, options.seed,
                                  config.batch_size, config.on_error, options.on_blank == "fail",
                                  must_instruct)
        if options.reference_samples is None:
            return [samples]
        return [samples, GenerateReferences(replace(
            samples, sampler=self.reference_sampler, n=options.reference_samples,
            seed=reference_seed(options.seed)))]

    def job(self, pools: Sequence[WorkerPool], *, settings: Mapping[str, Any],
            drawing: Mapping[str, Any] | None = None, signatures: Sequence[str] = (),
            format: OutputFormat, columns: Sequence[str], matrix: str | None = None) -> Job:
        """The job of these pools, the first of which samples."""
        options = self.options
        lines = PromptReader(self.corpus.files, options.input_format)
        drawn = {"n": options.num_samples, "seed": options.seed, **(drawing or {})}
        references = self._references
        return Job(
            files=self.corpus.files,
            reader=self.corpus.reader(lines),
            pools=pools,
            settings=settings_of(self.sampler, "sampler") | drawn | references | {
                "input_format": options.input_format, "on_blank": options.on_blank, **settings},
            signatures=[signature(self.sampler, "sampler", **drawn, **references), *signatures],
            format=format,
            columns=columns,
            block=self.sampler.batch_size(options.num_samples),
            matrix=matrix,
            parser=self.corpus.parser(lines),
            is_streaming=self.sampler.streams,
        )

    @property
    def _references(self) -> dict[str, Any]:
        """The number of separate references, and the options that differ from the samples'."""
        if self.options.reference_samples is None:
            return {}
        own = settings_of(self.sampler, "sampler")
        others = settings_of(self.reference_sampler, "sampler")
        return {"reference_samples": self.options.reference_samples, **{
            f"references.{name}": value for name, value in others.items() if value != own[name]}}


def voting_metric(sampler: Sampler) -> AnyMetric | None:
    """The metric that counts the votes by which sampling ends, if it does."""
    return None if sampler.vote is None else named_metric("exact-match", pattern=sampler.vote)


def reference_seed(seed: int) -> int:
    """The seed of separate references, whose random streams must not be those of the samples."""
    return int(np.random.SeedSequence([seed, 1]).generate_state(1)[0])


def _check_no_references(record: Record) -> None:
    if "references" in record.fields:
        raise InputError(Wording("found references in the input, which those of "
                                 "reference_samples= would replace; rename the field, or leave "
                                 "out reference_samples="))


@dataclass(frozen=True)
class SampleOutput(Options):
    """What the output of `sample` says of each prompt."""

    repeat: bool = flag(False, section="Output",
                        help="Write equal samples one by one, without counts.")
    format: ChoiceFormat = flag(
        "json", section="Output", help="JSON lines, a line of text per sample, or CSV.")

    def job(self, sampling: Sampling, config: RunOptions, last: Stage | None = None) -> Job:
        """The job of `sample`; `last` replaces the stage that writes."""
        options = sampling.options
        found = FORMATS[self.format].named(config.output)
        found.check(options)
        check = [check_records(_check_no_references)] if options.reference_samples else []
        writer = SampleWriter(options.num_samples, found, self.repeat)
        stages = (*check, *sampling.stages(config), last or config.write(writer))
        return sampling.job([config.pool(*stages)], settings={"format": found.rendered},
                            drawing={"repeat": self.repeat}, format=found, columns=writer.columns)


@dataclass(frozen=True)
class TranslationOutput(ChoiceOutput):
    """How `translate` chooses among samples, and what its output says of each source."""

    must_instruct: ClassVar[bool] = True  # a causal model must be told to translate
    prefer_finished: ClassVar[bool] = False

    format: ChoiceFormat = flag(
        "text", section="Output", help="Lines of text, JSON lines, or CSV with a header.")
    weights: Literal["uniform", "logprobs", "length-normalised"] = flag(
        "uniform", section="Method",
        help="Weights of samples as references: equal, their probabilities, or these per token.")
    sampling_workers: int | None = flag(
        None, metavar="W", ge=1, advanced=True,
        help="Number of workers that sample, on the GPUs; --workers is the number that decode.")

    def job(self, sampling: Sampling, strategy: Strategy, config: RunOptions,
            last: Stage | None = None) -> Job:
        """The job of `translate`; `last` replaces the stage that writes."""
        seed, writer = sampling.options.seed, self.writer(config.output, strategy)
        choose = self.choose(strategy, replace(config, batch_size=None), seed)  # it is for sampling
        # the first pool samples, on GPUs if there are any; the second decodes the samples
        pools = [replace(config, workers=self.sampling_workers).pool(
                     *sampling.stages(config, self.must_instruct)),
                 replace(config, gpus_per_worker=None).pool(
                     samples_to_segments(Weighting(self.weights), self.prefer_finished,
                                         strategy.metric.is_vote),
                     choose, last or config.write(writer))]
        return sampling.job(
            pools,
            settings=settings_of(strategy) | self.settings(seed, writer) | {
                "weights": self.weights},
            signatures=[self.signature(strategy)],
            format=writer.format,
            columns=writer.columns,
            matrix=self.matrix)

    def signature(self, strategy: Strategy) -> str:
        return signature(strategy, weights=self.weights)


@dataclass(frozen=True)
class AnswerOutput(TranslationOutput):
    """The same for `answer`: prompts instruct by themselves, and answers may have many lines."""

    must_instruct: ClassVar[bool] = False
    prefer_finished: ClassVar[bool] = True  # as `serve` does

    format: ChoiceFormat = flag("json", section="Output", help=FORMAT_HELP)

    def writer(self, output: str | None, strategy: Strategy) -> ChoiceWriter:
        return replace(super().writer(output, strategy), samples=True)
