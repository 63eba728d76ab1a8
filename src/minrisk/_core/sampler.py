"""What a sampler returns, and what it must offer."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from minrisk._core.errors import InputError, MinriskError

Message = Mapping[str, Any]  # "role", and "content" or what else the role has
Prompt = str | Sequence[Message]


@dataclass(frozen=True)
class Sample:
    """A text that was drawn `count` times, with what the model thinks of it."""

    text: str
    count: int = 1
    logprob: float | None = None  # natural logarithm, under the whole model
    truncated_logprob: float | None = None  # under the distribution that was drawn from
    tokens: tuple[int, ...] = ()  # as drawn; those of `hf` include the one that ends the text
    length: int | None = None  # in tokens, where they are not known themselves
    finish_reason: str | None = None  # "stop", "length", ..., where the sampler tells
    reasoning: str | None = None  # what the model wrote before the text, and apart from it


class Samples(list[Sample]):
    """The samples of a prompt, and the tokens that they took, where the sampler tells."""

    def __init__(self, samples: Iterable[Sample] = (),
                 usage: Mapping[str, int] | None = None) -> None:
        super().__init__(samples)
        self.usage = usage  # "prompt_tokens" and "completion_tokens"


class Request(Protocol):
    """A prompt, and its place in the whole input, which with the seed fixes its samples."""

    @property
    def prompt(self) -> Prompt: ...

    @property
    def index(self) -> int: ...


AnyRequest = TypeVar("AnyRequest", bound=Request)
Result = list[Sample] | MinriskError  # of a request


class Sampler(Protocol):
    """Draws n samples for each prompt.

    Equal samples may come as one with a count. `places` are the prompts' places in the whole
    input: with the seed they fix each prompt's random stream, so that the samples are the same in
    any batch.

    A sampler may also set `takes_messages = True` (a prompt may be a chat, a list of messages) and
    `is_causal = True` (its model has to be told what to do, and `prompt` may do so for all), have a
    method `batch_size(n)` (how many prompts it likes to get at a time), and raise
    `PartialError` where only some of the prompts failed. One that need not wait for the end of a
    batch is a `StreamingSampler` as well.
    """

    @property
    def name(self) -> str: ...

    def sample(self, prompts: Sequence[str], n: int, seed: int = 0,
               places: Sequence[int] | None = None) -> list[list[Sample]]: ...


class StreamingSampler(Sampler, Protocol):
    """A sampler that takes requests as it has capacity, and gives results as they finish.

    Results come in any order, each with its request; an error is that of its request alone. What
    concerns all requests is raised, an `UnusableError`, after what has finished by then. To close
    the iterator (`contextlib.closing`) or to interrupt it (Ctrl-C) cancels what is not finished.
    """

    def stream(self, requests: Iterable[AnyRequest], n: int,
               seed: int = 0) -> Iterator[tuple[AnyRequest, Result]]: ...


class PartialError(InputError):
    """Some prompts failed; the samples of the others are not lost."""

    def __init__(self, results: Sequence[Result]) -> None:
        super().__init__(next(r for r in results if isinstance(r, MinriskError)))
        self.results = results
