"""An upstream on this machine that many clients can use at a time, and that can hold its answers.
"""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from itertools import count, cycle
from typing import Any

import pytest

pytest.importorskip("aiohttp", reason="needs the extra minrisk[serve]")

from aiohttp import web

Answer = Callable[["MockUpstream", dict[str, Any]], Awaitable[web.Response]]
Stream = Callable[["MockUpstream", web.Request, web.StreamResponse], Awaitable[None]]


class MockUpstream:
    """Gives the texts of a list, one after the other, as choices; `answer` may be replaced."""

    def __init__(self, texts: list[Any]) -> None:
        self._texts = cycle(texts)
        self._ids = count(1)
        self.answer: Answer = plain
        self.stream: Stream | None = None  # writes events to those who want a stream
        self.most = 10**6  # choices in an answer, whatever was asked for
        self.usage = True
        self.has_responses = False  # whether it has /v1/responses
        self.owner = "somebody"  # of its model
        self.refuse: Answer = failing(400, "Missing required parameter: 'input'.")
        self.responses: dict[str, Any] = {}  # those that it keeps, by their id
        self.gives_logprobs = True
        self.finish_reasons: Iterator[str] = cycle(["stop"])
        self.bodies: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.open = self.aborted = 0
        self.arrived = threading.Semaphore(0)  # one for each request
        self.left = threading.Semaphore(0)  # one for each request that was aborted
        self.url = ""
        self.released = asyncio.Event()
        self.steps = asyncio.Semaphore(0)
        self._loop: asyncio.AbstractEventLoop | None = None

    def release(self) -> None:
        """Let all answers go that are held."""
        assert self._loop is not None
        self._loop.call_soon_threadsafe(self.released.set)

    def step(self) -> None:
        """Let one more event of a stream go."""
        assert self._loop is not None
        self._loop.call_soon_threadsafe(self.steps.release)

    def completion(self, body: dict[str, Any], **fields: Any) -> dict[str, Any]:
        n = min(body.get("n") or 1, self.most)
        choices = [self._choice(body, index) for index in range(n)]
        tokens = {"prompt_tokens": 7, "completion_tokens": 3 * n, "total_tokens": 7 + 3 * n}
        usage = {"usage": tokens | {"completion_tokens_details": {"reasoning_tokens": n}}}
        return {"id": f"up-{next(self._ids)}", "object": "chat.completion", "created": 1,
                "model": body.get("model", "m"), "system_fingerprint": "fp", "choices": choices,
                **(usage if self.usage else {}), **fields}

    def _choice(self, body: dict[str, Any], index: int) -> dict[str, Any]:
        text = next(self._texts)
        fields = {"index": index, "finish_reason": next(self.finish_reasons)}
        if "messages" not in body:
            return {"text": text, **fields, "logprobs": None}
        message = text if isinstance(text, dict) else {"role": "assistant", "content": text}
        logprobs = {"content": [{"token": str(text), "logprob": -float(len(str(text)))}]}
        return {"message": message, **fields, **(
            {"logprobs": logprobs} if body.get("logprobs") and self.gives_logprobs else {})}

    async def handle(self, request: web.Request) -> web.StreamResponse:
        body = await request.json()
        self.bodies.append(body)
        self.headers.append(dict(request.headers))
        self.open += 1
        self.arrived.release()
        try:
            if self.stream is None or not body.get("stream"):
                return await self.answer(self, body)
            response = web.StreamResponse(headers={"content-type": "text/event-stream"})
            await response.prepare(request)
            await self.stream(self, request, response)
            return response
        except asyncio.CancelledError:
            self.aborted += 1
            self.left.release()
            raise
        finally:
            self.open -= 1

    def response(self, body: dict[str, Any]) -> dict[str, Any]:
        """An answer to /v1/responses: reasoning, and a text or the items of a list."""
        name, text = next(self._ids), next(self._texts)
        logprobs = [{"token": "x", "bytes": [120], "logprob": -1.0, "top_logprobs": []}
                    ] if "message.output_text.logprobs" in body.get("include", ()) else []
        items = text if isinstance(text, list) else [
            {"type": "reasoning", "id": f"rs_{name}", "summary": [],
             "encrypted_content": f"e{name}"},
            {"type": "message", "id": f"msg_{name}", "role": "assistant", "status": "completed",
             "content": [{"type": "output_text", "text": text, "annotations": [],
                          "logprobs": logprobs}]}]
        return {"id": f"resp_up{name}", "object": "response", "created_at": 1, "model": "up",
                "status": "completed", "output": items, "parallel_tool_calls": True,
                "tool_choice": "auto", "tools": [], "store": body.get("store", True),
                "previous_response_id": body.get("previous_response_id"), "usage": {
                    "input_tokens": 7, "input_tokens_details": {"cached_tokens": 2},
                    "output_tokens": 3, "output_tokens_details": {"reasoning_tokens": 1},
                    "total_tokens": 10}}

    async def respond(self, request: web.Request) -> web.StreamResponse:
        if not self.has_responses:
            raise web.HTTPNotFound
        body = await request.json()
        if "input" not in body:
            return await self.refuse(self, body)
        if body.get("previous_response_id", "") not in {"", *self.responses}:
            return await failing(400, "Previous response not found.")(self, body)
        return await self.handle(request)

    async def models(self, _: web.Request) -> web.Response:
        return web.json_response({"object": "list", "data": [
            {"id": "m", "object": "model", "owned_by": self.owner}]})

    def run(self, started: threading.Event, stop: asyncio.Event) -> None:
        async def main() -> None:
            self._loop = asyncio.get_running_loop()
            app = web.Application()
            app.add_routes([web.post("/v1/chat/completions", self.handle),
                            web.post("/v1/completions", self.handle),
                            web.post("/v1/responses", self.respond),
                            web.get("/v1/models", self.models)])
            runner = web.AppRunner(app, handler_cancellation=True, access_log=None,
                                   shutdown_timeout=0)
            await runner.setup()
            site = web.TCPSite(runner, "127.0.0.1", 0, backlog=2048)
            await site.start()
            self.url = f"http://127.0.0.1:{runner.addresses[0][1]}/v1"
            started.set()
            await stop.wait()
            await runner.cleanup()

        asyncio.run(main())

    def stop(self, event: asyncio.Event) -> None:
        assert self._loop is not None
        self._loop.call_soon_threadsafe(event.set)


