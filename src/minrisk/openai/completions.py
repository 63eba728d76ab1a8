"""Any number of choices for a prompt, in as many requests as the server needs for them."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Collection, Coroutine, Iterable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

from minrisk.openai.capabilities import (
    REPLACEABLE,
    Capabilities,
    adapted,
    fewer_choices,
    note_on,
    refused_field,
)
from minrisk.openai.choices import Choice, complaint, read_choices, read_usage
from minrisk.openai.client import Client
from minrisk.openai.errors import RefusedError

API = Literal["chat", "completions"]
FIRST_ANSWER = 2.0  # seconds that others wait for the first request: refusals come faster
_PATHS = {"chat": "chat/completions", "completions": "completions"}

T = TypeVar("T")


@dataclass(frozen=True)
class Part:
    """The choices of one answer, and the tokens that it took."""

    choices: list[Choice]
    usage: Counter[str] | None


@dataclass(frozen=True)
class Query:
    """What to ask: the body without its number of choices, and the seed of each choice."""

    body: Mapping[str, Any]
    seed: Callable[[int], int | None] = lambda number: None
    replaceable: Collection[str] = REPLACEABLE  # fields of the body that may be left out

    def fields(self, number: int, n: int) -> dict[str, Any]:
        """The body of a request for n choices from this number on; one is what servers give."""
        seed = self.seed(number)
        return {**self.body, **({} if seed is None else {"seed": seed}),
                **({} if n == 1 else {"n": n})}


class Completions:
    """One interface of a server, for one model."""

    def __init__(self, client: Client, api: API = "chat", *, per_request: int = 16,
                 capabilities: Capabilities | None = None,
                 note: Callable[[str], None] = lambda message: None,
                 progress: Callable[[int, int], None] = lambda done, planned: None) -> None:
        self.capabilities = capabilities or Capabilities()
        self._client = client
        self._path = _PATHS[api]
        self._per_request = per_request
        self._note = note
        self._progress = progress
        self._planned = self._done = 0  # requests
        self._first = asyncio.Lock()

    async def draw(self, query: Query, numbers: range) -> list[Part]:
        """Choices of these numbers in order, at least one in each part."""
        size = self.capabilities.max_choices or self._per_request
        # with the same bounds whether it is known already that the server gives fewer, or not yet
        parts = [part for group in _split(numbers, self._per_request)
                 for part in _split(group, size)]
        self._planned += len(parts)
        found = await together(self._part(query, part) for part in parts)
        return [part for group in found for part in group]

    def note(self, kind: str, message: str) -> None:
        """Tells the user something, once in a run."""
        if kind not in self.capabilities.notes:
            self.capabilities.notes.add(kind)
            self._note(message)

    async def _part(self, query: Query, numbers: range) -> list[Part]:
        async with self._turn():
            part = await self._answer(query, numbers)
        self._done += 1
        self._progress(self._done, self._planned)
        rest = numbers[len(part.choices):]  # some servers give fewer than were requested
        return [part, *(await self.draw(query, rest) if rest else [])]

    async def _answer(self, query: Query, numbers: range) -> Part:
        """The choices of the first of these numbers, with as few fields as the server takes."""
        known = self.capabilities
        without, n = known.refused, min(len(numbers), known.max_choices or len(numbers))
        reasons: dict[str, RefusedError] = {}
        while True:
            body = query.fields(numbers[0], n)
            sent = adapted(body, without)
            try:
                answer = await self._client.post(self._path, sent, complaint)
            except RefusedError as error:
                if known.refused - without:  # another request found out in the meantime
                    without |= known.refused
                elif name := refused_field(error, sent.keys() & query.replaceable):
                    without, reasons[name] = without | {name}, error
                elif n > max(1, known.accepted):
                    n = fewer_choices(error, n)
                else:
                    raise
            else:
                self._learn(body, without, reasons)
                choices = read_choices(answer.body)[:n]
                known.accepted = max(known.accepted, len(choices))
                if len(choices) < len(numbers):
                    known.max_choices = min(known.max_choices or len(choices), len(choices))
                return Part(choices, read_usage(answer.body))

    def _learn(self, body: Mapping[str, Any], without: frozenset[str],
               reasons: Mapping[str, RefusedError]) -> None:
        """Only now is it sure that these fields were the reason."""
        self.capabilities.refused |= without
        for name, error in reasons.items():
            if message := note_on(name, body.get(name), str(error)):
                self.note(name, message)

    @asynccontextmanager
    async def _turn(self) -> AsyncIterator[None]:
        """One request goes first, so that what a server refuses is refused once."""
        is_first = False
        if not self.capabilities.is_known:
            with suppress(TimeoutError):
                async with asyncio.timeout(FIRST_ANSWER):
                    is_first = await self._first.acquire()
        if is_first and self.capabilities.is_known:
            self._first.release()
            is_first = False
        try:
            yield
        finally:
            if is_first:
                self._first.release()


def _split(numbers: range, size: int) -> list[range]:
    return [numbers[start:start + size] for start in range(0, len(numbers), size)]


async def together(work: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """All results; with the first error the others are cancelled."""
    tasks = [asyncio.ensure_future(one) for one in work]
    try:
        return await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
