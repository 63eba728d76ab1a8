"""Sampling for a request: the queue, the deadline, and early stopping of votes."""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from minrisk._core.errors import MinriskError
from minrisk._core.vote import Vote
from minrisk.openai.background import cancel_all
from minrisk.openai.completions import CompletionResponse
from minrisk.openai.errors import error_response
from minrisk.openai.responses import Choice
from minrisk.server.choosing import Candidate, Votes
from minrisk.server.executor import RankingExecutor
from minrisk.server.requests import ClientRequest
from minrisk.server.responses import NO_RETRY, ApiError, CompletionFormat, upstream_error
from minrisk.server.settings import Settings

if TYPE_CHECKING:
    from minrisk.server.backends import Backend

_RETRY_AFTER = {"retry-after": "1"}
_MAX_COUNTING = 1.0  # seconds that the next wave of samples waits for votes to be counted
_LOOK = 0.005  # seconds between two looks for room that other processes give back
_MAX_EVENTS = 64  # buffered stream events before a slow client causes backpressure
_TRANSIENT = {408, 425, 429}  # client-error statuses that a retry may resolve


class ReportPart(Protocol):
    """Called with a part or its error, its number of choices and, of several, its upstream.

    Several upstreams also report, with None, samples that have not come when they are cancelled.
    """

    def __call__(self, found: CompletionResponse | MinriskError | None, samples: int,
                 upstream: str | None = None) -> None: ...


class Load:
    """The samples that a process draws, and its requests that wait for their first sample."""

    is_shared = False  # with other processes

    def __init__(self) -> None:
        self._in_use = self._waiting = 0

    @property
    def in_use(self) -> int:
        return self._in_use

    @property
    def waiting(self) -> int:
        return self._waiting

    def take(self, size: int, capacity: int) -> bool:
        """Count further samples if there is room for them."""
        is_free = self._in_use + size <= capacity
        self._in_use += size if is_free else 0
        return is_free

    def give(self, size: int) -> None:
        """Give back the room of samples."""
        self._in_use -= size

    def wait(self, requests: int) -> None:
        """Count further requests that wait."""
        self._waiting += requests


class SampleLimit:
    """A fair semaphore over samples, with a bounded queue of requests.

    It belongs to one event loop. If other processes share its counts, their requests and those of
    this one take turns as they come; each process keeps the order of its own.
    """

    def __init__(self, capacity: int, queue: int, counts: Load | None = None) -> None:
        self._capacity = capacity
        self._queue = queue
        self._counts = counts or Load()
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()
        self._look: asyncio.TimerHandle | None = None  # for room that other processes give back

    @property
    def in_use(self) -> int:
        """Number of samples being drawn."""
        return self._counts.in_use

    @property
    def requests_waiting(self) -> int:
        return self._counts.waiting

    @property
    def counts(self) -> Load:
        return self._counts

    @contextmanager
    def admission(self) -> Iterator[Admission]:
        """Admit a request; it counts as waiting until its first sample starts."""
        is_busy = self.in_use >= self._capacity or bool(self._waiting)
        if is_busy and self.requests_waiting >= self._queue:
            raise ApiError(429, f"{self.requests_waiting} requests are waiting already; "
                           "try again later", code="queue_full", headers=_RETRY_AFTER)
        admission = Admission(self)
        try:
            yield admission
        finally:
            admission.end()

    @asynccontextmanager
    async def hold(self, samples: int, begin: Callable[[], None] = lambda: None
                   ) -> AsyncIterator[None]:
        """Hold capacity for samples while they are drawn; at most the whole capacity."""
        size = min(samples, self._capacity)
        await self._acquire(size)
        begin()
        try:
            yield
        finally:
            self._release(size)

    async def _acquire(self, size: int) -> None:
        if not self._waiting and self._counts.take(size, self._capacity):
            return
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        entry = (size, waiter)
        self._waiting.append(entry)
        self._look_later()
        try:
            await waiter
        except asyncio.CancelledError:
            if not waiter.cancelled():  # capacity was granted just before the cancellation
                self._release(size)
            elif entry in self._waiting:
                self._waiting.remove(entry)
                self._wake()  # the next entry may be smaller and fit now
            raise

    def _release(self, size: int) -> None:
        self._counts.give(size)
        self._wake()

    def _wake(self) -> None:
        while self._waiting:
            size, waiter = self._waiting[0]
            if not waiter.done():
                if not self._counts.take(size, self._capacity):
                    break
                waiter.set_result(None)
            self._waiting.popleft()
        self._look_later()

    def _look_later(self) -> None:
        """Look again soon if other processes may give back room."""
        if self._look is not None:
            self._look.cancel()
        self._look = (asyncio.get_running_loop().call_later(_LOOK, self._wake)
                      if self._waiting and self._counts.is_shared else None)


