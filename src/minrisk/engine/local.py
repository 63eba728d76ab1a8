"""One process: segments stream through in batches, and come out in input order."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Literal, Protocol, TypeVar

from minrisk.errors import InputError, MinriskError
from minrisk.segment import Ranking, Segment
from minrisk.strategy import Strategy

BATCH = 16  # segments, where a metric gains from seeing several at once


class Item(Protocol):
    """A segment and where it came from; or the reason why there is none."""

    @property
    def segment(self) -> Segment | InputError: ...

    @property
    def where(self) -> str: ...


T = TypeVar("T", bound=Item)
U = TypeVar("U")


def run(strategy: Strategy, items: Iterable[T], batch_size: int | None = None,
        on_error: Literal["stop", "skip"] = "stop") -> Iterator[tuple[T, Ranking | MinriskError]]:
    """Each item with its ranking, or with its error if errors are to be skipped.

    Otherwise the first error is raised, after everything before it has come out.
    """
    for batch in batches(items, batch_size or _batch_size(strategy)):
        for item, result in _rank(strategy, batch):
            if on_error == "stop" and isinstance(result, MinriskError):
                raise result
            yield item, result


def _batch_size(strategy: Strategy) -> int:
    metric = getattr(strategy, "metric", None)
    return 1 if getattr(metric, "features_per_segment", False) else BATCH


def batches(items: Iterable[U], size: int) -> Iterator[list[U]]:
    """Lists of so many; if the items break off with an error, it comes after the last of them."""
    batch: list[U] = []
    broken: MinriskError | None = None
    try:
        for item in items:
            batch.append(item)
            if len(batch) == size:
                yield batch
                batch = []
    except MinriskError as error:
        broken = error  # an input that breaks off: what came before it is still good
    if batch:
        yield batch
    if broken:
        raise broken


def _rank(strategy: Strategy, batch: Sequence[T]) -> Iterator[tuple[T, Ranking | MinriskError]]:
    good = [item.segment for item in batch if isinstance(item.segment, Segment)]
    try:
        rankings = iter(strategy.rank(good)) if good else iter(())
    except MinriskError:
        # one at a time, so that the error is told of its segment and the others survive
        yield from ((item, _rank_one(strategy, item)) for item in batch)
        return
    for item in batch:
        yield item, item.segment if isinstance(item.segment, MinriskError) else next(rankings)


def _rank_one(strategy: Strategy, item: Item) -> Ranking | MinriskError:
    if isinstance(item.segment, MinriskError):
        return item.segment
    try:
        return strategy.rank([item.segment])[0]
    except MinriskError as error:
        return InputError(f"{item.where}: {error}")
