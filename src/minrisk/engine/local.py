"""The processes of one machine: each has its models, and works on a block at a time."""

from __future__ import annotations

import os
import signal
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import replace
from glob import glob
from itertools import chain
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait

from minrisk.engine.block import Block, Piece, Pieces
from minrisk.engine.crew import Crew
from minrisk.engine.reading import Reading
from minrisk.errors import InputError, MinriskError
from minrisk.threads import threads

_ATTEMPTS = 2  # how often a block may bring its worker down
_VISIBLE = "CUDA_VISIBLE_DEVICES"
_SPAWN = get_context("spawn")  # a fork would copy threads and locks of native libraries


class Local:
    """Reads in this process, and works in others."""

    def staffed(self, crews: Sequence[Crew]) -> list[Crew]:
        """As many as there are GPUs for; without, where a worker is light, a core each, or else one
        that has them all.
        """
        cores = threads()
        found = [replace(crew, workers=crew.workers or _workers(crew, cores)) for crew in crews]
        _check_gpus(found)
        each = max(1, cores // sum(crew.workers or 1 for crew in found))
        return [replace(crew, threads=crew.threads or each) for crew in found]

    def run(self, readings: Sequence[Reading], crews: Sequence[Crew]) -> Pieces:
        pieces: Iterator[Piece] = chain.from_iterable(reading.blocks() for reading in readings)
        for crew in crews:
            pieces = _through(crew, pieces)
        yield from pieces


def _workers(crew: Crew, cores: int) -> int:
    if crew.gpus:
        return int(_gpus() / crew.gpus)
    return max(1, cores // (crew.threads or 1)) if crew.stage.is_light else 1


def _check_gpus(crews: Sequence[Crew]) -> None:
    """A worker without its own would compute elsewhere, slowly, and in other last digits."""
    for crew in crews:
        if crew.gpus and not 0 < (crew.workers or 0) * crew.gpus <= _gpus():
            raise InputError(f"this machine has {_gpus()} NVIDIA GPUs, too few for "
                             f"{crew.workers or 1} workers with {crew.gpus:g} each")


def _gpus() -> int:
    given = os.environ.get(_VISIBLE)
    if given is None:
        return len(glob("/dev/nvidia[0-9]*"))
    return len([device for device in given.split(",") if device])


def _through(crew: Crew, pieces: Iterator[Piece]) -> Iterator[Piece]:
    """What the crew makes of the blocks, as they are done; no more is read than it can take."""
    workers = [_Worker(crew, number) for number in range(crew.workers or 1)]
    try:
        for piece in pieces:
            if isinstance(piece, Block):
                while not (free := [worker for worker in workers if worker.is_free]):
                    yield from _finished(workers)
                free[0].begin(piece)
            else:
                yield piece
        while busy := [worker for worker in workers if not worker.is_free]:
            yield from _finished(busy)
    finally:
        for worker in workers:
            worker.stop()


def _finished(workers: Sequence[_Worker]) -> Iterator[Piece]:
    """Waits until there is something."""
    ready = wait([worker.connection for worker in workers])
    for worker in workers:
        if worker.connection in ready:
            yield from worker.finish()


class _Worker:
    """A process, and the blocks that it still owes us."""

    def __init__(self, crew: Crew, number: int) -> None:
        self._crew = crew
        self._number = number
        self._blocks: deque[Block] = deque()
        self._failures = 0  # of the first block
        self._start()

    @property
    def is_free(self) -> bool:
        return not self._blocks

    def begin(self, block: Block) -> None:
        self._blocks.append(block)
        self._send()

    def finish(self) -> Iterator[Piece]:
        """The result of the first block; if the process died instead, perhaps nothing yet."""
        try:
            result: Piece = self.connection.recv()
        except (EOFError, OSError):
            yield from self._died()
        else:
            self._blocks.popleft()
            self._failures = 0
            yield result
        if self._blocks:
            self._send()

    def stop(self) -> None:
        if self._blocks:
            self._process.kill()
        self.connection.close()
        self._process.join()

    def _start(self) -> None:
        self.connection, theirs = _SPAWN.Pipe()
        self._process = _SPAWN.Process(target=_serve, args=(self._crew, self._number, theirs),
                                       daemon=True)
        self._process.start()
        theirs.close()

    def _send(self) -> None:
        try:
            self.connection.send(self._blocks[0])
        except OSError:  # it died while it had nothing to do
            self._start()
            self.connection.send(self._blocks[0])

    def _died(self) -> Iterator[Piece]:
        """Another process tries again: the whole block, each segment alone, then none."""
        self._process.join()
        code = self._process.exitcode
        if code is not None and code >= 0:
            raise MinriskError("a worker failed, for the reason above; everything that was "
                               "finished is kept")
        self._start()
        self._failures += 1
        if self._failures < _ATTEMPTS:
            return
        block = self._blocks.popleft()
        self._failures = 0
        if len(block.items) > 1:
            self._blocks.extendleft(reversed(list(block.singles())))
        else:
            name = signal.Signals(-code).name if code else ""
            yield self._crew.refuse(block, f"the worker was ended by {name}, {_ATTEMPTS} times")


def _serve(crew: Crew, number: int, connection: Connection) -> None:
    """What a worker does until its employer is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # which is for the employer to answer
    os.environ.setdefault("OMP_NUM_THREADS", str(crew.threads))
    if crew.gpus:
        os.environ[_VISIBLE] = _devices(number, crew.gpus)
    crew.prepare()
    while True:
        try:
            connection.send(crew.work(connection.recv()))
        except (EOFError, ConnectionError):
            return


def _devices(number: int, gpus: float) -> str:
    """The share of the devices that is this worker's; several may share one."""
    given = os.environ.get(_VISIBLE)
    first = int(number * gpus)
    ours = range(first, max(first + 1, int((number + 1) * gpus)))
    return ",".join(given.split(",")[i] if given else str(i) for i in ours)
