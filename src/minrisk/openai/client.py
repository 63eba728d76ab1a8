"""The HTTP client: connection pooling, retries, timeouts, size limits, and masking of the key.

aiohttp is imported only to connect, so that samplers and metrics can be listed without it.
"""

from __future__ import annotations

import asyncio
import json
import random
from asyncio import sleep
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from minrisk._core.errors import MinriskError, UnusableError, needs_extra
from minrisk.openai.encoding import (
    LARGE,
    Check,
    Encoder,
    Mask,
    Parsed,
    is_large,
    parsed,
    parsed_event,
)
from minrisk.openai.errors import (
    BadRequestError,
    Detail,
    ErrorResponse,
    InvalidResponse,
    ServerError,
    TemporaryError,
    UnusableServerError,
    error_response,
    seconds_to_wait,
)
from minrisk.openai.responses import (
    DONE,
    StreamedResponse,
    StreamMask,
    error_of_event,
    read_events,
)

if TYPE_CHECKING:
    import aiohttp

FIRST_PAUSE = 1.0  # seconds before the first retry; doubles with each retry
MAX_BODY = 2**27  # maximum bytes of a response
_MAX_ERROR_BODY = 2**16
_MAX_WAIT = 600.0  # maximum seconds of a Retry-After header
_CONNECT = 30.0  # seconds to establish a connection
_MAX_FAILURES = 3  # consecutive failed requests after which the server counts as down
_TEMPORARY = {408, 425, 429}  # status codes to retry, besides 5xx
_BAD_REQUEST = {400, 413, 422}
_HINTS = {401: "check the key in the environment", 403: "check the key in the environment",
          404: "check the endpoint and the model", 402: "check the account"}


@dataclass(frozen=True)
class Response:
    """A response of a server: parsed JSON, and its headers."""

    body: Any
    headers: Mapping[str, str]
    is_large: bool = False  # whether to read its choices outside the event loop
    raw: bytes | None = None  # the server's, if they say the same as `body` and were asked for


Compute = Callable[..., Awaitable[Any]]  # runs a module-level function, e.g. in another process
Receive = Callable[[dict[str, Any]], Awaitable[None]]  # is called with each chunk of a stream


@dataclass
class Health:
    """Successes and failures of a server so far, shared by successive connections."""

    works: bool = False  # whether it has ever answered a request
    failures: int = 0  # requests given up since its last answer


