"""What a sampler returns, and what it must offer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True)
class Sample:
    """A text that was drawn `count` times, with what the model thinks of it."""

    text: str
    count: int = 1
    logprob: float | None = None  # natural logarithm, under the whole model
    truncated_logprob: float | None = None  # under the distribution that was drawn from
    tokens: tuple[int, ...] = ()


class Sampler(Protocol):
    """Draws n samples for each prompt.

    Equal samples may come as one with a count. `places` are the prompts' places in the whole
    input: with the seed they fix each prompt's random stream, so that the samples are the same in
    any batch.
    """

    @property
    def name(self) -> str: ...

    def sample(self, prompts: Sequence[str], n: int, seed: int = 0,
               places: Sequence[int] | None = None) -> list[list[Sample]]: ...
