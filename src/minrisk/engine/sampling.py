"""Prompts stream through a sampler in batches, and come out in input order."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, Protocol, TypeVar

from minrisk.engine.batches import BATCH, OnError, attempt, batches, is_out_of_memory, placed
from minrisk.errors import InputError, MinriskError
from minrisk.io.prompts import Asked
from minrisk.sampling.sample import PartialError, Prompt, Sample, Sampler


class Item(Protocol):
    """A prompt and its place in the input; or the reason why there is none."""

    @property
    def prompt(self) -> Prompt | InputError: ...

    @property
    def index(self) -> int: ...

    @property
    def where(self) -> str: ...


T = TypeVar("T", bound=Item)
Drawn = list[Sample] | MinriskError


def draw(sampler: Sampler, items: Iterable[T], n: int, seed: int = 0,
         batch_size: int | None = None,
         on_error: OnError = "stop") -> Iterator[tuple[T, Drawn]]:
    """Each item with its samples, or with its error.

    If errors are to stop it, the first is raised when the batch it came from is out: the samples
    of the others were paid for.
    """
    items = items if on_error == "skip" else _until_bad(items)
    for batch in batches(items, batch_size or batch_size_for(sampler, n)):
        results = _draw(sampler, batch, n, seed, on_error)
        yield from zip(batch, results, strict=True)
        for result in results if on_error == "stop" else ():
            if isinstance(result, MinriskError):
                raise result


def instructed(asked: Iterable[Asked], sampler: Sampler) -> Iterator[Asked]:
    """Fails what is not to be sampled from: a model that writes on would write on a bare source."""
    causal = getattr(sampler, "is_causal", False) and getattr(sampler, "prompt", None) is None
    for item in asked:
        if causal and item.is_source and not isinstance(item.prompt, InputError):
            yield replace(item, prompt=InputError(
                f"{item.where}: the model does not know what to do with a source; say so with "
                '--prompt "Translate into French: {source}"'))
        else:
            yield item


def _until_bad(items: Iterable[T]) -> Iterator[T]:
    for item in items:
        if isinstance(item.prompt, InputError):
            raise item.prompt
        yield item


def batch_size_for(sampler: Sampler, n: int) -> int:
    """How many prompts it likes to get at a time."""
    chosen = getattr(sampler, "batch_size", None)
    return chosen(n) if chosen else BATCH


def _draw(sampler: Sampler, batch: Sequence[T], n: int, seed: int, on_error: str) -> list[Drawn]:
    def is_worth(error: Exception) -> bool:
        """What failed as a whole was paid for; a smaller batch would cost as much again."""
        return on_error == "skip" or is_out_of_memory(error)

    def work(items: Sequence[T]) -> Sequence[Drawn]:
        return _sample(sampler, items, n, seed)

    good = [item for item in batch if not isinstance(item.prompt, InputError)]
    drawn = iter(attempt(work, good, lambda item, error: placed(item.where, error), is_worth))
    return [item.prompt if isinstance(item.prompt, InputError) else next(drawn) for item in batch]


def _sample(sampler: Sampler, items: Sequence[T], n: int, seed: int) -> Sequence[Drawn]:
    takes_messages = getattr(sampler, "takes_messages", False)
    for item in items:
        if not takes_messages and not isinstance(item.prompt, str):
            raise InputError(f"{item.where}: found messages, which sampler {sampler.name!r} "
                             "does not take; wanted a source or a prompt")
    prompts: list[Any] = [item.prompt for item in items]  # strings, or what was checked above
    try:
        return sampler.sample(prompts, n, seed, [item.index for item in items])
    except PartialError as error:
        return [placed(item.where, r) if isinstance(r, MinriskError) else r
                for item, r in zip(items, error.results, strict=True)]
