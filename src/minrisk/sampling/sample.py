"""What a sampler returns, and what it must offer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from minrisk.errors import InputError, MinriskError

Message = Mapping[str, str]  # "role" and "content"
Prompt = str | Sequence[Message]


@dataclass(frozen=True)
class Sample:
    """A text that was drawn `count` times, with what the model thinks of it."""

    text: str
    count: int = 1
    logprob: float | None = None  # natural logarithm, under the whole model
    truncated_logprob: float | None = None  # under the distribution that was drawn from
    tokens: tuple[int, ...] = ()  # as drawn; those of `hf` include the one that ends the text
    finish_reason: str | None = None  # "stop", "length", ..., where the sampler tells


class Sampler(Protocol):
    """Draws n samples for each prompt.

    Equal samples may come as one with a count. `places` are the prompts' places in the whole
    input: with the seed they fix each prompt's random stream, so that the samples are the same in
    any batch.

    A sampler may also set `takes_messages = True` (a prompt may be a chat, a list of messages) and
    `is_causal = True` (its model has to be told what to do, and `prompt` may do so for all), have a
    method `batch_size(n)` (how many prompts it likes to get at a time), and raise
    `PartialError` where only some of the prompts failed.
    """

    @property
    def name(self) -> str: ...

    def sample(self, prompts: Sequence[str], n: int, seed: int = 0,
               places: Sequence[int] | None = None) -> list[list[Sample]]: ...


class PartialError(InputError):
    """Some prompts failed; the samples of the others are not lost."""

    def __init__(self, results: Sequence[list[Sample] | MinriskError]) -> None:
        super().__init__(next(r for r in results if isinstance(r, MinriskError)))
        self.results = results
