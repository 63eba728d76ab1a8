"""The routes of the server, and the middleware of every request."""

from __future__ import annotations

import asyncio
import json
import os
import re
import secrets
import time
import traceback
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable, Mapping
from contextlib import asynccontextmanager
from contextvars import ContextVar
from typing import Any, TypeVar

from aiohttp import web

from minrisk._core.errors import MinriskError
from minrisk._core.signature import signature
from minrisk.openai.background import cancel_all
from minrisk.openai.completions import API
from minrisk.openai.encoding import LARGE, Encoder
from minrisk.server.backends import Backend
from minrisk.server.client_request import ClientRequest, read_json, read_request
from minrisk.server.completion_handler import CompletionHandler
from minrisk.server.errors import ABSTAINED, ApiError, upstream_error
from minrisk.server.executor import RankingExecutor
from minrisk.server.limits import SampleLimit
from minrisk.server.page import RecentRequests
from minrisk.server.prometheus import OTHER, ServerMetrics
from minrisk.server.ranking import read_ranking_request
from minrisk.server.recording import Recorder
from minrisk.server.responses import (
    END,
    chunks,
    event,
    headers_of,
    judge_usage_field,
    measurements,
    shown,
)
from minrisk.server.sample_collector import SampleCollector, new_collector
from minrisk.server.settings import Settings
from minrisk.server.tracing import CLIENT_LEFT, Trace, log

_OPEN_ROUTES = ("/health", "/ready")  # these need no key
_STREAM_HEADERS = {"content-type": "text/event-stream; charset=utf-8",
                   "cache-control": "no-cache", "x-accel-buffering": "no"}
_ID = re.compile(r"[\x21-\x7e]{1,128}")
_FIRST_ERROR = 400  # statuses from here on
_TOO_LARGE = 413
_PIECE = 1 << 16  # bytes of a response that are written at a time
_LAST_WORDS = 1.0  # seconds to tell clients that the server stops
_PAGE_HEADERS = {"cache-control": "no-store", "content-security-policy": "frame-ancestors 'none'"}
_trace: ContextVar[Trace] = ContextVar("trace")  # of the current request

T = TypeVar("T")
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
CompletionTask = asyncio.Task[dict[str, Any]]  # its result is the body of a completion