async def plain(upstream: MockUpstream, body: dict[str, Any]) -> web.Response:
    if "input" not in body:
        return web.json_response(upstream.completion(body))
    found = upstream.response(body)
    upstream.responses[found["id"]] = found
    return web.json_response(found)


async def held(upstream: MockUpstream, body: dict[str, Any]) -> web.Response:
    """Not before somebody releases it."""
    await upstream.released.wait()
    return web.json_response(upstream.completion(body))


def events(*chunks: Any, step_by_step: bool = False) -> Stream:
    """These as events, and the end; one for each step, if they are wanted step by step."""
    async def write(upstream: MockUpstream, _: web.Request, response: web.StreamResponse) -> None:
        for chunk in (*chunks, "[DONE]"):
            if step_by_step:
                await upstream.steps.acquire()
            data = chunk if isinstance(chunk, str) else json.dumps(chunk)
            await response.write(f"data: {data}\n\n".encode())

    return write


def failing(status: int, message: str = "no", **headers: str) -> Answer:
    async def answer(upstream: MockUpstream, body: dict[str, Any]) -> web.Response:
        return web.json_response({"error": {"message": message, "type": "t", "code": "c"}},
                                 status=status,
                                 headers={k.replace("_", "-"): v for k, v in headers.items()})

    return answer


@contextmanager
def mock_upstream(*texts: Any) -> Iterator[MockUpstream]:
    upstream = MockUpstream(list(texts))
    started, stop = threading.Event(), asyncio.Event()
    thread = threading.Thread(target=upstream.run, args=(started, stop), daemon=True)
    thread.start()
    assert started.wait(60)
    try:
        yield upstream
    finally:
        upstream.stop(stop)
        thread.join(60)
