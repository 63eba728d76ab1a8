"""`sample` and `minrisk.sample`: samples for prompts."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, Unpack, overload

import numpy as np

from minrisk._core.decoding import SamplerLike
from minrisk._core.errors import InputError, Wording
from minrisk._core.lazy import lazy
from minrisk._core.options import Options, flag
from minrisk._core.sampler import Sampler, check_numbers
from minrisk._core.signature import settings as settings_of
from minrisk._core.signature import signature
from minrisk.io.formats import FORMATS, ChoiceFormat, format_help
from minrisk.io.inputs import InputFormat
from minrisk.io.prompts import PromptReader
from minrisk.io.records import Record
from minrisk.io.text import FilePath
from minrisk.io.writers import SampleWriter, Writer
from minrisk.run.driver import Job
from minrisk.run.options import RunOptions
from minrisk.run.stages import GenerateReferences, GenerateSamples, Stage, check_records
from minrisk.run.workers import WorkerPool
from minrisk.tasks.calls import Call
from minrisk.tasks.corpus import Corpus, Prompts, prompts_of
from minrisk.tasks.results import RunSummary, SampledPrompt

if TYPE_CHECKING:
    from minrisk.tasks.keywords import SampleKeywords, SampleOutputKeywords

OnBlank = Literal["copy", "fail"]


@dataclass(frozen=True)
class PromptOptions(Options):
    """How prompts are read, and how many samples are drawn for each."""

    input_format: InputFormat = flag(
        "auto", section="Input", advanced=True,
        help="Format of INPUT; auto detects it by the file name or the first character.")
    on_blank: OnBlank = flag(
        "copy", section="Input", advanced=True,
        help="What to do with a blank source: copy it to the output, or fail.")
    num_samples: int = flag(256, "-n", section="Sampling", metavar="N", ge=1,
                            help="Number of samples per prompt.")
    seed: int = flag(0, section="Sampling", metavar="S", ge=0, help="Random seed.")
    reference_samples: int | None = flag(
        None, section="Sampling", metavar="M", ge=1,
        help="Number of separate samples to use as references; --references.FIELD sets options of "
        "their sampler.")


@dataclass(frozen=True)
class Sampling:
    """Prompts and their sampler: shared by `sample`, `translate` and `answer`."""

    corpus: Corpus
    sampler: Sampler
    options: PromptOptions
    reference_options: Mapping[str, Any] = field(default_factory=dict)  # changes to the sampler

    def __post_init__(self) -> None:
        if self.reference_options and self.options.reference_samples is None:
            raise InputError(Wording("reference_options= needs reference_samples=, the number of "
                                     "references"))

    @lazy
    def reference_sampler(self) -> Sampler:
        return self.sampler.with_options(**self.reference_options)

    def stages(self, config: RunOptions, must_instruct: bool = False) -> list[Stage]:
        """The stages that draw samples and, if requested, separate references."""
        options = self.options
        samples = GenerateSamples(self.sampler, options.num_samples, options.seed,
                                  config.batch_size, config.on_error, options.on_blank == "fail",
                                  must_instruct)
        if options.reference_samples is None:
            return [samples]
        return [samples, GenerateReferences(replace(
            samples, sampler=self.reference_sampler, n=options.reference_samples,
            seed=reference_seed(options.seed)))]

    def job(self, pools: Sequence[WorkerPool], writer: Writer, *, settings: Mapping[str, Any],
            drawing: Mapping[str, Any] | None = None, signatures: Sequence[str] = (),
            matrix: str | None = None) -> Job:
        """The job with these pools of workers; the first one samples."""
        options = self.options
        drawn = {"n": options.num_samples, "seed": options.seed, **(drawing or {})}
        references = self._references
        return Job(
            **self.corpus.inputs(PromptReader(self.corpus.files, options.input_format)),
            pools=pools,
            settings=settings_of(self.sampler, "sampler") | drawn | references | {
                "input_format": options.input_format, "on_blank": options.on_blank, **settings},
            signatures=[signature(self.sampler, "sampler", **drawn, **references), *signatures],
            writer=writer,
            block=self.sampler.batch_size(options.num_samples),
            matrix=matrix,
            is_streaming=self.sampler.streams,
        )

    @property
    def _references(self) -> dict[str, Any]:
        """Settings of separate references: their number, and options that differ."""
        if self.options.reference_samples is None:
            return {}
        own = settings_of(self.sampler, "sampler")
        others = settings_of(self.reference_sampler, "sampler")
        return {"reference_samples": self.options.reference_samples, **{
            f"references.{name}": value for name, value in others.items() if value != own[name]}}


def reference_seed(seed: int) -> int:
    """The seed of separate references, so that they are independent of the samples."""
    return int(np.random.SeedSequence([seed, 1]).generate_state(1)[0])


def _check_no_references(record: Record) -> None:
    if "references" in record.fields:
        raise InputError(Wording("found references in the input, which reference_samples= would "
                                 "replace; rename the field, or leave out reference_samples="))


@dataclass(frozen=True)
class SampleOutput(Options):
    """What the output of `sample` says about each prompt."""

    repeat: bool = flag(False, section="Output",
                        help="Repeat equal samples, instead of counting them.")
    format: ChoiceFormat = flag("json", section="Output", metavar="FORMAT",
                                help=format_help(ChoiceFormat))

    def job(self, sampling: Sampling, config: RunOptions) -> Job:
        options = sampling.options
        format = FORMATS[self.format].named(config.output)
        format.check(options)
        check = [check_records(_check_no_references)] if options.reference_samples else []
        writer = SampleWriter(options.num_samples, format, self.repeat)
        return sampling.job([config.pool(*check, *sampling.stages(config))], writer,
                            settings={"format": format.rendered},
                            drawing={"repeat": self.repeat})


@overload
def sample(
    prompts: Prompts, n: int, *, sampler: SamplerLike | None = None, seed: int = 0,
    output: None = None, **options: Unpack[SampleKeywords],
) -> Generator[SampledPrompt]: ...


@overload
def sample(
    prompts: Prompts, n: int, *, sampler: SamplerLike | None = None, seed: int = 0,
    output: FilePath, **options: Unpack[SampleOutputKeywords],
) -> RunSummary: ...


def sample(
    prompts: Prompts,
    n: int,
    *,
    sampler: SamplerLike | None = None,
    seed: int = 0,
    output: FilePath | None = None,
    **options: Unpack[SampleOutputKeywords],
) -> Generator[SampledPrompt] | RunSummary:
    """Draw n samples for every prompt, as `minrisk sample` does.

    Without `output`, prompts are read and sampled lazily, as results are consumed. Samples only
    depend on the seed, not on the batch, except for rounding.

    Args:
        prompts: an iterable of prompts: strings, dicts with the fields of a JSON line ("source",
            "prompt" or "messages", "id", ...), or lists of messages; or a `pathlib.Path` of a file
            with one source per line or JSON lines, or several of them. A string is always a prompt.
        n: number of samples of each prompt.
        sampler: a sampler or its name; default: "hf", or "openai" with an `endpoint`.
        seed: seed of everything that is drawn at random.
        reference_samples: number of separate samples of each prompt that serve as references;
            default: none, the samples themselves are the references.
        reference_options: options of the sampler of these that differ, such as
            `{"temperature": 1.0}`; they are drawn independently in any case.
        output: file or folder to write, as the command line does.
        repeat: whether the output repeats equal samples instead of counting them.
        format: format of the output, as in `decode_corpus`; "text" has n lines per prompt.
        on_blank: result of a blank source: "copy" (default) for blank samples, or "fail".
        input_format: format of files: "text", "json", or "auto" (default) to detect it.
        options: also of a sampler that is given by name (`model=...`), and of the run, as in
            `decode_corpus`: `workers`, `resume`, `overwrite`, `on_error`, `progress`, ...

    Returns:
        An iterator of results in input order, each with its `samples`, or its `error` if it failed;
        with `output`, a summary of what was written.

    Raises:
        InputError: if an argument is invalid; if a prompt fails and `on_error` is "stop"; or if all
            of the first prompts fail.
        UnusableError: if a model does not exist, or a server does not answer.
        MissingExtra: if the sampler needs a package that is not installed.

    >>> from minrisk.plugins import Sample, Sampler
    >>> class Parrot(Sampler):
    ...     name = "parrot"
    ...     def sample(self, prompts, n, seed=0, indices=None):
    ...         return [[Sample(f"{prompt}!", count=n)] for prompt in prompts]
    >>> [result.texts for result in sample(["Hello", "Bye"], 4, sampler=Parrot())]
    [['Hello!'], ['Bye!']]
    """
    call = Call(output, options)
    written = call.take(SampleOutput)
    if output is None and written != SampleOutput():
        raise InputError(Wording("repeat= and format= need output=; samples have their counts"))
    sampling = called_sampling(call, prompts, sampler, n, seed)
    call.check()
    return call.run(written.job(sampling, call.config), SampledPrompt.of)


def called_sampling(call: Call, prompts: Prompts, sampler: SamplerLike | None, n: int,
                    seed: int) -> Sampling:
    """The prompts of a call and their sampler."""
    check_numbers(n, seed)
    options = call.take(PromptOptions, num_samples=n, seed=seed)
    changes = call.option("reference_options") or {}
    return Sampling(prompts_of(prompts, call.config.engine), call.sampler(sampler), options,
                    dict(changes))
