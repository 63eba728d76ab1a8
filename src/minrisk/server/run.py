"""Run a server: listen, load, answer, and shut down after the unfinished requests."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from aiohttp import web

from minrisk._core.errors import InputError
from minrisk.openai.background import cancel_all
from minrisk.server.app import Server

_SHUTDOWN = 0.1  # seconds for handlers that are left after the grace
_SLACK = 1.8  # seconds beyond the grace, after which the process ends whatever it does
_BACKLOG = 1024  # connections that wait to be accepted
_SIGNALS = [number for name in ("SIGTERM", "SIGINT", "SIGHUP")
            if (number := getattr(signal, name, None)) is not None]  # Windows has no SIGHUP


@dataclass(frozen=True)
class ListenConfig:
    """Listening address and timeouts."""

    host: str = "127.0.0.1"
    port: int = 8001
    grace: float = 30.0  # seconds for unfinished requests at shutdown
    first_request: float = 30.0  # seconds until a new connection must send one
    keep_alive: float = 75.0  # seconds until a connection must send the next one


async def serve(server: Server, config: ListenConfig,
                announce: Callable[[str, str | None], None] = lambda url, problem: None,
                stop: asyncio.Event | None = None) -> None:
    """Answer requests until a signal, or `stop`.

    `announce` gets the address, and the reason why completions will fail, if they will.
    """
    runner = web.AppRunner(server.application(), handler_cancellation=True, access_log=None,
                           keepalive_timeout=config.keep_alive, shutdown_timeout=_SHUTDOWN)
    await runner.setup()
    ending = _on_signals(stop or asyncio.Event(), config.grace + _SLACK)
    try:
        listening = await _listen(server, runner, config)
        try:
            await _run(server, listening, config, announce, ending)
        finally:
            listening.close()
    finally:
        await runner.cleanup()
        await server.close()


async def _run(server: Server, listening: asyncio.Server, config: ListenConfig,
               announce: Callable[[str, str | None], None], ending: asyncio.Event) -> None:
    end = asyncio.ensure_future(ending.wait())
    loading = asyncio.ensure_future(server.open())
    try:
        await asyncio.wait({loading, end}, return_when=asyncio.FIRST_COMPLETED)
        if loading.done():
            loading.result()
            host, port = listening.sockets[0].getsockname()[:2]
            announce(f"http://{f'[{host}]' if ':' in host else host}:{port}/v1",
                     await server.problem())
        await end
        await server.drain(config.grace)
    finally:
        await cancel_all(loading, end)


async def _listen(server: Server, runner: web.AppRunner, config: ListenConfig) -> asyncio.Server:
    loop = asyncio.get_running_loop()

    def protocol() -> Any:
        """A connection that is closed if it sends no request in time (slow loris)."""
        found: Any = runner.server()  # type: ignore[misc]
        server.silent.add(id(found))
        loop.call_later(config.first_request, close_if_silent, found)
        return found

    def close_if_silent(connection: Any) -> None:
        if id(connection) in server.silent:
            server.silent.discard(id(connection))
            if connection.transport is not None:
                connection.transport.abort()

    try:
        return await loop.create_server(protocol, config.host, config.port, backlog=_BACKLOG)
    except OSError as error:
        raise InputError(f"cannot listen on {config.host}:{config.port}: "
                         f"{error.strerror or error}; choose another --port") from None


def _on_signals(event: asyncio.Event, seconds: float) -> asyncio.Event:
    """The event, which a signal sets; the process then ends within these seconds."""
    loop = asyncio.get_running_loop()

    def stop() -> None:
        event.set()
        # a model that is loaded or computes in a thread would hold the process up
        timer = threading.Timer(seconds, os._exit, (0,))
        timer.daemon = True
        timer.start()

    for number in _SIGNALS:
        with suppress(ValueError, RuntimeError):  # only the main thread may handle signals
            loop.add_signal_handler(number, stop)
    return event
