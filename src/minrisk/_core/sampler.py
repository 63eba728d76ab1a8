"""What a sampler returns, what it must do, and what it may be able to do."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from minrisk._core.errors import InputError, MinriskError
from minrisk._core.options import Bounds, Options, checked

PROMPT_BATCH = 16  # prompts, where a sampler does not prefer another number

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


class Sampler(Options, ABC):
    """Draws n samples for each prompt.

    A sampler is a frozen dataclass whose fields are its options. It has a name and `sample`, and
    declares the rest: class variables or properties that say what prompts it takes, and methods
    with defaults.

    >>> from typing import ClassVar
    >>> @dataclass(frozen=True)
    ... class Echo(Sampler):
    ...     name: ClassVar[str] = "echo"
    ...     def sample(self, prompts, n, seed=0, places=None):
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
        """Whether its model continues a prompt, and so needs an instruction beside a source."""
        return False

    @property
    def prompt(self) -> str | None:
        """The template, with {source} in it, that gives every source an instruction."""
        return None

    @property
    def streams(self) -> bool:
        """Whether it has `stream`, so that no prompt waits for the end of a batch."""
        return False

    def batch_size(self, n: int) -> int:
        """The number of prompts that it is best given at a time, for n samples of each."""
        return PROMPT_BATCH

    def prepare(self) -> None:
        """Load what sampling needs, so that what is missing is found before the first prompt."""

    @abstractmethod
    def sample(self, prompts: Sequence[Any], n: int, seed: int = 0,
               places: Sequence[int] | None = None) -> list[list[Sample]]:
        """n samples of each prompt; equal samples may come as one with a count.

        `places` are the prompts' places in the whole input: with the seed they fix each prompt's
        random stream, so that the samples are the same in any batch.

        Raises:
            PartialError: where only some of the prompts failed.
        """

    def stream(self, requests: Iterable[AnyRequest], n: int,
               seed: int = 0) -> Generator[tuple[AnyRequest, Result]]:
        """Results as they finish, of requests that are taken as there is capacity.

        They come in any order, each with its request; an error is that of its request alone. What
        concerns all requests is raised, an `UnusableError`, after what has finished by then. To
        close the generator (`contextlib.closing`) or to interrupt it (Ctrl-C) cancels what is not
        finished.
        """
        raise InputError(f"sampler {self.name!r} has no stream; use sample")


def check_numbers(n: int, seed: int) -> None:
    """How many samples, and with which seed: the same for every sampler."""
    checked("n", n, int, Bounds(ge=1))
    checked("seed", seed, int, Bounds(ge=0))


class PartialError(InputError):
    """Some prompts failed; the samples of the others are not lost."""

    def __init__(self, results: Sequence[Result]) -> None:
        super().__init__(next(r for r in results if isinstance(r, MinriskError)))
        self.results = results
