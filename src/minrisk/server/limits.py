"""Limits of the samples drawn at a time, and of the requests that wait for them."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar

from minrisk.server.errors import ApiError

_RETRY_AFTER = {"retry-after": "1"}
_admission: ContextVar[Admission | None] = ContextVar("admission", default=None)  # of this request


class SampleLimit:
    """A semaphore over samples, first come first served, and a bounded queue of requests.

    It is for one event loop, and needs no lock.
    """

    def __init__(self, capacity: int, queue: int) -> None:
        self._capacity = self._free = capacity
        self._queue = queue
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()
        self.requests_waiting = 0

    @property
    def in_use(self) -> int:
        """Samples that are being drawn."""
        return self._capacity - self._free

    @contextmanager
    def admission(self) -> Iterator[None]:
        """Admit a request, which is counted as waiting until its first sample starts."""
        is_busy = self._free == 0 or bool(self._waiting)
        if is_busy and self.requests_waiting >= self._queue:
            raise ApiError(429, f"{self.requests_waiting} requests are waiting already; "
                           "try again later", code="queue_full", headers=_RETRY_AFTER)
        admission = Admission(self)
        token = _admission.set(admission)
        try:
            yield
        finally:
            _admission.reset(token)
            admission.end()

    @asynccontextmanager
    async def hold(self, samples: int) -> AsyncIterator[None]:
        """Occupy room for samples while they are drawn; at most the whole capacity."""
        size = min(samples, self._capacity)
        await self._acquire(size)
        if admission := _admission.get():
            admission.end()
        try:
            yield
        finally:
            self._release(size)

    async def _acquire(self, size: int) -> None:
        if not self._waiting and self._free >= size:
            self._free -= size
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        entry = (size, turn)
        self._waiting.append(entry)
        try:
            await turn
        except asyncio.CancelledError:
            if not turn.cancelled():  # its turn came at the same moment
                self._release(size)
            elif entry in self._waiting:
                self._waiting.remove(entry)
                self._wake()  # the next one may be smaller
            raise

    def _release(self, size: int) -> None:
        self._free += size
        self._wake()

    def _wake(self) -> None:
        while self._waiting and self._waiting[0][0] <= self._free:
            size, turn = self._waiting.popleft()
            if not turn.done():
                self._free -= size
                turn.set_result(None)


class Admission:
    """The place of a request in the queue."""

    def __init__(self, limit: SampleLimit) -> None:
        self._limit = limit
        self._is_waiting = True
        limit.requests_waiting += 1

    def end(self) -> None:
        """End the wait: the first sample has started, or the request was cancelled."""
        if self._is_waiting:
            self._is_waiting = False
            self._limit.requests_waiting -= 1
