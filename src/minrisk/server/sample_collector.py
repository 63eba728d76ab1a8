"""The samples of one request: those that come before the deadline, or before a vote is decided."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from minrisk._core.errors import MinriskError
from minrisk._core.vote import Vote, answer_of
from minrisk.openai.background import cancel_all
from minrisk.openai.client import Compute
from minrisk.openai.completions import CompletionResponse
from minrisk.openai.encoding import encoded
from minrisk.openai.errors import error_response
from minrisk.openai.responses import Choice
from minrisk.server.backends import Backend
from minrisk.server.choosing import Votes, comparable, votes
from minrisk.server.client_request import ClientRequest
from minrisk.server.errors import NO_RETRY, ApiError, upstream_error
from minrisk.server.responses import event
from minrisk.server.settings import Settings

_MAX_EVENTS = 64  # of a stream, that wait for a client to read them
_TRY_LATER = {408, 425, 429}  # statuses of temporary errors


@dataclass
class SampleCollector:
    """The samples of a request that have come so far."""

    request: ClientRequest
    vote: Vote | None = None
    find_votes: Callable[[Sequence[Choice], Votes], Awaitable[Votes]] | None = None
    parts: list[CompletionResponse] = field(default_factory=list)
    errors: list[MinriskError] = field(default_factory=list)
    failed: int = 0  # samples
    started: asyncio.Event = field(default_factory=asyncio.Event)  # the first part has come
    stop: asyncio.Event = field(default_factory=asyncio.Event)  # the rest is not needed
    is_late: bool = False
    votes: Votes = field(default_factory=Votes)  # that were counted last
    counting: asyncio.Future[None] | None = None
    counted_parts: int = 0  # whose votes are counted, or being counted
    events: asyncio.Queue[bytes] = field(default_factory=lambda: asyncio.Queue(_MAX_EVENTS))
    is_relayed: bool = False  # the backend streams its answer, of which `events` has come

    async def relay(self, chunk: dict[str, Any]) -> None:
        """Pass a chunk of the backend's stream on; waits for a client that reads slowly."""
        choices = chunk.get("choices")
        is_end = isinstance(choices, list) and any(
            isinstance(one, dict) and one.get("finish_reason") for one in choices)
        ours = {"minrisk": {"samples": self.request.samples, "requested": self.request.samples,
                            "passed_through": True}}
        await self.events.put(event(encoded(chunk | ours if is_end else chunk)))
        self.is_relayed = True
        self.started.set()

    @property
    def choices(self) -> list[Choice]:
        return [choice for part in self.parts for choice in part.choices]

    @property
    def count(self) -> int:
        """Number of samples that have come."""
        return sum(len(part.choices) for part in self.parts)

    def report(self, found: CompletionResponse | MinriskError, samples: int) -> None:
        """Add a part, or the error of a part with `samples` samples."""
        if isinstance(found, MinriskError):
            # the frames of its traceback refer to this collector
            self.errors.append(found.with_traceback(None))
            self.failed += samples
            if _is_bad_request(found) and not self.parts:
                self.stop.set()  # the others would be refused as well
            return
        self.parts.append(found)
        self.started.set()
        if self.vote is not None and (self.counting is None or self.counting.done()):
            self.counting = asyncio.ensure_future(self._count_votes(self.vote))

    async def _count_votes(self, vote: Vote) -> None:
        """Count the votes of all parts that have come meanwhile, until there are no more.

        Answers are found in another process, for texts may take long. So a vote trails the samples,
        by those that come while it counts the ones before.
        """
        assert self.find_votes is not None
        while self.counted_parts < len(self.parts):
            new = self.parts[self.counted_parts:]
            self.counted_parts += len(new)
            choices = [choice for part in new for choice in part.choices]
            with suppress(MinriskError):  # ranking has the same error, and tells it
                self.votes = await self.find_votes(choices, self.votes)
                for answer in self.votes.answers:
                    vote.add(answer)
            counted = sum(len(part.choices) for part in self.parts[:self.counted_parts])
            if vote.is_decided(self.request.samples - counted):
                self.stop.set()


async def collect_samples(backend: Backend, collector: SampleCollector, settings: Settings) -> None:
    """Collect samples until all samples have come, a vote is decided, or the deadline passes."""
    work = asyncio.ensure_future(backend.sample(collector.request, collector.report))
    stop = asyncio.ensure_future(collector.stop.wait())
    try:
        done, _ = await asyncio.wait({work, stop}, timeout=settings.deadline,
                                     return_when=asyncio.FIRST_COMPLETED)
        collector.is_late = not done
        if work.done():
            work.result()
    finally:
        counting = () if collector.counting is None else (collector.counting,)
        await cancel_all(work, stop, *counting)
    _check(collector, settings)


def _check(collector: SampleCollector, settings: Settings) -> None:
    """Raise ApiError if there are too few samples to choose from."""
    if collector.count >= min(settings.min_samples, collector.request.samples) and collector.count:
        return
    if collector.errors:
        raise upstream_error(next(filter(_is_bad_request, collector.errors), collector.errors[0]))
    if collector.is_late:
        raise ApiError(504, f"{collector.count} of {collector.request.samples} samples came within "
                       f"{settings.deadline:g} s; {settings.min_samples} are wanted",
                       code="deadline", headers=NO_RETRY)
    raise ApiError(502, "the upstream gave no samples", code="upstream_error", headers=NO_RETRY)


def _is_bad_request(error: MinriskError) -> bool:
    response = error_response(error)
    return (response is not None and 400 <= response.status < 500
            and response.status not in _TRY_LATER)


def new_collector(request: ClientRequest, settings: Settings, run: Compute) -> SampleCollector:
    """A collector for a request; for exact-match metrics, with early stopping by vote.

    `run` calls a function where its time harms no other request.
    """
    metric = request.strategy.metric
    if answer_of(metric) is None or settings.stop_error is None or request.n > 1 or (
            request.strategy.name != "standard"):  # the only strategy that is a vote
        return SampleCollector(request)
    comparison = settings.comparison(request.wants_json)

    async def find_votes(choices: Sequence[Choice], earlier: Votes) -> Votes:
        call = asyncio.to_thread if metric.loads_model else run  # a model is in this process
        return await call(votes, metric, comparable(choices), comparison, earlier.classes)

    return SampleCollector(request, Vote(settings.stop_error), find_votes)