class Admission:
    """The place of a request in the queue, until its first sample starts."""

    def __init__(self, limit: SampleLimit) -> None:
        self._limit = limit
        self._is_waiting = True
        limit.counts.wait(1)

    def hold(self, samples: int) -> AbstractAsyncContextManager[None]:
        """Hold capacity for samples of the request while they are drawn."""
        return self._limit.hold(samples, self.end)

    def end(self) -> None:
        """Leave the queue: the first sample has started, or the request has ended."""
        if self._is_waiting:
            self._is_waiting = False
            self._limit.counts.wait(-1)


@dataclass
class SampleCollector:
    """The samples of a request that have arrived so far."""

    request: ClientRequest
    vote: Vote | None = None
    find_votes: Callable[[Sequence[Choice], Votes], Awaitable[Votes]] | None = None
    parts: list[CompletionResponse] = field(default_factory=list)
    errors: list[MinriskError] = field(default_factory=list)
    failed: int = 0  # number of samples
    failed_models: Counter[str] = field(default_factory=Counter)  # the same, of several upstreams
    started: asyncio.Event = field(default_factory=asyncio.Event)  # the first part has arrived
    # done if no further samples are needed
    stop: asyncio.Future[None] = field(default_factory=lambda: asyncio.Future())
    is_late: bool = False  # the deadline has passed
    votes: Votes = field(default_factory=Votes)  # of the samples counted last
    candidates: list[Candidate] = field(default_factory=list)  # of the samples counted so far
    counting: asyncio.Future[None] | None = None
    counted_parts: int = 0  # number of parts whose votes are counted or being counted
    uncounted: int = 0  # number of samples whose votes could not be counted
    events: asyncio.Queue[bytes] = field(default_factory=lambda: asyncio.Queue(_MAX_EVENTS))
    is_relayed: bool = False  # the backend streams its answer, chunk by chunk, into `events`
    form: CompletionFormat = field(default_factory=CompletionFormat)

    async def waves(self) -> AsyncIterator[range]:
        """The ranges of samples to draw: all at once, or in waves if a vote may stop early.

        A wave starts when the votes of the previous one are counted. If counting takes too long,
        the rest is drawn at once.
        """
        end, n = 0, self.request.samples
        while end < n:
            is_counted = self.counting is None or self.counting.done()
            start, end = end, n
            if self.vote is not None and is_counted:
                end = start + self.vote.wave(start, n - start)
            yield range(start, end)
            if self.counting is not None:
                await asyncio.wait({self.counting}, timeout=_MAX_COUNTING)
            if self.stop.done() or not self.parts:  # a failing upstream gets no further wave
                return

    async def relay(self, chunk: dict[str, Any]) -> None:
        """Forward a chunk of the backend's stream; waits if the client reads slowly."""
        choices = chunk.get("choices")
        is_end = isinstance(choices, list) and any(
            isinstance(one, dict) and one.get("finish_reason") for one in choices)
        ours = {"minrisk": {"samples": self.request.samples, "requested": self.request.samples,
                            "passed_through": True}}
        for one in await self.form.relayed(chunk | ours if is_end else chunk):
            await self.events.put(one)
        self.is_relayed = True
        self.started.set()

    @property
    def choices(self) -> list[Choice]:
        return [choice for part in self.parts for choice in part.choices]

    @property
    def count(self) -> int:
        """Number of samples that have arrived."""
        return sum(len(part.choices) for part in self.parts)

    def report(self, found: CompletionResponse | MinriskError | None, samples: int,
               upstream: str | None = None) -> None:
        """Add a part, or the error of a request for this many samples; None if they are late."""
        if found is None:
            if upstream is not None and samples:
                self.failed_models[upstream] += samples
            return
        if isinstance(found, MinriskError):
            # the frames of its traceback refer to this collector: a reference cycle
            self.errors.append(found.with_traceback(None))
            self.failed += samples
            if upstream is not None:
                self.failed_models[upstream] += samples
            elif _is_bad_request(found) and not self.parts:
                self._end()  # the upstream would refuse the other requests, too
            return
        self.parts.append(found)
        self.started.set()
        if self.vote is not None and (self.counting is None or self.counting.done()):
            self.counting = asyncio.ensure_future(self._count_votes(self.vote))

    async def _count_votes(self, vote: Vote) -> None:
        """Count votes until those of all parts that have arrived are counted.

        Answers are extracted in another process, because that may take long for some texts; further
        samples may arrive meanwhile, so the count may lag behind them.
        """
        assert self.find_votes is not None
        while self.counted_parts < len(self.parts):
            before = sum(len(part.choices) for part in self.parts[:self.counted_parts])
            self.counted_parts = len(self.parts)
            choices = self.choices
            try:
                self.votes = await self.find_votes(choices[before:], self.votes)
            except MinriskError:  # ranking raises the same error and reports it
                self.uncounted += len(choices) - before
                continue
            if len(self.candidates) == before:
                self.candidates += self.votes.candidates
            for answer in self.votes.answers:
                vote.add(answer)
            if vote.is_decided(self.request.samples - len(choices) + self.uncounted):
                self._end()

    def _end(self) -> None:
        if not self.stop.done():
            self.stop.set_result(None)


