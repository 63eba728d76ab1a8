"""Our server in a thread of the tests."""

from __future__ import annotations

import asyncio
import json
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from email.message import Message
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

pytest.importorskip("aiohttp", reason="needs the extra minrisk[serve]")

from commands import PATIENCE, spawn
from minrisk._core.decoding import make_strategy
from minrisk.openai.client import Client
from minrisk.server.app import Server
from minrisk.server.backends import Backend, UpstreamBackend
from minrisk.server.http import ListenConfig, serve
from minrisk.server.monitoring import Recorder
from minrisk.server.sampling import SampleLimit
from minrisk.server.settings import Methods, Preset, Settings, named_metrics
from minrisk.tasks.decode import MeasureOptions


@dataclass
class Reply:
    status: int
    headers: Message  # whose names may be written in any case
    raw: bytes

    @property
    def body(self) -> Any:
        return json.loads(self.raw)

    @property
    def text(self) -> str:
        return self.body["choices"][0]["message"]["content"]

    @property
    def output_text(self) -> str:
        """Of a response with one message, and reasoning and calls beside it."""
        [message] = [item for item in self.body["output"] if item["type"] == "message"]
        return "".join(part["text"] for part in message["content"])

    @property
    def events(self) -> list[Any]:
        """Of a stream, with None for its end."""
        lines = [line[6:] for line in self.raw.decode().splitlines() if line.startswith("data: ")]
        return [None if line == "[DONE]" else json.loads(line) for line in lines]


@dataclass
class Running:
    url: str  # without /v1
    server: Server
    log: list[str] = field(default_factory=list)
    stop: Any = None
    tasks: Any = None  # a function: the tasks of its event loop

    @property
    def requests(self) -> list[dict[str, Any]]:
        """What was logged."""
        return [json.loads(line) for line in self.log]

    def call(self, path: str, body: Any = None, method: str | None = None,
             **headers: str) -> Reply:
        content = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
        request = Request(f"{self.url}{path}", content,
                          {"Content-Type": "application/json"} | headers, method=method)
        try:
            with urlopen(request, timeout=PATIENCE) as found:
                return Reply(found.status, found.headers, found.read())
        except HTTPError as error:
            with error:
                return Reply(error.code, error.headers, error.read())

    def chat(self, text: str = "hello", **fields: Any) -> Reply:
        return self.call("/v1/chat/completions", {
            "model": "m", "messages": [{"role": "user", "content": text}], **fields})

    def respond(self, found: Any = "hello", **fields: Any) -> Reply:
        return self.call("/v1/responses", {"model": "m", "input": found, **fields})


def settings(metric: Any = "chrf", samples: int = 4, model: str | None = None,
             allow: tuple[str, ...] = (), uncertainty: bool = False, abstain: float | None = None,
             **changes: Any) -> Settings:
    strategy = make_strategy("standard", metric)
    return Settings(Preset(model, samples, strategy),
                    methods=Methods(named_metrics(allow), frozenset({"standard", "aggregate"})),
                    measures=MeasureOptions(uncertainty, abstain),
                    **({"choosing_deadline": PATIENCE} | changes))


@contextmanager
def serving(upstream: str | Backend, chosen: Settings | None = None, *, record: Any = None,
            key: str | None = None, per_request: int = 16, retries: int = 0, grace: float = 30.0,
            first_request: float = 30.0, keep_alive: float = 75.0, idle: float | None = None,
            connect: float = 10.0, concurrency: int = 256,
            queue: int = 1024) -> Iterator[Running]:
    """A server in front of this upstream, until the end of the block."""
    found = chosen or settings()
    limit = SampleLimit(concurrency, queue)
    if isinstance(upstream, str):
        client = Client(upstream, key, concurrency=concurrency, retries=retries, idle=idle,
                        timeout=None,
                        connect=connect, max_wait=5.0)
        upstream = UpstreamBackend(client, per_request)
    log: list[str] = []
    server = Server(upstream, found, limit, Recorder(str(record)) if record else None, log.append)
    running = Running("", server, log)
    started = threading.Event()
    failures: list[BaseException] = []

    def run() -> None:
        async def main() -> None:
            stop, loop = asyncio.Event(), asyncio.get_running_loop()
            running.stop = lambda: loop.call_soon_threadsafe(stop.set)
            running.tasks = lambda: asyncio.all_tasks(loop)

            def announce(url: str, problem: str | None) -> None:
                running.url = url.removesuffix("/v1")
                started.set()

            await serve(server, ListenConfig(port=0, grace=grace, first_request=first_request,
                                        keep_alive=keep_alive), announce, stop)

        try:
            asyncio.run(main())
        except BaseException as error:
            failures.append(error)
            started.set()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    assert started.wait(PATIENCE)
    if failures:
        raise failures[0]
    try:
        yield running
    finally:
        with suppress(RuntimeError):  # it may have stopped, and its loop be closed
            running.stop()
        thread.join(PATIENCE)
        if failures:
            raise failures[0]


def started(*args: object) -> tuple[subprocess.Popen[bytes], str]:
    """`minrisk serve` as a process, and its address."""
    process = spawn("serve", "--port", 0, *args)
    assert process.stderr is not None
    for line in process.stderr:
        if line.startswith(b"minrisk: serving at "):
            return process, line.split()[-1].decode().removesuffix("/v1")
    raise AssertionError(process.wait())
