"""Shards read by workers on a Ray cluster, which starts a task again when its node dies."""

from __future__ import annotations

import os
import pickle
from collections.abc import Iterable, Iterator
from functools import partial
from types import ModuleType
from typing import Any

from minrisk.engine.gathering import AHEAD, Workers, in_order, part_of
from minrisk.errors import MinriskError, MissingExtra
from minrisk.references import Shard
from minrisk.shards import Part, Question


def on_ray(address: str | None = None, count: int | None = None, gpus: float = 0) -> Workers:
    """Tasks with a core each on the cluster at this address, or on one of this machine's own."""
    return partial(_on_ray, address=address, count=count, gpus=gpus)


def _on_ray(question: Question, shards: Iterable[Shard], address: str | None, count: int | None,
            gpus: float) -> Iterator[Part]:
    ray = _ray()
    started = not ray.is_initialized()
    if started:
        _start(ray, address, count)
    try:
        task = ray.remote(part_of).options(num_gpus=gpus)
        pickled = pickle.dumps(question)
        ahead = AHEAD * (count or int(ray.cluster_resources().get("CPU", 1)))
        yield from in_order(lambda shard: partial(_result, ray, task.remote(pickled, 1, shard)),
                            shards, ahead)
    finally:
        if started:
            ray.shutdown()


def _ray() -> ModuleType:
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    try:
        import ray
    except ImportError:
        raise MissingExtra("the engine 'ray' needs ray: pip install 'minrisk[ray]'") from None
    found: ModuleType = ray
    return found


def _start(ray: ModuleType, address: str | None, count: int | None) -> None:
    own = {"num_cpus": count, "include_dashboard": False} if address is None else {}
    try:
        ray.init(address or "local", log_to_driver=False, logging_level="ERROR", **own)
    except (ConnectionError, RuntimeError, ValueError) as error:
        raise MinriskError(f"no Ray cluster at {address or 'this machine'}: {error}; "
                           "start one with `ray start`, or check --address") from None


def _result(ray: ModuleType, task: Any) -> Part:
    try:
        part: Part = ray.get(task)
    except ray.exceptions.RayTaskError as error:
        raise error.cause if isinstance(error.cause, MinriskError) else error from None
    except ray.exceptions.RayError as error:
        raise MinriskError(f"a worker on Ray failed: {error}") from None
    return part
