"""Segments stream through a strategy in batches, and come out in input order."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol, TypeVar

from minrisk.engine.batches import OnError, attempt, batches, is_out_of_memory, placed
from minrisk.errors import InputError, MinriskError
from minrisk.segment import Ranking, Segment
from minrisk.strategy import Strategy, batch_size_of


class Item(Protocol):
    """A segment and where it came from; or the reason why there is none."""

    @property
    def segment(self) -> Segment | InputError: ...

    @property
    def where(self) -> str: ...


T = TypeVar("T", bound=Item)
Ranked = Ranking | MinriskError


def run(strategy: Strategy, items: Iterable[T], batch_size: int | None = None,
        on_error: OnError = "stop") -> Iterator[tuple[T, Ranked]]:
    """Each item with its ranking, or with its error if errors are to be skipped.

    Otherwise the first error is raised, after everything before it has come out.
    """
    for batch in batches(items, batch_size or batch_size_of(strategy)):
        for item, result in _rank(strategy, batch, on_error):
            if on_error == "stop" and isinstance(result, MinriskError):
                raise result
            yield item, result


def _rank(strategy: Strategy, batch: Sequence[T], on_error: str) -> Iterator[tuple[T, Ranked]]:
    def is_worth(error: Exception) -> bool:
        return (on_error == "skip" or isinstance(error, MinriskError) or is_out_of_memory(error))

    def work(items: Sequence[T]) -> Sequence[Ranked]:
        return strategy.rank([item.segment for item in items
                              if not isinstance(item.segment, InputError)])

    good = [item for item in batch if not isinstance(item.segment, InputError)]
    ranked = iter(attempt(work, good, lambda item, error: placed(item.where, error), is_worth))
    for item in batch:
        yield item, item.segment if isinstance(item.segment, InputError) else next(ranked)
