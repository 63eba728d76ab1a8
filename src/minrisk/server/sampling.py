"""The samples of one request: those that come before the deadline, or before a vote is decided."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from minrisk._core.errors import MinriskError
from minrisk._core.vote import Vote, answer_of
from minrisk.openai.choices import Choice
from minrisk.openai.completions import CompletionResponse
from minrisk.openai.errors import error_response
from minrisk.server.answers import event
from minrisk.server.calls import Call
from minrisk.server.candidates import Candidate, read_candidates
from minrisk.server.errors import NO_RETRY, ApiError, upstream_error
from minrisk.server.settings import Settings
from minrisk.server.sources import Source

_MAX_EVENTS = 64  # of a stream, that wait for a client to read them
_TRY_LATER = {408, 425, 429}  # statuses of temporary errors


@dataclass
class Draws:
    """The samples of a request that have come so far."""

    call: Call
    vote: Vote | None = None
    answer: Callable[[Candidate], Hashable] = lambda candidate: None
    parts: list[CompletionResponse] = field(default_factory=list)
    errors: list[MinriskError] = field(default_factory=list)
    failed: int = 0  # samples
    started: asyncio.Event = field(default_factory=asyncio.Event)  # the first part has come
    enough: asyncio.Event = field(default_factory=asyncio.Event)  # the rest is not needed
    is_late: bool = False
    is_slow: bool = False  # answers take long to find
    counting: list[asyncio.Future[None]] = field(default_factory=list)  # of votes, in threads
    counted: int = 0  # samples whose votes are counted
    events: asyncio.Queue[bytes] = field(default_factory=lambda: asyncio.Queue(_MAX_EVENTS))
    is_relayed: bool = False  # the source streams its answer, of which `events` has come

    async def relay(self, chunk: dict[str, Any]) -> None:
        """Pass a chunk of the source's stream on; waits for a client that reads slowly."""
        choices = chunk.get("choices")
        is_end = isinstance(choices, list) and any(
            isinstance(one, dict) and one.get("finish_reason") for one in choices)
        ours = {"minrisk": {"samples": self.call.samples, "requested": self.call.samples}}
        await self.events.put(event(chunk | ours if is_end else chunk))
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
            self.errors.append(found)
            self.failed += samples
            if _is_bad_request(found) and not self.parts:
                self.enough.set()  # the others would be refused as well
            return
        self.parts.append(found)
        self.started.set()
        self._count_votes(found)

    def _count_votes(self, part: CompletionResponse) -> None:
        if self.vote is None:
            return
        candidates = read_candidates(part.choices, self.call.wants_json)
        if self.is_slow:
            work = self._count_in_thread(candidates, len(part.choices), [*self.counting])
            self.counting.append(asyncio.ensure_future(work))
        else:
            self._add_votes(list(map(self.answer, candidates)), len(part.choices))

    async def _count_in_thread(self, candidates: list[Candidate], samples: int,
                               earlier: list[asyncio.Future[None]]) -> None:
        """After the earlier parts, with which the answers are compared."""
        await asyncio.gather(*earlier)
        with suppress(MinriskError):  # ranking has the same error, and tells it
            answers = await asyncio.to_thread(lambda: list(map(self.answer, candidates)))
            self._add_votes(answers, samples)

    def _add_votes(self, answers: list[Hashable], samples: int) -> None:
        assert self.vote is not None
        for answer in answers:
            self.vote.add(answer)
        self.counted += samples
        if self.vote.is_decided(self.call.samples - self.counted):
            self.enough.set()


async def draw(source: Source, draws: Draws, settings: Settings) -> None:
    """Fill the draws until all samples have come, a vote is decided, or the deadline passes."""
    work = asyncio.ensure_future(source.draw(draws.call, draws.report))
    enough = asyncio.ensure_future(draws.enough.wait())
    try:
        done, _ = await asyncio.wait({work, enough}, timeout=settings.deadline,
                                     return_when=asyncio.FIRST_COMPLETED)
        draws.is_late = not done
        if work.done():
            work.result()
    finally:
        await cancelled(work, enough, *draws.counting)
    _check(draws, settings)


def _check(draws: Draws, settings: Settings) -> None:
    """Raise ApiError if there are too few samples to choose from."""
    if draws.count >= min(settings.min_samples, draws.call.samples) and draws.count:
        return
    if draws.errors:
        raise upstream_error(next(filter(_is_bad_request, draws.errors), draws.errors[0]))
    if draws.is_late:
        raise ApiError(504, f"{draws.count} of {draws.call.samples} samples came within "
                       f"{settings.deadline:g} s; {settings.min_samples} are wanted",
                       code="deadline", headers=NO_RETRY)
    raise ApiError(502, "the upstream gave no samples", code="upstream_error", headers=NO_RETRY)


def _is_bad_request(error: MinriskError) -> bool:
    response = error_response(error)
    return (response is not None and 400 <= response.status < 500
            and response.status not in _TRY_LATER)


def new_draws(call: Call, settings: Settings) -> Draws:
    """Draws for a call; for exact-match metrics, with early stopping by vote."""
    find = answer_of(call.strategy.metric)
    if find is None or settings.stop_error is None or call.n > 1 or (
            call.strategy.name != "standard"):  # the only strategy that is a vote
        return Draws(call)

    def answer(candidate: Candidate) -> Hashable:
        if candidate.is_cut and settings.prefer_finished:
            return None
        if candidate.tools is not None:
            return candidate.tools, candidate.text
        return find(candidate.text)

    return Draws(call, Vote(settings.stop_error), answer,
                 is_slow=call.strategy.metric.loads_model)


async def cancelled(*tasks: asyncio.Future[Any]) -> None:
    """Cancel tasks, and wait until they have ended; their results are dropped."""
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
