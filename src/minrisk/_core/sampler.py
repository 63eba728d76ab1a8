"""Samples, their columns in the format that `decode` reads, and the base class of samplers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any, Protocol, Self, TypeVar

from minrisk._core.arrays import finite_or_none
from minrisk._core.errors import InputError, MinriskError, Wording, unknown
from minrisk._core.options import Bounds, Options, checked
from minrisk._core.token_confidence import CONFIDENCES

PROMPT_BATCH = 16  # default number of prompts per batch

Message = Mapping[str, Any]  # "role", with "content" or other fields
Prompt = str | Sequence[Message]


@dataclass(frozen=True)
class Sample:
    """A sampled text with its count and log-probabilities.

    Args:
        text: the text.
        count: number of times that it was sampled.
        logprob: natural log-probability under the full distribution of the model.
        truncated_logprob: log-probability under the truncated distribution that was sampled from.
        tokens: token ids; for `hf` they include the end-of-sequence token.
        length: number of tokens, if the tokens are not known.
        finish_reason: "stop", "length" and so on, if the sampler reports it.
        reasoning: the reasoning before the text, if the model separates it.
        model: name of the model, if the samples of a prompt are of several.
        weight: how much the sample counts as a reference, beside those of other models.
        lowest_logprob: mean log-probability of the least confident group of consecutive tokens.
        tail_logprob: that of the last tokens.
        certainty: self-certainty: of `hf` by the whole vocabulary, of servers by the likeliest
            tokens of every position; None if the model gives a token the probability 0.

    >>> Sample("Hello!", count=2).count
    2
    """

    text: str
    count: int = 1
    logprob: float | None = None
    truncated_logprob: float | None = None
    tokens: tuple[int, ...] = ()
    length: int | None = None
    finish_reason: str | None = None
    reasoning: str | None = None
    model: str | None = None
    weight: float = 1.0
    lowest_logprob: float | None = None
    tail_logprob: float | None = None
    certainty: float | None = None


class Samples(list[Sample]):
    """The samples of a prompt, with token usage and number drawn, if the sampler reports them."""

    def __init__(self, samples: Iterable[Sample] = (), usage: Mapping[str, int] | None = None,
                 drawn: int | None = None) -> None:
        super().__init__(samples)
        self.usage = usage  # "prompt_tokens" and "completion_tokens"
        self.drawn = drawn  # number of samples, including those without a text


INCOMPLETE = ("length", "content_filter")  # finish reasons of truncated texts


def finished_samples(samples: Iterable[Sample]) -> list[Sample]:
    """The samples that were not truncated; all of them if every one was."""
    drawn = list(samples)
    return [sample for sample in drawn if sample.finish_reason not in INCOMPLETE] or drawn


@dataclass
class TruncationCount:
    """Counts samples that were truncated at a token limit, and warns at powers of ten."""

    sampled: int = 0
    cut: int = 0
    _next: int = 1  # number of truncated samples at the next warning

    def add(self, samples: Iterable[Sample], limit: str) -> str | None:
        """Count samples; the warning to show, at the first and whenever there are 10 times more."""
        for sample in samples:
            self.sampled += sample.count
            self.cut += sample.count * (sample.finish_reason == "length")
        if self.cut < self._next:
            return None
        self._next = 10 ** len(str(self.cut))
        return Wording("{cut:,} of {sampled:,} samples so far were cut at {limit}; raise it for "
                       "complete samples", cut=self.cut, sampled=self.sampled, limit=limit)


def number_drawn(samples: Iterable[Sample]) -> int:
    """The number of samples that were drawn, including those that were left out."""
    drawn = samples.drawn if isinstance(samples, Samples) else None
    return sum(sample.count for sample in samples) if drawn is None else drawn


def usage_of(*parts: Iterable[Sample]) -> dict[str, int] | None:
    """The total token usage of these samples; None if it is not known for all of them."""
    total: Counter[str] = Counter()
    for samples in parts:
        if not isinstance(samples, Samples) or samples.usage is None:
            return None
        total.update(samples.usage)
    return dict(total)


class Request(Protocol):
    """A prompt and its position in the input, which together with the seed determines its samples.
    """

    @property
    def prompt(self) -> Prompt: ...

    @property
    def index(self) -> int: ...


AnyRequest = TypeVar("AnyRequest", bound=Request)
T = TypeVar("T")
SamplingResult = list[Sample] | MinriskError  # the result of a request


class Sampler(Options, ABC):
    """Generates n samples for each prompt.

    A sampler is a frozen dataclass whose fields are its options. It has a name and `sample`. Class
    variables or properties declare which prompts it accepts; other methods have defaults.

    >>> @dataclass(frozen=True)
    ... class Echo(Sampler):
    ...     name = "echo"
    ...     def sample(self, prompts, n, seed=0, indices=None):
    ...         return [[Sample(prompt, count=n)] for prompt in prompts]
    >>> Echo().sample(["Hello!"], n=8)
    [[Sample(text='Hello!', count=8, ...)]]
    >>> Echo().takes_messages, Echo().batch_size(8)
    (False, 16)
    """

    @property
    @abstractmethod
    def name(self) -> str: ...

    @property
    def takes_messages(self) -> bool:
        """Whether a prompt may be a chat, a list of messages."""
        return False

    @property
    def is_causal(self) -> bool:
        """Whether its model continues a prompt, and therefore needs an instruction."""
        return False

    @property
    def prompt(self) -> str | None:
        """The prompt template, with {source} for the source."""
        return None

    @property
    def vote(self) -> str | None:
        """The pattern of answers, if sampling stops once one answer has won the majority vote."""
        return None

    @property
    def is_random(self) -> bool:
        """Whether it samples at random; if so, samples that are all equal are reported."""
        return False

    @property
    def streams(self) -> bool:
        """Whether it implements `stream`, so that no prompt waits for the end of a batch."""
        return False

    def with_options(self, **changes: Any) -> Self:
        """The same sampler with other options; if possible, both share a loaded model.

        Raises:
            InputError: if there is no such option, or a value is wrong.
        """
        return changed_options(self, changes, self.name)

    def batch_size(self, n: int) -> int:
        """The preferred number of prompts per batch, for n samples of each."""
        return PROMPT_BATCH

    def prepare(self) -> None:
        """Import packages and load the model, so that errors appear before the first prompt."""

    @abstractmethod
    def sample(self, prompts: Sequence[Any], n: int, seed: int = 0,
               indices: Sequence[int] | None = None) -> list[list[Sample]]:
        """Generate n samples of each prompt; equal samples may be merged into one with a count.

        `indices` are the positions of the prompts in the input: together with the seed they
        determine the random stream of each prompt, so that samples do not depend on the batch.

        Raises:
            PartialError: if only some of the prompts failed.
        """

    def stream(self, requests: Iterable[AnyRequest], n: int,
               seed: int = 0) -> Generator[tuple[AnyRequest, SamplingResult]]:
        """Results of requests as they finish; requests are read as capacity becomes free.

        Results come in any order, each with its request; a result may be the error of its request.
        An error that affects all requests is raised as an `UnusableError`, after the results that
        have finished by then. Closing the generator (`contextlib.closing`) or an interrupt (Ctrl-C)
        cancels unfinished requests.
        """
        raise InputError(f"sampler {self.name!r} has no stream; use sample")


def changed_options(sampler: T, changes: Mapping[str, Any], name: str) -> T:
    """The sampler with these fields changed; the same object if nothing changes."""
    known = {f.name for f in fields(sampler)} if is_dataclass(sampler) else set()
    for option in changes:
        if option not in known:
            raise unknown(f"option of sampler {name!r},", option, known)
    changed: Any = sampler
    return replace(changed, **changes) if changes else sampler


def check_numbers(n: int, seed: int) -> None:
    """Check the number of samples and the seed."""
    checked("n", n, int, Bounds(ge=1))
    checked("seed", seed, int, Bounds(ge=0))


class PartialError(InputError):
    """An error of some prompts; `results` has the samples of the others."""

    def __init__(self, results: Sequence[SamplingResult]) -> None:
        super().__init__(next(r for r in results if isinstance(r, MinriskError)))
        self.results = results


# columns of the references, if there are separate ones
REFERENCE_COLUMNS = ("logprobs", "lengths", *CONFIDENCES.values())

_NUMBERS = {"logprob": "logprobs", "truncated_logprob": "truncated_logprobs", "length": "lengths",
            **CONFIDENCES}


def columns(samples: Iterable[Sample], repeat: bool = False,
            references: Iterable[Sample] | None = None) -> dict[str, Any]:
    """Columns of distinct texts with their counts, or of every single sample (`repeat`).

    Log-probabilities and other numbers are included if every sample has one, finish reasons if any
    is not "stop", reasoning if any sample has it, and the total usage if it is known. Samples of
    several models have their names, and the weights of these if they differ. With separate
    references, whose weights are their counts, log-probabilities and lengths are those of the
    references; those of the samples have names of their own.
    """
    fields = _own_columns(samples, repeat)
    if references is not None:
        others = _own_columns(references, repeat)
        fields = {f"sample_{name}" if name in REFERENCE_COLUMNS else name: values
                  for name, values in fields.items() if name != "weights"}
        fields["references"] = others["samples"]
        if not repeat or "weights" in others:
            ones = [1] * len(others["samples"])
            fields["weights"] = [count * weight for count, weight in zip(
                others.get("counts", ones), others.get("weights", ones), strict=True)]
        fields |= {name: others[name] for name in REFERENCE_COLUMNS if name in others}
    usage = usage_of(samples) if references is None else usage_of(samples, references)
    return fields if usage is None else fields | {"usage": usage}


def _own_columns(samples: Iterable[Sample], repeat: bool) -> dict[str, Any]:
    """The columns of samples without those of references."""
    rows = ([sample for sample in samples for _ in range(sample.count)] if repeat
            else distinct(samples))
    fields: dict[str, Any] = {"samples": [row.text for row in rows]}
    if not repeat:
        fields["counts"] = [row.count for row in rows]
    numbers: dict[str, list[Any]] = {
        plural: [getattr(row, name) for row in rows] for name, plural in _NUMBERS.items()}
    numbers["lengths"] = _lengths(rows)
    for plural, values in numbers.items():
        if None not in values and None not in (finite := [*map(finite_or_none, values)]):
            fields[plural] = finite
    if any(row.finish_reason not in (None, "stop") for row in rows):
        fields["finish_reasons"] = [row.finish_reason for row in rows]
    for name, plural, default in (("reasoning", "reasoning", None), ("model", "models", None),
                                  ("weight", "weights", 1)):
        values = [getattr(row, name) for row in rows]
        if any(value != default for value in values):
            fields[plural] = values
    return fields


def distinct(samples: Iterable[Sample]) -> list[Sample]:
    """Equal texts of a model merged into one sample, which keeps the highest log-probability."""
    rows: dict[tuple[str, str | None], Sample] = {}
    for sample in samples:
        key = sample.text, sample.model
        known = rows.get(key)
        rows[key] = sample if known is None else _merged(known, sample)
    return list(rows.values())


def _merged(one: Sample, other: Sample) -> Sample:
    likelier = max(one, other, key=lambda s: float("-inf") if s.logprob is None else s.logprob)
    return replace(likelier, count=one.count + other.count)


def _lengths(rows: Sequence[Sample]) -> list[int | None]:
    """Lengths in tokens; without tokens, a sample has length 0 if others have tokens."""
    by_tokens = any(row.tokens for row in rows)
    return [row.length if row.length is not None else len(row.tokens) if by_tokens else None
            for row in rows]
