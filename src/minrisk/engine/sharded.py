"""`minrisk.decode_shards`: from references in shards to a ranking, in one call."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Literal

from minrisk.decoding import MetricLike, StrategyLike, add_texts, chosen_strategy
from minrisk.engine.gathering import Workers, gather, processes
from minrisk.engine.ray_gathering import on_ray
from minrisk.errors import InputError
from minrisk.references import References, Shard
from minrisk.segment import Ranking, Segment
from minrisk.shards import Question, TakesParts
from minrisk.strategy import Strategy

Engine = Literal["local", "ray"]


def decode_shards(
    hypotheses: Sequence[str],
    shards: Iterable[Sequence[str] | Shard],
    source: str | None = None,
    *,
    metric: MetricLike | None = None,
    strategy: StrategyLike | None = None,
    workers: int | None = None,
    engine: Engine = "local",
    address: str | None = None,
    gpus_per_worker: float = 0,
    **options: Any,
) -> Ranking:
    """Rank hypotheses by references that come in shards, of which only some are held at a time.

    A shard is a list of texts, `References` with weights, or a `ReferenceFile`, which its worker
    reads. Workers are processes of this machine, of which this is the only one unless
    told otherwise, or tasks on Ray. Metric, strategy and options are those of `decode`.

    Utilities are those of `decode` but for rounding, because sums are taken in another order; how
    many workers there are changes no bit of them.
    """
    chosen = chosen_strategy(strategy, metric, options, "aggregate")
    question = Question(taking_parts(chosen), Segment(hypotheses, source=source))
    found = workers_of(engine, workers, address, gpus_per_worker)
    ranking = question.ranking(gather(question, _tiles(shards), found))
    return add_texts(ranking, question.segment, chosen)


def taking_parts(strategy: Strategy) -> TakesParts:
    if not isinstance(strategy, TakesParts):
        raise InputError(f"strategy {strategy.name!r} needs all references at once; "
                         "for shards of them, choose aggregate or standard")
    return strategy


def workers_of(engine: Engine, workers: int | None, address: str | None,
               gpus_per_worker: float) -> Workers:
    if workers is not None and workers < 1:
        raise InputError(f"{workers} workers; at least one is wanted")
    if engine == "ray":
        return on_ray(address, workers, gpus_per_worker)
    if address is not None or gpus_per_worker:
        raise InputError("an address, or GPUs for each worker, go with the engine 'ray'")
    return processes(workers or 1)


def _tiles(shards: Iterable[Sequence[str] | Shard]) -> Iterator[Shard]:
    """What is in memory is cut, so that there is work for all in one large shard too."""
    for number, shard in enumerate(shards, 1):
        found = shard if isinstance(shard, Shard) else References(shard, name=f"shard {number}")
        yield from found.blocks() if isinstance(found, References) else [found]
