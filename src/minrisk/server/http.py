"""HTTP for all routes: authentication, write timeouts, listening and shutdown."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import ipaddress
import json
import os
import re
import signal
import sys
import threading
from base64 import b64decode
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from aiohttp import web

from minrisk._core.errors import InputError
from minrisk.openai.background import cancel_all
from minrisk.server.monitoring import now
from minrisk.server.responses import ApiError

if TYPE_CHECKING:
    from minrisk.server.app import Server

# CORS: headers that pages of another origin may send, and those that they may read
_REQUEST_HEADERS = ("authorization", "content-type", "x-request-id")
_RESPONSE_HEADERS = ("x-request-id",)
_SOFTWARE = "minrisk"  # without versions
_TOO_LARGE = 413
_CHUNK = 1 << 16  # bytes of a response per write
_SHUTDOWN = 0.1  # seconds for handlers that are still running after the grace period
_SLACK = 1.8  # seconds after the grace period until the process exits unconditionally
_BACKLOG = 1024  # limit of connections waiting to be accepted
_SIGNALS = [number for name in ("SIGTERM", "SIGINT", "SIGHUP")
            if (number := getattr(signal, name, None)) is not None]  # Windows has no SIGHUP


# access


@dataclass(frozen=True)
class Hosts:
    """The host names that a server on loopback accepts, as protection against DNS rebinding.

    Otherwise a web page could read answers: its owner can make its host name resolve to the
    machine of the browser.
    """

    names: frozenset[str] | None = None  # None: any

    def check(self, header: str) -> None:
        """Raise ApiError unless a Host header is accepted."""
        if not self.accept(header):
            raise ApiError(421, f"this server is not {header!r:.80}; its operator can allow the "
                           "name with --allow-host", code="unknown_host")

    def accept(self, header: str) -> bool:
        """Whether a Host header has one of the names, or a loopback address."""
        if self.names is None or not header:
            return True
        name = header.rpartition(":")[0] if re.search(r":\d*$", header) else header
        name = name.strip("[]").rstrip(".").lower()
        return name in self.names or is_loopback(name)


def is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


class Keys:
    """The accepted API keys; only their digests are kept in memory."""

    def __init__(self, keys: Iterable[str] = ()) -> None:
        self._digests = [_digest(key) for key in keys]

    def __bool__(self) -> bool:
        return bool(self._digests)

    def check(self, header: str, is_page: bool) -> None:
        """Raise ApiError unless an Authorization header is accepted; the page takes passwords, too,
        because browsers can send them.
        """
        if not self or self.accept(header) or (is_page and self.accept_password(header)):
            return
        raise ApiError(401, "the key is missing or wrong; send it as 'Authorization: Bearer KEY'",
                       code="invalid_api_key", headers={
                           "WWW-Authenticate": 'Basic realm="minrisk", charset="UTF-8"'
                           if is_page else "Bearer"})

    def accept(self, header: str) -> bool:
        """Whether an Authorization header has one of the keys, compared in constant time."""
        kind, _, key = header.partition(" ")
        given = _digest(key.strip())
        matches = [hmac.compare_digest(given, known) for known in self._digests]
        return kind.lower() == "bearer" and any(matches)

    def accept_password(self, header: str) -> bool:
        """Whether a browser's Authorization header has one of the keys as its password."""
        kind, _, encoded = header.partition(" ")
        try:
            _, _, password = b64decode(encoded.strip()).decode().partition(":")
        except ValueError:
            return False
        return kind.lower() == "basic" and self.accept(f"Bearer {password}")


def _digest(key: str) -> bytes:
    return hashlib.sha256(key.encode("utf-8", "surrogateescape")).digest()


def cors(origin: str | None) -> dict[str, str]:
    """Headers of all responses that let pages of this origin read them."""
    return {} if origin is None else {
        "access-control-allow-origin": origin,
        "access-control-expose-headers": ", ".join(_RESPONSE_HEADERS)}


PREFLIGHT = {"access-control-allow-methods": "GET, POST",
             "access-control-allow-headers": ", ".join(_REQUEST_HEADERS)}


# responses


def http_error(error: web.HTTPException, request: web.Request, max_body: int) -> ApiError:
    """The API error for one that aiohttp raises: unknown path, wrong method or body too large."""
    if error.status == _TOO_LARGE:
        return ApiError(_TOO_LARGE, f"the request is larger than {max_body >> 20} MB; send less, "
                        "or ask the operator for a larger --max-body",
                        headers={"connection": "close"})
    allowed = error.headers.get("Allow")
    return ApiError(error.status, f"{error.reason}: {request.method} {request.path[:200]}",
                    headers={} if allowed is None else {"Allow": allowed})


async def hide_version(_: web.Request, response: web.StreamResponse) -> None:
    response.headers["Server"] = _SOFTWARE


async def write(request: web.Request, response: web.StreamResponse,
                seconds: float) -> web.StreamResponse:
    """Write a whole response in pieces, with a timeout for each: slow clients are not cut off."""
    body = response.body if isinstance(response, web.Response) else None
    if not isinstance(body, bytes) or len(body) <= _CHUNK or request.method == "HEAD":
        await in_time(request, _write_at_once(request, response), seconds)
        return response
    response = web.StreamResponse(status=response.status, headers=response.headers)
    response.content_length = len(body)
    await in_time(request, response.prepare(request), seconds)
    for start in range(0, len(body), _CHUNK):
        await in_time(request, response.write(body[start:start + _CHUNK]), seconds)
    await in_time(request, response.write_eof(), seconds)
    return response


