"""Prompts stream through a sampler in batches, and come out in input order."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Literal, Protocol, TypeVar

from minrisk.engine.local import BATCH, batches
from minrisk.errors import InputError, MinriskError
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
         on_error: Literal["stop", "skip"] = "stop") -> Iterator[tuple[T, Drawn]]:
    """Each item with its samples, or with its error.

    If errors are to stop it, the first is raised when the batch it came from is out: the samples
    of the others were paid for.
    """
    items = items if on_error == "skip" else _until_bad(items)
    for batch in batches(items, batch_size or _batch_size(sampler, n)):
        results = _draw(sampler, batch, n, seed, on_error)
        yield from zip(batch, results, strict=True)
        for result in results if on_error == "stop" else ():
            if isinstance(result, MinriskError):
                raise result


def _until_bad(items: Iterable[T]) -> Iterator[T]:
    for item in items:
        if isinstance(item.prompt, InputError):
            raise item.prompt
        yield item


def _batch_size(sampler: Sampler, n: int) -> int:
    chosen = getattr(sampler, "batch_size", None)
    return chosen(n) if chosen else BATCH


def _draw(sampler: Sampler, batch: Sequence[T], n: int, seed: int, on_error: str) -> list[Drawn]:
    good = [item for item in batch if not isinstance(item.prompt, InputError)]
    try:
        drawn = iter(_sample(sampler, good, n, seed))
    except MinriskError:
        if on_error == "stop":
            raise
        # one at a time, so that the error is told of its prompt and the others survive
        drawn = iter([_sample_one(sampler, item, n, seed) for item in good])
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
        return [_placed(item, r) for item, r in zip(items, error.results, strict=True)]


def _sample_one(sampler: Sampler, item: T, n: int, seed: int) -> Drawn:
    try:
        return _sample(sampler, [item], n, seed)[0]
    except MinriskError as error:
        return _placed(item, error)


def _placed(item: Item, result: Drawn) -> Drawn:
    return InputError(f"{item.where}: {result}") if isinstance(result, MinriskError) else result
