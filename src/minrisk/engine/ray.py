"""A Ray cluster: Ray Data reads shards on its nodes and streams their blocks through actors.

Ray retries what dies with a worker or a node, holds back what nobody can take yet, and spills what
its object store cannot hold. Blocks come back in any order.
"""

from __future__ import annotations

import logging
import pickle
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from minrisk.engine.block import Block, Piece, Pieces
from minrisk.engine.cluster import connect
from minrisk.engine.crew import Crew
from minrisk.engine.reading import Reading
from minrisk.errors import InputError, MissingExtra
from minrisk.threads import threads

try:
    import ray
    import ray.data
except ImportError as missing:
    raise MissingExtra(f"--engine ray needs {missing.name}: pip install 'minrisk[ray]'") from None

_RETRIES = 3  # of a block whose worker or node died
_FED = 4  # workers that one reader keeps busy; it is a process, and dear to start
_Rows = dict[str, Any]  # one column of pickled pieces, for blocks of text are nothing to Ray


@dataclass(frozen=True)
class Ray:
    """The cluster at this address, or one on this machine for as long as it runs."""

    address: str | None = None
    memory: int = 1 << 30  # bytes of blocks that are on their way

    def staffed(self, crews: Sequence[Crew]) -> list[Crew]:
        """As many workers as the cluster has room for; of heavy ones without GPUs one a node."""
        self._connect(crews)
        found = [replace(crew, threads=crew.threads or 1) for crew in crews]
        rooms = [max(1, _room(crew)) for crew in found]
        return [replace(crew, workers=crew.workers or room)
                for crew, room in zip(found, rooms, strict=True)]

    def run(self, readings: Sequence[Reading], crews: Sequence[Crew]) -> Pieces:
        self._connect(crews)
        try:
            data = ray.data.from_items([{"piece": pickle.dumps(r)} for r in readings],
                                       override_num_blocks=len(readings))
            # without a processor of its own: where workers have all, it would wait for ever
            data = data.map_batches(_read, batch_size=1, num_cpus=0, concurrency=_readers(crews))
            for crew in crews:
                with warnings.catch_warnings():  # retries have no named parameter yet
                    warnings.filterwarnings("ignore", ".*ray_remote_args")
                    data = data.map_batches(
                        _Actor, fn_constructor_args=(crew,), batch_size=1, num_cpus=crew.threads,
                        num_gpus=crew.gpus, max_task_retries=_RETRIES,
                        compute=ray.data.ActorPoolStrategy(size=crew.workers))
            for rows in data.iter_batches(batch_size=None, prefetch_batches=0):
                yield from map(pickle.loads, rows["piece"])
        finally:
            ray.shutdown()

    def _connect(self, crews: Sequence[Crew]) -> None:
        if not connect(self.address, 1 + sum((c.workers or threads()) * (c.threads or 1)
                                             for c in crews)):
            return
        context = ray.data.DataContext.get_current()
        context.enable_progress_bars = False
        context.max_errored_blocks = -1  # we notice what is missing
        context.target_max_block_size = 1  # a block of ours is one of theirs
        context.execution_options.resource_limits = ray.data.ExecutionResources(
            object_store_memory=self.memory)
        logging.getLogger("ray.data").setLevel(logging.CRITICAL)


def _room(crew: Crew) -> int:
    there = ray.cluster_resources()
    if crew.gpus:
        room = int(there.get("GPU", 0) / crew.gpus)
        if not room:  # Ray would wait for ever
            raise InputError(f"no node has {crew.gpus:g} GPUs for a worker; the cluster has "
                             f"{there.get('GPU', 0):g} in all")
        return room
    if crew.stage.is_light:
        return int((there["CPU"] - 1) / (crew.threads or 1))  # one is for reading
    return sum(node["Alive"] for node in ray.nodes())


def _readers(crews: Sequence[Crew]) -> int:
    return max(1, sum(crew.workers or 1 for crew in crews) // _FED)


def _read(rows: _Rows) -> Iterator[_Rows]:
    for reading in map(pickle.loads, rows["piece"]):
        for piece in reading.blocks():
            yield {"piece": [pickle.dumps(piece)]}


class _Actor:
    def __init__(self, crew: Crew) -> None:
        self._crew = crew
        crew.prepare()

    def __call__(self, rows: _Rows) -> _Rows:
        return {"piece": [pickle.dumps(self._further(piece))
                          for piece in map(pickle.loads, rows["piece"])]}

    def _further(self, piece: Piece) -> Piece:
        return self._crew.work(piece) if isinstance(piece, Block) else piece
