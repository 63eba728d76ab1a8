"""The work of `sample` and `translate`: draw samples for prompts, and choose among them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal

from minrisk._core.errors import InputError
from minrisk._core.options import Options, flag
from minrisk._core.sampler import Sampler
from minrisk._core.signature import settings as settings_of
from minrisk._core.signature import signature
from minrisk._core.strategy import Strategy
from minrisk.io.prompts import InputFormat, PromptReader
from minrisk.io.record import Weighting
from minrisk.io.writer import ChoiceWriter, SampleWriter
from minrisk.pipeline.job import RunConfig, Work
from minrisk.pipeline.stages import Decode, GenerateSamples, SamplesToSegments, Stage, Write
from minrisk.pipeline.workers import WorkerPool
from minrisk.tasks.corpus import Corpus
from minrisk.tasks.decoding import NBEST_HELP, UTILITIES_HELP

OnBlank = Literal["copy", "fail"]


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
                            help="Number of samples of each source.")
    seed: int = flag(0, section="Sampling", metavar="S", ge=0,
                     help="Seed of everything that is drawn at random.")


@dataclass(frozen=True)
class Sampling:
    """Prompts and the sampler that draws for them: what `sample` and `translate` have in common."""

    corpus: Corpus
    sampler: Sampler
    options: PromptOptions

    def stage(self, config: RunConfig, must_instruct: bool = False) -> GenerateSamples:
        return GenerateSamples(self.sampler, self.options.num_samples, self.options.seed,
                               config.batch_size, config.on_error,
                               self.options.on_blank == "fail", must_instruct)

    def work(self, pools: Sequence[WorkerPool], *, settings: Mapping[str, Any],
             drawing: Mapping[str, Any] | None = None, signatures: Sequence[str] = (),
             extension: str = ".jsonl") -> Work:
        """The work of these pools, the first of which samples."""
        options = self.options
        lines = partial(PromptReader, form=options.input_format)
        drawn = {"n": options.num_samples, "seed": options.seed, **(drawing or {})}
        return Work(
            files=self.corpus.files,
            reader=partial(self.corpus.reader, lines),
            pools=pools,
            settings=settings_of(self.sampler, "sampler") | drawn | {
                "input_format": options.input_format, "on_blank": options.on_blank, **settings},
            signatures=[signature(self.sampler, "sampler", **drawn), *signatures],
            extension=extension,
            block=self.sampler.batch_size(options.num_samples),
            parser=self.corpus.parser(lines),
            is_streaming=self.sampler.streams,
        )


@dataclass(frozen=True)
class SampleOutput(Options):
    """What the output of `sample` says of each prompt."""

    repeat: bool = flag(False, section="Output",
                        help="Write equal samples one by one, instead of one with its count.")

    def work(self, sampling: Sampling, config: RunConfig, last: Stage | None = None) -> Work:
        """The work of `sample`; `last` replaces the stage that writes."""
        stages = (sampling.stage(config), last or Write(SampleWriter(self.repeat)))
        return sampling.work([config.pool(*stages)], settings={},
                             drawing={"repeat": self.repeat})


@dataclass(frozen=True)
class TranslationOutput(Options):
    """How `translate` chooses among samples, and what its output says of each source."""

    weights: Literal["uniform", "logprobs"] = flag(
        "uniform", section="Method",
        help="Weights of samples as references: equal, or their probabilities.")
    format: Literal["text", "json"] = flag(
        "text", section="Output", help="One line of text per segment, or JSON lines.")
    nbest: int | None = flag(None, section="Output", metavar="K", ge=1, help=NBEST_HELP)
    utilities: bool = flag(False, section="Output", help=UTILITIES_HELP)
    sampling_workers: int | None = flag(
        None, metavar="W", ge=1, advanced=True,
        help="Number of workers that sample, on the GPUs; --workers is the number that decode.")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.format == "text" and (self.nbest or self.utilities):
            raise InputError("nbest= and utilities= need format='json'; "
                             "text has one line per segment")

    def work(self, sampling: Sampling, strategy: Strategy, config: RunConfig,
             last: Stage | None = None) -> Work:
        """The work of `translate`; `last` replaces the stage that writes."""
        choose = (SamplesToSegments(Weighting(self.weights)),
                  Decode(strategy, None, config.on_error),
                  last or Write(ChoiceWriter(self.format, self.nbest, self.utilities)))
        # the first pool samples, on GPUs if there are any; the second decodes the samples
        pools = [replace(config.pool(sampling.stage(config, must_instruct=True)),
                         workers=self.sampling_workers),
                 config.pool(*choose, gpus=False)]
        return sampling.work(
            pools,
            settings=settings_of(strategy) | {
                "format": self.format, "nbest": self.nbest, "utilities": self.utilities,
                "weights": self.weights},
            signatures=[signature(strategy, weights=self.weights)],
            extension=".txt" if self.format == "text" else ".jsonl")