class Server:
    """Answers OpenAI's protocol with the best of the samples of a backend."""

    def __init__(self, backend: Backend, settings: Settings, limit: SampleLimit,
                 recorder: Recorder | None = None,
                 write_log: Callable[[str], None] = log) -> None:
        self._backend = backend
        self._settings = settings
        self._log = write_log
        self._recorder = recorder
        self._is_loaded = self._is_draining = False
        self._handling: set[asyncio.Task[Any]] = set()  # of all requests
        self._running: set[asyncio.Task[Any]] = set()  # their work, which a deadline may end
        self._encoder = Encoder()
        self._recent = RecentRequests(settings.weighting) if settings.show_page else None
        self._page_turn = asyncio.Lock()  # one page is made at a time
        self._limit = limit
        self.silent: set[int] = set()  # connections without any request yet
        self.metrics = ServerMetrics(lambda: len(self._running), lambda: limit.requests_waiting,
                                     lambda: limit.in_use)
        self._executor = RankingExecutor(os.cpu_count() or 1, self.metrics.count_judge_usage)
        self._completion_handler = CompletionHandler(
            backend, settings, limit, self._executor, self.metrics, recorder, self._recent)

    def application(self) -> web.Application:
        app = web.Application(middlewares=[self._middleware],
                              client_max_size=self._settings.max_body)
        app.on_response_prepare.append(_hide_version)
        app.add_routes([
            web.post("/v1/chat/completions", self._chat),
            web.post("/v1/completions", self._completions),
            web.post("/v1/rank", self._rank),
            web.get("/v1/models", self._models),
            web.get("/v1/models/{id:.+}", self._model),
            web.get("/health", self._health),
            web.get("/ready", self._ready),
            web.get("/metrics", self._metrics),
            *([web.get("/", self._page)] if self._settings.show_page else []),
            *([web.options("/v1/{rest:.*}", self._preflight)] if self._settings.allow_origin
              else []),
        ])
        return app

    async def open(self) -> None:
        """Connect to the backend, and load the models; before that, the server is not ready."""
        await self._executor.open()
        await self._backend.open(self._executor.run)
        await asyncio.to_thread(self._settings.prepare)
        self._is_loaded = True

    async def close(self) -> None:
        await self._executor.close()
        await self._backend.close()
        if self._recorder is not None:
            await asyncio.to_thread(self._recorder.close)

    async def drain(self, seconds: float) -> None:
        """Refuse new requests, and cancel those that are unfinished after `seconds`."""
        self._is_draining = True
        others = self._handling - {asyncio.current_task()}
        if others:
            await asyncio.wait(others, timeout=seconds)
        await cancel_all(*self._running)
        if others:  # which say that the server stops
            await asyncio.wait(others, timeout=_LAST_WORDS)

    # every request

    @web.middleware
    async def _middleware(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Assign a request id, log the request, and count it."""
        given = request.headers.get("x-request-id", "")
        trace = Trace(given if _ID.fullmatch(given) else f"req_{secrets.token_hex(12)}",
                      _route(request))
        _trace.set(trace)
        self.silent.discard(id(request.protocol))
        status = CLIENT_LEFT
        task = asyncio.current_task()
        assert task is not None
        self._handling.add(task)
        try:
            try:
                response = await self._respond(request, handler, trace)
                status = response.status
            finally:  # before the client has its answer
                self._finish(trace, status)
            return response if response.prepared else await self._write(request, response)
        except ConnectionError as error:  # the client has disconnected
            if status != CLIENT_LEFT:  # which the line of the request does not say
                self._log(json.dumps({"id": trace.id, "error": str(error) or "disconnected"}))
            raise asyncio.CancelledError from None
        finally:
            self._handling.discard(task)

    async def _respond(self, request: web.Request, handler: Handler,
                        trace: Trace) -> web.StreamResponse:
        """The response; errors have OpenAI's form."""
        headers = {"x-request-id": trace.id} | self._cors()
        try:
            self._check_host(request)
            self._check_key(request)
            response = await handler(request)
            if not response.prepared:
                response.headers.update(headers)
            return response
        except web.HTTPException as error:
            failure = self._http_error(error, request)
        except ApiError as error:
            failure = error.with_traceback(None)  # whose frames may hold a large body
        except ConnectionError:
            raise
        except Exception as error:
            failure = self._internal_error(error, trace)
        trace.fields["error"] = failure.code or str(failure.status)
        return web.Response(status=failure.status, text=failure.content,
                            content_type="application/json", headers=failure.headers | headers)

    async def _write(self, request: web.Request,
                     response: web.StreamResponse) -> web.StreamResponse:
        """Write a whole response piece by piece: slow clients have time, others are disconnected.
        """
        pieces = []
        if isinstance(response, web.Response) and isinstance(response.body, bytes) and (
                len(response.body) > _PIECE and request.method != "HEAD"):
            body = response.body
            pieces = [body[start:start + _PIECE] for start in range(0, len(body), _PIECE)]
            response = web.StreamResponse(status=response.status, headers=response.headers)
            response.content_length = len(body)
        await self._in_time(request, response.prepare(request))
        for piece in pieces:
            await self._in_time(request, response.write(piece))
        await self._in_time(request, response.write_eof())
        return response

    async def _in_time(self, request: web.Request, writing: Awaitable[object]) -> None:
        """Wait until a client has read what is written, for so long."""
        try:
            async with asyncio.timeout(self._settings.write_timeout):
                await writing
        except TimeoutError:
            if request.transport is not None:
                request.transport.abort()
            raise ConnectionAbortedError("the client does not read") from None

    def _http_error(self, error: web.HTTPException, request: web.Request) -> ApiError:
        """An error of aiohttp itself: unknown path, wrong method, or a body that is too large."""
        if error.status == _TOO_LARGE:
            return ApiError(_TOO_LARGE, "the request is larger than "
                            f"{self._settings.max_body >> 20} MB; send less, or ask the operator "
                            "for a larger --max-body", headers={"connection": "close"})
        allowed = error.headers.get("Allow")
        return ApiError(error.status, f"{error.reason}: {request.method} {request.path[:200]}",
                        headers={} if allowed is None else {"Allow": allowed})

    def _internal_error(self, error: Exception, trace: Trace) -> ApiError:
        """Log an error without its message, which may contain texts of a client."""
        self._log(json.dumps({"id": trace.id, "error": type(error).__name__, "trace":
                              traceback.format_tb(error.__traceback__)}))
        return ApiError(500, "the server failed; its log says more under the request's id")

    def _check_host(self, request: web.Request) -> None:
        """Refuse the names of other hosts, by which pages could reach a server on loopback."""
        name = request.headers.get("Host", "")
        if not self._settings.hosts.accept(name):
            raise ApiError(421, f"this server is not {name!r:.80}; its operator can allow the name "
                           "with --allow-host", code="unknown_host")

    def _check_key(self, request: web.Request) -> None:
        keys = self._settings.keys
        is_open = request.path in _OPEN_ROUTES or request.method == "OPTIONS"
        if not keys or is_open:
            return
        header = request.headers.get("Authorization", "")
        is_page = request.path == "/"  # browsers send a password
        if not (keys.accept(header) or (is_page and keys.accept_password(header))):
            raise ApiError(401, "the key is missing or wrong; send it as "
                           "'Authorization: Bearer KEY'", code="invalid_api_key",
                           headers={"WWW-Authenticate": 'Basic realm="minrisk", charset="UTF-8"'
                                    if is_page else "Bearer"})

    def _cors(self) -> dict[str, str]:
        origin = self._settings.allow_origin
        return {} if origin is None else {"access-control-allow-origin": origin,
                                          "access-control-expose-headers": "x-request-id"}

    def _finish(self, trace: Trace, status: int) -> None:
        trace.seconds["request"] = time.monotonic() - trace.begin
        if trace.route in (*_OPEN_ROUTES, "/metrics", "/"):
            return
        self._log(trace.line(status))
        self.metrics.requests.add(1, trace.route, str(status),
                                  self._known_model(trace.fields.get("model")))
        for name, seconds in trace.seconds.items():
            self.metrics.seconds[name].add(seconds)
        is_failure = status >= _FIRST_ERROR and trace.fields.get("error") != ABSTAINED
        if self._recent is not None and is_failure:
            self._recent.add_failure(trace.failure(status))

    def _known_model(self, name: str | None) -> str:
        """A label of metrics; names that clients invent have none of their own."""
        settings = self._settings
        is_known = name is not None and (name in settings.aliases or name == settings.preset.model
                                         or self._backend.knows(name))
        return name if is_known and name is not None else OTHER

    # completions

    async def _chat(self, request: web.Request) -> web.StreamResponse:
        return await self._complete(request, "chat")

    async def _completions(self, request: web.Request) -> web.StreamResponse:
        return await self._complete(request, "completions")

    async def _complete(self, request: web.Request, api: API) -> web.StreamResponse:
        self._check_open()
        client_request = read_request(api, await self._body(request), self._settings)
        trace = _trace.get()
        trace.fields |= {"model": self._shown_model(client_request),
                         "stream": client_request.stream}
        collector = new_collector(client_request, self._settings, self._executor.run)
        async with self._started(
                self._completion_handler.complete(client_request, collector, trace)) as work:
            if client_request.stream:
                return await self._stream(request, client_request, collector, work)
            await asyncio.wait({work})
            body = _result(work)
            return await self._json(body, headers_of(body))

    @asynccontextmanager
    async def _started(self, answering: Coroutine[Any, Any, T]) -> AsyncIterator[asyncio.Task[T]]:
        """A task that ends with the request, and with the server."""
        work = asyncio.create_task(answering)
        self._running.add(work)
        work.add_done_callback(self._running.discard)
        try:
            yield work
        finally:
            await cancel_all(work)  # frees the upstream if the client has disconnected

    async def _outcome(self, answering: Coroutine[Any, Any, T]) -> T:
        """The result of work that ends with the request, and with the server."""
        async with self._started(answering) as work:
            await asyncio.wait({work})
            return _result(work)

    async def _json(self, body: Any, headers: Mapping[str, str] | None = None,
                    status: int = 200) -> web.Response:
        return web.Response(body=await self._encoder.encode(body), status=status, headers=headers,
                            content_type="application/json", charset="utf-8")

    def _check_open(self) -> None:
        if self._is_draining:
            raise ApiError(503, "the server is shutting down; retry later or on another server",
                           code="stopping", headers={"connection": "close", "retry-after": "1"})
        if not self._is_loaded:
            raise ApiError(503, "the server still loads its models", code="loading",
                           headers={"retry-after": "5"})

    def _shown_model(self, client_request: ClientRequest) -> str | None:
        """The model's name in log and metrics: the alias if the client named one."""
        given = client_request.given.get("model")
        is_alias = isinstance(given, str) and given in self._settings.aliases
        return given if is_alias else client_request.model

    async def _body(self, request: web.Request) -> dict[str, Any]:
        if request.content_type != "application/json":  # pages of other origins cannot send it
            raise ApiError(415, f"found content type {request.content_type[:60]!r}, wanted "
                           "application/json")
        seconds = self._settings.body_timeout
        try:
            async with asyncio.timeout(seconds):
                raw = await request.read()
        except TimeoutError:
            raise ApiError(408, f"the body did not come within {seconds:g} s",
                           headers={"connection": "close"}) from None
        if len(raw) <= LARGE:
            return read_json(raw)
        return await self._outcome(self._executor.run(read_json, raw))

    async def _stream(self, request: web.Request, client_request: ClientRequest,
                      collector: SampleCollector, work: CompletionTask) -> web.StreamResponse:
        """Stream the answer; headers wait for the first sample, so that errors have a status."""
        started = asyncio.ensure_future(collector.started.wait())
        try:
            await asyncio.wait([work, started], timeout=self._settings.heartbeat,
                               return_when=asyncio.FIRST_COMPLETED)
        finally:
            started.cancel()
        if work.done():
            _result(work)
        trace = _trace.get()
        passed = {"x-minrisk-passed-through": "true"} if client_request.passes_through else {}
        response = web.StreamResponse(headers=_STREAM_HEADERS | self._cors() | passed
                                      | {"x-request-id": trace.id})
        await response.prepare(request)
        await self._relay(request, response, collector, work)
        for one in await self._events(client_request, collector, work, trace):
            await self._in_time(request, response.write(one))
        await self._in_time(request, response.write_eof())
        return response

    async def _relay(self, request: web.Request, response: web.StreamResponse,
                     collector: SampleCollector, work: CompletionTask) -> None:
        """Send events as they come, and comments while there are none: proxies close silent
        streams.
        """
        while not (work.done() and collector.events.empty()):
            coming = asyncio.ensure_future(collector.events.get())
            try:
                await asyncio.wait({work, coming}, timeout=self._settings.heartbeat,
                                   return_when=asyncio.FIRST_COMPLETED)
                content = (coming.result() if coming.done()
                           else None if work.done() else b": waiting for samples\n\n")
            finally:  # also if the client leaves
                coming.cancel()
            if content is not None:
                await self._in_time(request, response.write(content))

    async def _events(self, client_request: ClientRequest, collector: SampleCollector,
                      work: CompletionTask, trace: Trace) -> Iterable[bytes]:
        """The last chunks, or an event with the error: the status has been sent."""
        try:
            body = _result(work)
            if collector.is_relayed:
                return [END]
            return [event(await self._encoder.encode(chunk))
                    for chunk in chunks(client_request, body)] + [END]
        except ApiError as error:
            failure = error.with_traceback(None)
        except Exception as error:
            failure = self._internal_error(error, trace)
        trace.fields["error"] = failure.code or str(failure.status)
        return [event(failure.content.encode())]

    # the other routes

    async def _rank(self, request: web.Request) -> web.Response:
        self._check_open()
        segment, strategy = read_ranking_request(await self._body(request), self._settings)
        trace = _trace.get()
        with trace.timing("choosing"):
            try:
                found = await self._outcome(self._completion_handler.rank(strategy, segment))
            except MinriskError as error:  # bad candidates, or a missing source
                raise ApiError(400, str(error)) from None
        ranking, judged = found.ranking, judge_usage_field(found.judge_usage)
        trace.fields |= judged
        return await self._json({
            "object": "minrisk.ranking",
            "results": [{"index": row, "utility": shown(ranking.utility[row])}
                        for row in ranking.order.tolist()],
            "minrisk": {"signature": signature(strategy), "pairs": ranking.pairs,
                        **measurements(found), **judged}})

    async def _models(self, _: web.Request) -> web.Response:
        return await self._json({"object": "list", "data": await self._list_models()})

    async def _model(self, request: web.Request) -> web.Response:
        name = request.match_info["id"]
        for model in await self._list_models():
            if model["id"] == name:
                return await self._json(model)
        raise ApiError(404, f"the model {name!r:.100} does not exist here", param="model",
                       code="model_not_found")

    async def _list_models(self) -> list[dict[str, Any]]:
        settings = self._settings
        own = [*settings.aliases, *([settings.preset.model] if settings.preset.model else [])]
        listed = [{"id": name, "object": "model", "created": 0, "owned_by": "minrisk"}
                  for name in own]
        if settings.preset.model is not None:
            return listed
        try:
            theirs = await self._backend.models()
        except MinriskError as error:
            raise upstream_error(error) from None
        return listed + [model for model in theirs if model["id"] not in own]

    async def _health(self, _: web.Request) -> web.Response:
        return await self._json({"status": "alive"})

    async def _ready(self, _: web.Request) -> web.Response:
        problem = await self.problem()
        if problem:
            return await self._json({"status": "not ready", "reason": problem}, status=503)
        return await self._json({"status": "ready"})

    async def problem(self) -> str | None:
        """The reason why completions fail now, if they do."""
        if self._is_draining:
            return "the server is shutting down"
        return await self._backend.problem() if self._is_loaded else "models are being loaded"

    async def _metrics(self, _: web.Request) -> web.Response:
        return web.Response(text=self.metrics.text(),
                            headers={"content-type": "text/plain; version=0.0.4; charset=utf-8"})

    async def _page(self, _: web.Request) -> web.Response:
        assert self._recent is not None
        state = {"ready": await self.problem() or "yes", "in flight": len(self._running),
                 "queued": self._limit.requests_waiting, "samples at once": self._limit.in_use}
        strategy, page = self._recent.snapshot(self._settings.preset.strategy, state)
        async with self._page_turn:
            content = await self._outcome(self._executor.run_with(strategy, page.render))
        return web.Response(body=content, content_type="text/html", charset="utf-8",
                            headers=_PAGE_HEADERS)

    async def _preflight(self, _: web.Request) -> web.Response:
        return web.Response(status=204, headers={
            "access-control-allow-methods": "GET, POST",
            "access-control-allow-headers": "authorization, content-type, x-request-id"})


async def _hide_version(_: web.Request, response: web.StreamResponse) -> None:
    response.headers["Server"] = "minrisk"


def _result(work: asyncio.Task[T]) -> T:
    """The result of a finished task; a cancelled task means that the server is shutting down."""
    if work.cancelled():
        raise ApiError(503, "the server is shutting down; retry later or on another server",
                       code="stopping")
    return work.result()


def _route(request: web.Request) -> str:
    """The declared route, so that clients cannot invent labels."""
    resource = request.match_info.route.resource
    return resource.canonical if resource is not None else "unknown"
