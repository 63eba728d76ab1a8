"""Several upstreams as one backend: the samples of a request form one pool."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from typing import Any

from minrisk._core.errors import MinriskError
from minrisk.openai.client import Compute, Receive
from minrisk.openai.completions import CompletionResponse
from minrisk.openai.upstreams import UpstreamServer, ranges, split
from minrisk.server.backends import UpstreamBackend
from minrisk.server.requests import ClientRequest
from minrisk.server.sampling import Admission, ReportPart


@dataclass(frozen=True)
class Member:
    """An upstream, and how it takes part in the pool."""

    backend: UpstreamBackend
    server: UpstreamServer

    def marked(self, part: CompletionResponse) -> CompletionResponse:
        """A part whose choices have the name and the weight of the upstream."""
        return replace(part, choices=[
            replace(choice, model=self.server.name, weight=self.server.weight)
            for choice in part.choices])


class UpstreamPool:
    """Divides the samples of a request among upstreams, by their numbers of samples.

    A model that is the name of an upstream, or several names with + between them, asks only these.
    An upstream that fails costs its samples, and the answer is chosen among the others.
    """

    def __init__(self, members: Sequence[Member]) -> None:
        self._members = members

    async def open(self, run: Compute) -> None:
        async with AsyncExitStack() as stack:
            for one in self._members:
                await one.backend.open(run)
                stack.push_async_callback(one.backend.close)
            stack.pop_all()  # all are open

    async def close(self) -> None:
        for one in self._members:
            await one.backend.close()

    async def sample(self, request: ClientRequest, waves: AsyncIterator[range],
                     admission: Admission, report: ReportPart) -> None:
        asked = self._asked(request)
        shares = [one.server.samples or 1 for one, _ in asked]
        async for numbers in waves:
            parts = ranges(numbers, split(len(numbers), shares))
            await asyncio.gather(*(self._sample(one, own, part, admission, report)
                                   for (one, own), part in zip(asked, parts, strict=True) if part))

    async def _sample(self, member: Member, request: ClientRequest, numbers: range,
                      admission: Admission, report: ReportPart) -> None:
        missing, name = len(numbers), member.server.name

        def marked(found: CompletionResponse | MinriskError | None, samples: int,
                   upstream: str | None = None) -> None:
            nonlocal missing
            missing -= samples
            report(member.marked(found) if isinstance(found, CompletionResponse) else found,
                   samples, name)

        try:
            await member.backend.sample(request, _one_wave(numbers), admission, marked)
        except asyncio.CancelledError:  # at the deadline, if the answer is still wanted
            report(None, missing, name)
            raise

    async def pass_through(self, request: ClientRequest) -> CompletionResponse:
        """The answer of the first upstream that gives one."""
        failures: list[MinriskError] = []
        for one, own in self._asked(request):
            try:
                return one.marked(await one.backend.pass_through(own))
            except MinriskError as error:
                failures.append(error)
        raise failures[0]

    async def relay(self, request: ClientRequest, receive: Receive) -> CompletionResponse:
        """The same; once a chunk has been forwarded, no other upstream is asked."""
        has_begun = False

        async def begin(chunk: Any) -> None:
            nonlocal has_begun
            has_begun = True
            await receive(chunk)

        failures: list[MinriskError] = []
        for one, own in self._asked(request):
            try:
                return one.marked(await one.backend.relay(own, begin))
            except MinriskError as error:
                failures.append(error)
                if has_begun:
                    break
        raise failures[-1] if has_begun else failures[0]

    async def models(self) -> list[dict[str, Any]]:
        """The upstreams by name, and the models of those that have no model of their own."""
        listed = {one.server.name: {"id": one.server.name, "object": "model", "created": 0,
                                    "owned_by": "minrisk"} for one in self._members}
        others = [one for one in self._members if one.server.model is None]
        for found in await asyncio.gather(*(one.backend.models() for one in others),
                                          return_exceptions=True):
            if isinstance(found, MinriskError):
                continue
            if isinstance(found, BaseException):
                raise found
            listed |= {one["id"]: one for one in found}
        return [*listed.values()]

    def knows(self, model: str) -> bool:
        return any(model == one.server.name or one.backend.knows(model) for one in self._members)

    async def takes_responses(self) -> bool:
        return False  # an upstream that lacks `/v1/responses` would be left out of the pool

    async def problem(self) -> str | None:
        """Why no upstream can answer; None if one can."""
        found = await asyncio.gather(*(one.backend.problem() for one in self._members))
        return None if None in found else next(iter(found), None)

    def _asked(self, request: ClientRequest) -> Sequence[tuple[Member, ClientRequest]]:
        """The upstreams that are asked, and the request to each with its model.

        The name of an upstream is not the name of a model: one without a model of its own gets
        none then.
        """
        names = Counter((request.model or "").split("+"))
        named = [one for one in self._members if one.server.name in names]
        is_named = len(named) == len(names)
        default = None if is_named else request.model
        return [(one, replace(request, model=one.server.model or default))
                for one in (named if is_named else self._members)]


async def _one_wave(numbers: range) -> AsyncIterator[range]:
    yield numbers
