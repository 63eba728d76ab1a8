"""Backends that sample: a server with OpenAI's protocol, or a model in this process."""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from dataclasses import dataclass
from typing import Any, Protocol

from minrisk._core.errors import MinriskError
from minrisk.openai.client import Client, Compute, Receive, Response
from minrisk.openai.completions import API, CompletionResponse, Completions, PartCallback
from minrisk.openai.encoding import Check
from minrisk.openai.errors import error_response
from minrisk.server.client_request import ClientRequest
from minrisk.server.limits import SampleLimit

_MAX_MODELS = 256  # with remembered capabilities; clients may name any model
_READY_FOR = 2.0  # seconds until an upstream that answered is checked again
_READY_TIMEOUT = 5.0
_NO_LIST = (404, 405)  # statuses of an upstream without a list of models


class Backend(Protocol):
    """Generates the samples of a request."""

    async def open(self, run: Compute) -> None:
        """Connect to a server, or load a model; `run` computes beside the event loop."""

    async def close(self) -> None: ...

    async def sample(self, request: ClientRequest, report: PartCallback) -> None:
        """Report `request.samples` choices, or errors, as they come; cancelling stops them all."""

    async def pass_through(self, request: ClientRequest) -> CompletionResponse:
        """The answer to the unchanged request."""

    async def relay(self, request: ClientRequest, receive: Receive) -> CompletionResponse:
        """The same; where the backend streams it, each chunk is given to `receive` as it comes."""

    async def models(self) -> list[dict[str, Any]]:
        """The models of the backend, in OpenAI's format."""

    def knows(self, model: str) -> bool:
        """Whether it is known to have a model of this name."""

    async def problem(self) -> str | None:
        """The reason why the backend cannot answer now; None if it can."""


@dataclass(frozen=True)
class _LimitedClient:
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


class UpstreamBackend:
    """A server with OpenAI's protocol; the fields that it accepts are remembered for each model."""

    def __init__(self, client: Client, limit: SampleLimit, per_request: int) -> None:
        self._client = client
        self._limited_client = _LimitedClient(client, limit)
        self._per_request = per_request
        self._completions: OrderedDict[tuple[API, str | None], Completions] = OrderedDict()
        self._known: set[str] = set()  # the models that the upstream listed
        self._exit = AsyncExitStack()
        self._last_response = -_READY_FOR

    async def open(self, run: Compute) -> None:
        self._client.compute = run
        await self._exit.enter_async_context(self._client)

    async def close(self) -> None:
        await self._exit.aclose()

    async def sample(self, request: ClientRequest, report: PartCallback) -> None:
        await self._of(request).sample(request.upstream_request(), range(request.samples), report)

    async def pass_through(self, request: ClientRequest) -> CompletionResponse:
        return await self._of(request).pass_through(request.pass_through_body())

    async def relay(self, request: ClientRequest, receive: Receive) -> CompletionResponse:
        return await self._of(request).relay(request.pass_through_body(stream=True), receive)

    async def models(self) -> list[dict[str, Any]]:
        answer = await self._client.get("models")
        found = answer.body.get("data") if isinstance(answer.body, dict) else None
        listed = [one for one in found if isinstance(one, dict) and isinstance(one.get("id"), str)
                  ] if isinstance(found, list) else []
        self._known = {one["id"] for one in listed[:_MAX_MODELS]}
        return listed

    def knows(self, model: str) -> bool:
        return model in self._known

    async def problem(self) -> str | None:
        if time.monotonic() - self._last_response < _READY_FOR:
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
        self._last_response = time.monotonic()
        return None

    def _of(self, request: ClientRequest) -> Completions:
        key = (request.api, request.model)
        if key not in self._completions:
            self._completions[key] = Completions(
                self._limited_client, request.api, per_request=self._per_request)  # type: ignore[arg-type]
            if len(self._completions) > _MAX_MODELS:
                self._completions.popitem(last=False)
        self._completions.move_to_end(key)
        return self._completions[key]