class Client:
    """Requests to one server, at most `concurrency` at a time, each within `timeout` seconds.

    Transient errors are retried with exponential backoff. `UnusableError` is raised at once if the
    server has never answered and cannot be reached, or if it rejects the key or the model. Once it
    has answered, `UnusableError` is raised when a request is given up because there is no
    connection, or when three consecutive requests are given up because of transient errors; a
    single one may be the fault of its prompt. `connect` and `idle` are the timeouts, in seconds, to
    establish a connection and between two bytes of a response; a request is not retried if the
    server asks to wait for more than `max_wait` seconds. `compute` may parse large responses in
    another process. Without `timeout`, the caller has to set a deadline.
    """

    def __init__(self, url: str, key: str | None = None, *, concurrency: int = 8,
                 timeout: float | None = 600.0, retries: int = 6, max_body: int | None = None,
                 health: Health | None = None, connect: float = _CONNECT,
                 idle: float | None = None, max_wait: float = _MAX_WAIT) -> None:
        self._url = url.rstrip("/")
        self._key = key
        self.mask = Mask(key)
        self._slots = asyncio.Semaphore(concurrency)
        self._timeout = timeout
        self._retries = retries
        self._max_body = max_body or MAX_BODY
        self._health = health or Health()
        self._connect = connect
        self._idle = idle
        self._max_wait = max_wait
        self._proxy = _proxy(url)
        self._encoder = Encoder()
        self.compute: Compute | None = None

    async def __aenter__(self) -> Self:
        aiohttp = _aiohttp()
        headers = {"Content-Type": "application/json", "Accept-Encoding": "identity"}
        if self._key:
            headers["Authorization"] = f"Bearer {self._key}"
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0),  # our semaphore limits connections
            timeout=aiohttp.ClientTimeout(total=self._timeout, sock_connect=self._connect,
                                          sock_read=self._idle),
            headers=headers, cookie_jar=aiohttp.DummyCookieJar(), auto_decompress=False)
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None,
                        traceback: TracebackType | None) -> None:
        await self._session.close()

    async def get(self, path: str) -> Response:
        """The response to a GET request, without retries."""
        return await self._once("GET", f"{self._url}/{path}", None, None)

    async def probe(self, path: str) -> Response:
        """The response to an empty object, without retries; most often an error."""
        return await self._once("POST", f"{self._url}/{path}", b"{}", None)

    async def post(self, path: str, body: Mapping[str, Any], check: Check | None = None,
                   keep_raw: bool = False) -> Response:
        """The response to this body; transient errors are retried."""
        return await self._post(path, body, check, None, keep_raw)

    async def stream(self, path: str, body: Mapping[str, Any], receive: Receive,
                     check: Check | None = None) -> Response:
        """The response to this body; `receive` gets each chunk of a stream as it arrives.

        Transient errors are retried until the first chunk. Servers may ignore `stream`.
        """
        return await self._post(path, body, check, _Chunks(receive))

    async def _post(self, path: str, body: Mapping[str, Any], check: Check | None,
                    chunks: _Chunks | None, keep_raw: bool = False) -> Response:
        url, content = f"{self._url}/{path}", await self._encoder.encode(body)
        async with self._slots:
            for attempt in range(self._retries + 1):
                try:
                    response = await self._once("POST", url, content, check, chunks, keep_raw)
                except TemporaryError as error:
                    if _is_cancelled():  # a simultaneous timeout replaced the CancelledError
                        raise asyncio.CancelledError from None
                    if attempt == self._retries or (chunks and chunks.received):
                        raise self._give_up(error) from error
                    await self._pause(error, attempt)
                else:
                    self._health.works, self._health.failures = True, 0
                    return response
        raise AssertionError("the last attempt returns or raises")

    async def _once(self, method: str, url: str, content: bytes | None, check: Check | None,
                    chunks: _Chunks | None = None, keep_raw: bool = False) -> Response:
        aiohttp = _aiohttp()
        try:
            # the key must not be sent to the target of a redirect
            async with self._session.request(method, url, data=content, allow_redirects=False,
                                             proxy=self._proxy) as response:
                if _is_success(response.status):
                    self._check_encoding(response.headers, url)
                if chunks and _is_success(response.status) and (
                        response.content_type == "text/event-stream"):
                    return await self._relay(response, url, chunks, check)
                raw = await self._read(response)
        except (aiohttp.ClientError, OSError) as error:
            failure = self._transport_error(error, url)
        else:
            if _is_success(response.status):
                found = await self._parsed(parsed, raw, check)
                kept = bytes(raw) if keep_raw and found.is_unchanged else None
                is_large = len(raw) > LARGE
                raw.clear()  # frees memory that the traceback of an error would keep alive
                return self._checked(found, url, response.headers, is_large, kept)
            text = raw.decode("utf-8", "replace")
            failure = self._status_error(response, text, url)
            headers = {name: self.mask.text(value) for name, value in response.headers.items()}
            failure.response = ErrorResponse(response.status, self.mask.body(text), headers)
        raise failure  # outside `except`: the original error may contain the key

    async def _read(self, response: aiohttp.ClientResponse) -> bytearray:
        """The body, within the deadline of the request."""
        is_success = _is_success(response.status)
        limit = self._max_body if is_success else _MAX_ERROR_BODY
        content = bytearray()
        async for chunk in response.content.iter_any():
            content += chunk
            if len(content) > limit:
                response.close()
                if is_success:
                    raise _TooLargeError
                break
        return content

    async def _relay(self, response: aiohttp.ClientResponse, url: str, chunks: _Chunks,
                     check: Check | None) -> Response:
        """Pass on all chunks of a stream; returns the response that they add up to."""
        whole, stream = StreamedResponse(), StreamMask(self.mask)
        try:
            async for data in read_events(self._limited(response)):
                if data == DONE:
                    break
                for chunk in stream.masked(await self._chunk(data, url)):
                    whole.add(chunk)
                    await chunks.send(chunk)
            else:
                if not whole.is_finished:
                    raise TemporaryError(f"{url}: the stream ended before its response did")
            if rest := stream.rest:
                whole.add(rest)
                await chunks.send(rest)
            body = whole.body
            problem = check(body) if check else None
            return self._checked(Parsed(body, problem), url, response.headers, is_large(body))
        except (ValueError, RecursionError) as error:
            if isinstance(error, MinriskError):
                raise
            raise self._bad_stream(url, str(error)) from None

    async def _limited(self, response: aiohttp.ClientResponse) -> AsyncIterator[bytes]:
        size = 0
        async for piece in response.content.iter_any():
            size += len(piece)
            if size > self._max_body:
                raise _TooLargeError
            yield piece

    async def _chunk(self, data: str, url: str) -> dict[str, Any]:
        """The JSON object of an event; an error event is raised."""
        event = await self._parsed(parsed_event, data.encode())
        if event.problem is not None:
            raise self._bad_stream(url, event.problem.text)
        found: dict[str, Any] = event.found
        problem = error_of_event(found)
        if problem is None:
            return found
        content = data if "error" in found else json.dumps({"error": problem})
        detail = Detail.of(content).changed(self.mask.text)
        error = ServerError(f"{url}: {self.mask.line(detail.text)}", None, detail)
        error.response = ErrorResponse(_status_of(problem), self.mask.body(content), {})
        raise error

    def _bad_stream(self, url: str, reason: str) -> ServerError:
        return ServerError(f"{url}: the stream has an event that is no JSON, or too large or too "
                           f"deep: {reason}; check the endpoint")

    async def _parsed(self, parse: Callable[..., Parsed], content: bytes | bytearray,
                      *args: Any) -> Parsed:
        """The parsed content; `compute` parses large content."""
        if self.compute is None or len(content) <= LARGE:
            return parse(content, self.mask, *args)
        found: Parsed = await self.compute(parse, content, self.mask, *args)
        return found

    def _check_encoding(self, headers: Mapping[str, str], url: str) -> None:
        coding = headers.get("Content-Encoding", "identity")
        if coding.lower() != "identity":  # a compressed body may expand beyond any limit
            raise ServerError(f"{url}: the response is compressed ({self.mask.line(coding)}), "
                              "which was not requested; check the server or its proxy")

    def _checked(self, content: Parsed, url: str, headers: Mapping[str, str], is_large: bool,
                 raw: bytes | None = None) -> Response:
        if content.problem is not None:
            raise self._incomplete(content.problem, f"{url}: {content.problem.text}")
        return Response(content.found, headers, is_large, raw)

    def _incomplete(self, problem: InvalidResponse, message: str) -> MinriskError:
        if problem.is_temporary:
            return TemporaryError(message)
        kind = ServerError if self._health.works else UnusableError
        return kind(f"{message}; check the endpoint{self._hint()}")

    def _hint(self) -> str:
        """A hint for messages if the address lacks the usual /v1."""
        return "" if self._url.endswith("/v1") else "; its address often ends in /v1"

    def _status_error(self, response: aiohttp.ClientResponse, raw: str,
                      url: str) -> ServerError | UnusableServerError:
        """The error for a status other than 2xx."""
        status, detail = response.status, Detail.of(raw).changed(self.mask.text)
        words = detail.text.strip() or response.reason or ""
        message = f"{url}: {status} {self.mask.line(words)}"
        if detail.code == "insufficient_quota":  # OpenAI sends it with 429, which is else transient
            return UnusableServerError(f"{message}; check the account")
        if status in _TEMPORARY or status >= 500:
            wait = seconds_to_wait(response.headers.get("Retry-After"))
            return TemporaryError(message, status, detail, wait=wait)
        is_flagged = status == 403 and self._health.works  # the prompt was refused, not the key
        if status in _BAD_REQUEST or is_flagged:
            return BadRequestError(message, status, detail)
        hint = _HINTS.get(status, "check the endpoint") + (self._hint() if status == 404 else "")
        return UnusableServerError(f"{message}; {hint}")

    def _transport_error(self, error: Exception,
                         url: str) -> ServerError | UnusableServerError:
        """The error for a request without a complete response."""
        aiohttp = _aiohttp()
        reason = self.mask.line(str(getattr(error, "os_error", error)) or type(error).__name__)
        if isinstance(error, _TooLargeError):
            return ServerError(f"{url}: the response is larger than {self._max_body:,} bytes; "
                               "request fewer or shorter samples at a time")
        if isinstance(error, getattr(aiohttp, "SocketTimeoutError", ())):
            return TemporaryError(f"{url}: the response stopped for {self._idle:g} s")
        if isinstance(error, aiohttp.ClientConnectorError | aiohttp.ServerTimeoutError):
            message = f"cannot reach {url}: {reason}; check the address, and that the server runs"
            return (TemporaryError(message, unreachable=True) if self._health.works
                    else UnusableServerError(message))
        if isinstance(error, TimeoutError):
            within = "in time" if self._timeout is None else f"within {self._timeout:g} s"
            return TemporaryError(f"{url}: no whole response {within}")
        return TemporaryError(f"{url}: the connection broke: {reason}")

    def _give_up(self, error: TemporaryError) -> MinriskError:
        self._health.failures += 1
        message = (f"{error}; gave up after {self._retries} retries; try again later, with a "
                   "smaller concurrency, or with more retries")
        is_down = error.unreachable or self._health.failures >= _MAX_FAILURES
        is_unusable = is_down or not self._health.works
        failure = (UnusableServerError(message) if is_unusable
                   else ServerError(message, error.status, error.detail))
        failure.response = error_response(error)
        return failure

    async def _pause(self, error: TemporaryError, attempt: int) -> None:
        if error.wait > self._max_wait:
            failure = UnusableServerError(f"{error}; the server requests a delay of "
                                          f"{error.wait:.0f} s; try again then")
            failure.response = error_response(error)
            raise failure from None
        # jitter, so that requests that failed together are not retried together
        longest = 1.5 * error.wait if error.wait else FIRST_PAUSE * 2**attempt
        await sleep(max(error.wait, longest * random.uniform(0.5, 1.0)))


@dataclass
class _Chunks:
    """Passes chunks of a stream to a receiver, and counts them."""

    receive: Receive
    received: int = 0

    async def send(self, chunk: dict[str, Any]) -> None:
        self.received += 1
        await self.receive(chunk)


class _TooLargeError(OSError):
    """A response above the maximum size."""


def _is_success(status: int) -> bool:
    return 200 <= status < 300


def _is_cancelled() -> bool:
    """Whether the running task has been cancelled."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def _status_of(error: Any) -> int:
    """The status in an error object of a stream; 500 if it has none."""
    code = error.get("code") if isinstance(error, dict) else None
    return code if isinstance(code, int) and 400 <= code < 600 else 500


def _proxy(url: str) -> str | None:
    """The proxy from the environment, without aiohttp's use of ~/.netrc."""
    parts = urlsplit(url)
    return None if proxy_bypass(parts.netloc) else getproxies().get(parts.scheme)


def _aiohttp() -> Any:
    with needs_extra("OpenAI's protocol", "openai"):
        return import_module("aiohttp")