async def collect_samples(backend: Backend, admission: Admission, collector: SampleCollector,
                          settings: Settings) -> None:
    """Collect samples until all have arrived, a vote is decided, or the deadline passes."""
    work = asyncio.ensure_future(
        backend.sample(collector.request, collector.waves(), admission, collector.report))
    try:
        done, _ = await asyncio.wait({work, collector.stop}, timeout=settings.deadline,
                                     return_when=asyncio.FIRST_COMPLETED)
        collector.is_late = not done
        if work.done():
            work.result()
    finally:
        counting = () if collector.counting is None else (collector.counting,)
        await cancel_all(work, *counting)
    _check(collector, settings)


def _check(collector: SampleCollector, settings: Settings) -> None:
    """Raise ApiError if there are too few samples to choose from."""
    if collector.count >= min(settings.min_samples, collector.request.samples) and collector.count:
        return
    if collector.errors:
        raise upstream_error(next(filter(_is_bad_request, collector.errors), collector.errors[0]))
    if collector.is_late:
        raise ApiError(504, f"{collector.count} of {collector.request.samples} samples came within "
                            f"{settings.deadline:g} s; at least {settings.min_samples} are "
                            "required",
                       code="deadline", headers=NO_RETRY)
    raise ApiError(502, "the upstream returned no "
                        "samples", code="upstream_error", headers=NO_RETRY)


def _is_bad_request(error: MinriskError) -> bool:
    response = error_response(error)
    return (response is not None and 400 <= response.status < 500
            and response.status not in _TRANSIENT)


def new_collector(request: ClientRequest, settings: Settings, executor: RankingExecutor,
                  form: CompletionFormat | None = None) -> SampleCollector:
    """A collector for a request; votes may stop early."""
    form = form or CompletionFormat()
    if settings.stop_error is None or request.n > 1 or not request.method.counts_votes:
        return SampleCollector(request, form=form)

    async def find_votes(choices: Sequence[Choice], earlier: Votes) -> Votes:
        return await executor.votes(choices, request.method, request.wants_json, earlier.classes)

    return SampleCollector(request, Vote(settings.stop_error), find_votes, form=form)
