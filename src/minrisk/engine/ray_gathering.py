"""Shards read by workers on a Ray cluster, which starts a task again when its node dies."""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator
from functools import partial
from types import ModuleType
from typing import Any

from minrisk.engine.gathering import AHEAD, Workers, in_order, part_of
from minrisk.errors import MinriskError
from minrisk.references import Shard
from minrisk.shards import Part, Question


def on_ray(address: str | None = None, count: int | None = None, gpus: float = 0) -> Workers:
    """Tasks with a core each on the cluster at this address, or on one of this machine's own."""
    return partial(_on_ray, address=address, count=count, gpus=gpus)


def _on_ray(question: Question, shards: Iterable[Shard], address: str | None, count: int | None,
            gpus: float) -> Iterator[Part]:
    from minrisk.engine.cluster import connect, ray

    started = connect(address, count)
    try:
        task = ray.remote(part_of).options(num_gpus=gpus)
        pickled = pickle.dumps(question)
        ahead = AHEAD * (count or int(ray.cluster_resources().get("CPU", 1)))
        yield from in_order(lambda shard: partial(_result, ray, task.remote(pickled, 1, shard)),
                            shards, ahead)
    finally:
        if started:
            ray.shutdown()


def _result(ray: ModuleType, task: Any) -> Part:
    try:
        part: Part = ray.get(task)
    except ray.exceptions.RayTaskError as error:
        raise error.cause if isinstance(error.cause, MinriskError) else error from None
    except ray.exceptions.RayError as error:
        raise MinriskError(f"a worker on Ray failed: {error}") from None
    return part