async def _write_at_once(request: web.Request, response: web.StreamResponse) -> None:
    await response.prepare(request)
    await response.write_eof()


async def in_time(request: web.Request, writing: Awaitable[object], seconds: float) -> None:
    """Wait for a write; disconnect the client if it takes longer than this."""
    try:
        async with asyncio.timeout(seconds):
            await writing
    except TimeoutError:
        if request.transport is not None:
            request.transport.abort()
        raise ConnectionAbortedError("the client does not read") from None


# the server


class _Connection(web.RequestHandler):
    """A connection that answers malformed requests with OpenAI's error object.

    It logs them without their content, which may contain a key.
    """

    def __init__(self, manager: web.Server, write_log: Callable[[str], None],
                 **options: Any) -> None:
        super().__init__(manager, **options)
        self._write_log = write_log

    def handle_error(self, request: web.BaseRequest, status: int = 500,
                     exc: BaseException | None = None, message: str | None = None
                     ) -> web.StreamResponse:
        super().handle_error(request, status, exc, message)  # raises if a response was started
        error = ApiError(status, "invalid HTTP request, or headers that are too long or too many")
        response = web.Response(status=status, text=error.content, content_type="application/json",
                                headers={"Server": _SOFTWARE})
        response.force_close()
        return response

    def log_exception(self, *args: Any, **options: Any) -> None:
        error = options.get("exc_info")
        kind = type(error) if isinstance(error, BaseException) else sys.exc_info()[0] or Exception
        self._write_log(json.dumps({"time": now(), "route": "unknown", "error": kind.__name__}))


@dataclass(frozen=True)
class ListenConfig:
    """Listening address and timeouts."""

    host: str = "127.0.0.1"
    port: int = 8001
    grace: float = 30.0  # seconds for unfinished requests at shutdown
    first_request: float = 30.0  # seconds within which a new connection must send a request
    keep_alive: float = 75.0  # seconds until an idle connection is closed
    shares_port: bool = False  # with other processes of this server
    loads_first: bool = False  # listen when the models are loaded: others answer meanwhile


async def serve(server: Server, config: ListenConfig,
                announce: Callable[[str, str | None], None] = lambda url, problem: None,
                stop: asyncio.Event | None = None) -> None:
    """Answer requests until a signal arrives or `stop` is set.

    `announce` gets the address, and the reason why completions would fail, if they would.
    """
    runner = web.AppRunner(server.application(), handler_cancellation=True,
                           shutdown_timeout=_SHUTDOWN)
    await runner.setup()
    ending = _on_signals(stop or asyncio.Event(), config.grace + _SLACK)
    try:
        await _run(server, runner, config, announce, ending)
    finally:
        await runner.cleanup()
        await server.close()


async def _run(server: Server, runner: web.AppRunner, config: ListenConfig,
               announce: Callable[[str, str | None], None], ending: asyncio.Event) -> None:
    listening = None if config.loads_first else await _listen(server, runner, config)
    end = asyncio.ensure_future(ending.wait())
    loading = asyncio.ensure_future(server.open())
    try:
        await asyncio.wait({loading, end}, return_when=asyncio.FIRST_COMPLETED)
        if loading.done():
            loading.result()
            listening = listening or await _listen(server, runner, config)
            host, port = listening.sockets[0].getsockname()[:2]
            announce(f"http://{f'[{host}]' if ':' in host else host}:{port}/v1",
                     await server.problem())
        await end
        await server.drain(config.grace)
    finally:
        await cancel_all(loading, end)
        if listening is not None:
            listening.close()


async def _listen(server: Server, runner: web.AppRunner, config: ListenConfig) -> asyncio.Server:
    loop = asyncio.get_running_loop()

    def protocol() -> Any:
        """A connection that is closed if it sends no request in time (slowloris attacks)."""
        assert runner.server is not None
        connection = _Connection(runner.server, server.write_log, loop=loop, access_log=None,
                                 keepalive_timeout=config.keep_alive,
                                 auto_decompress=False)  # it would block the event loop
        server.silent.add(connection)
        loop.call_later(config.first_request, close_if_silent, connection)
        return connection

    def close_if_silent(connection: Any) -> None:
        if connection in server.silent:
            server.silent.discard(connection)
            if connection.transport is not None:
                connection.transport.abort()

    try:
        return await loop.create_server(protocol, config.host, config.port, backlog=_BACKLOG,
                                        reuse_port=config.shares_port or None)
    except OSError as error:
        raise InputError(f"cannot listen on {config.host}:{config.port}: "
                         f"{error.strerror or error}; choose another --port") from None


def _on_signals(event: asyncio.Event, seconds: float) -> asyncio.Event:
    """Make signals set the event; the process then exits within this many seconds."""
    loop = asyncio.get_running_loop()

    def stop() -> None:
        event.set()
        # a thread that loads or runs a model would keep the process alive
        timer = threading.Timer(seconds, os._exit, (0,))
        timer.daemon = True
        timer.start()

    for number in _SIGNALS:
        with suppress(ValueError, RuntimeError):  # only the main thread may handle signals
            loop.add_signal_handler(number, stop)
    return event
