"""Sources of samples: a server with OpenAI's protocol, or a model in this process."""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from dataclasses import dataclass
from typing import Any, Protocol

from minrisk._core.errors import MinriskError
from minrisk.openai.client import Check, Client, Receive, Response
from minrisk.openai.completions import API, CompletionResponse, Completions, Report
from minrisk.openai.errors import error_response
from minrisk.server.calls import Call
from minrisk.server.limits import SampleLimit

_MAX_MODELS = 256  # with remembered capabilities; clients may name any model
_READY_FOR = 2.0  # seconds until an upstream that answered is checked again
_READY_TIMEOUT = 5.0
_NO_LIST = (404, 405)  # statuses of an upstream without a list of models


class Source(Protocol):
    """Draws the samples of a request."""

    async def open(self) -> None:
        """Connect to a server, or load a model."""

    async def close(self) -> None: ...

    async def draw(self, call: Call, report: Report) -> None:
        """Report `call.samples` choices, or errors, as they come; cancelling stops all requests."""

    async def pass_through(self, call: Call) -> CompletionResponse:
        """The answer to the unchanged request."""

    async def relay(self, call: Call, receive: Receive) -> CompletionResponse:
        """The same; where the source streams it, each chunk is given to `receive` as it comes."""

    async def models(self) -> list[dict[str, Any]]:
        """The models of the source, in OpenAI's format."""

    async def problem(self) -> str | None:
        """The reason why the source cannot answer now; None if it can."""


@dataclass(frozen=True)
class _Limited:
    """A client that waits until there is room for the samples of a request."""

    client: Client
    limit: SampleLimit

    async def post(self, path: str, body: Mapping[str, Any],
                   check: Check | None = None) -> Response:
        async with self._room(body):
            return await self.client.post(path, body, check)

    async def stream(self, path: str, body: Mapping[str, Any], receive: Receive,
                     check: Check | None = None) -> Response:
        async with self._room(body):
            return await self.client.stream(path, body, receive, check)

    def _room(self, body: Mapping[str, Any]) -> AbstractAsyncContextManager[None]:
        n = body.get("n")
        return self.limit.hold(n if isinstance(n, int) else 1)


class Upstream:
    """A server with OpenAI's protocol; the fields that it accepts are remembered for each model."""

    def __init__(self, client: Client, limit: SampleLimit, per_request: int) -> None:
        self._client = client
        self._limited = _Limited(client, limit)
        self._per_request = per_request
        self._completions: OrderedDict[tuple[API, str | None], Completions] = OrderedDict()
        self._exit = AsyncExitStack()
        self._answered = -_READY_FOR

    async def open(self) -> None:
        await self._exit.enter_async_context(self._client)

    async def close(self) -> None:
        await self._exit.aclose()

    async def draw(self, call: Call, report: Report) -> None:
        await self._of(call).sample(call.query(), range(call.samples), report)

    async def pass_through(self, call: Call) -> CompletionResponse:
        return await self._of(call).pass_through(call.passed())

    async def relay(self, call: Call, receive: Receive) -> CompletionResponse:
        return await self._of(call).relay(call.passed(stream=True), receive)

    async def models(self) -> list[dict[str, Any]]:
        answer = await self._client.get("models")
        found = answer.body.get("data") if isinstance(answer.body, dict) else None
        return [one for one in found if isinstance(one, dict) and isinstance(one.get("id"), str)
                ] if isinstance(found, list) else []

    async def problem(self) -> str | None:
        if time.monotonic() - self._answered < _READY_FOR:
            return None
        try:
            async with asyncio.timeout(_READY_TIMEOUT):
                await self.models()
        except MinriskError as error:
            response = error_response(error)
            if response is None or response.status not in _NO_LIST:
                return "the upstream does not answer"
        except TimeoutError:
            return "the upstream does not answer"
        self._answered = time.monotonic()
        return None

    def _of(self, call: Call) -> Completions:
        key = (call.api, call.model)
        if key not in self._completions:
            self._completions[key] = Completions(
                self._limited, call.api, per_request=self._per_request)  # type: ignore[arg-type]
            if len(self._completions) > _MAX_MODELS:
                self._completions.popitem(last=False)
        self._completions.move_to_end(key)
        return self._completions[key]
