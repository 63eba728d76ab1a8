"""The HTTP routes of the server, and how a request becomes a completion."""

from __future__ import annotations

import asyncio
import json
import os
import re
import secrets
import traceback
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable, Mapping
from contextlib import asynccontextmanager, nullcontext
from contextvars import ContextVar
from typing import Any, TypeVar

from aiohttp import web

from minrisk._core.errors import MinriskError
from minrisk._core.sampler import Sample, columns
from minrisk._core.signature import signature
from minrisk.io.formats import json_line
from minrisk.openai.background import cancel_all
from minrisk.openai.completions import API
from minrisk.openai.encoding import LARGE, Encoder
from minrisk.server.backends import Backend
from minrisk.server.choosing import (
    Chosen,
    Question,
    RankedSegment,
    comparable,
    read_candidates,
    shown,
)
from minrisk.server.executor import RankingExecutor
from minrisk.server.http import PREFLIGHT, cors, hide_version, http_error, in_time, write
from minrisk.server.monitoring import (
    CLIENT_LEFT,
    OTHER,
    RecentRequests,
    Recorder,
    RequestRecord,
    ServerMetrics,
    Trace,
    log,
    now,
    usage_counts,
)
from minrisk.server.processes import METRICS, RECENT, Ask, no_others
from minrisk.server.requests import ClientRequest, read_json, read_ranking_request, read_request
from minrisk.server.responses import (
    ABSTAINED,
    NO_RETRY,
    ApiError,
    Completion,
    CompletionFormat,
    completion,
    summed_usage,
    upstream_error,
)
from minrisk.server.responses_format import ResponsesFormat
from minrisk.server.responses_requests import read_responses_request
from minrisk.server.sampling import (
    Admission,
    SampleCollector,
    SampleLimit,
    collect_samples,
    new_collector,
)
from minrisk.server.settings import Settings

_OPEN_ROUTES = ("/health", "/ready")  # served without an API key
_STREAM_HEADERS = {"content-type": "text/event-stream; charset=utf-8",
                   "cache-control": "no-cache", "x-accel-buffering": "no"}
_PAGE_HEADERS = {"cache-control": "no-store", "content-security-policy": "frame-ancestors 'none'"}
_ID = re.compile(r"[\x21-\x7e]{1,128}")
_FIRST_ERROR = 400  # lowest HTTP status that is an error
_SHUTDOWN_REPLIES = 1.0  # seconds to tell clients that the server is shutting down
_LOGGED = ("distinct", "confidence", "abstained", "passed_through", "judge_usage", "models",
           "failed_models", "signature")
_trace: ContextVar[Trace] = ContextVar("trace")  # of the current request; set by the middleware

T = TypeVar("T")
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Server:
    """An OpenAI-compatible server that answers with the best of a backend's samples."""

    def __init__(self, backend: Backend, settings: Settings, limit: SampleLimit,
                 recorder: Recorder | None = None, write_log: Callable[[str], None] = log,
                 ask: Ask = no_others, compute_workers: int | None = None) -> None:
        self._backend = backend
        self._settings = settings
        self._limit = limit
        self._recorder = recorder
        self._ask = ask
        self.write_log = write_log
        self._is_loaded = self._is_draining = False
        self._handling: set[asyncio.Task[Any]] = set()  # the handler of each open request
        self._running: set[asyncio.Task[Any]] = set()  # their work, cancelled at shutdown
        self._encoder = Encoder()
        self._recent = (RecentRequests(settings.weighting, settings.strategies)
                        if settings.show_page else None)
        self._page_lock = asyncio.Lock()  # renders one page at a time
        self.silent: set[object] = set()  # connections that have sent no request yet
        self.metrics = ServerMetrics(lambda: len(self._running), lambda: limit.requests_waiting,
                                     lambda: limit.in_use)
        self.executor = RankingExecutor(compute_workers or os.cpu_count() or 1,
                                        self.metrics.count_judge_usage)

    def application(self) -> web.Application:
        app = web.Application(middlewares=[self._middleware],
                              client_max_size=self._settings.max_body)
        app.on_response_prepare.append(hide_version)
        for base in ("", *(["/mbr/{preset}"] if self._settings.presets else [])):
            app.add_routes([
                web.post(f"{base}/v1/chat/completions", self._chat),
                web.post(f"{base}/v1/completions", self._completions),
                web.post(f"{base}/v1/responses", self._responses),
                web.get(f"{base}/v1/models", self._models),
                web.get(base + "/v1/models/{id:.+}", self._model),
                *([web.options(base + "/v1/{rest:.*}", self._preflight)]
                  if self._settings.allow_origin else [])])
        app.add_routes([
            web.post("/v1/rank", self._rank),
            web.get("/health", self._health),
            web.get("/ready", self._ready),
            web.get("/metrics", self._metrics),
            *([web.get("/", self._page)] if self._settings.show_page else []),
        ])
        return app

    async def open(self) -> None:
        """Connect to the backend and load the models; until then the server is not ready."""
        await self.executor.open()
        await self._backend.open(self.executor.run)
        await asyncio.to_thread(self._settings.prepare)
        self._is_loaded = True

    async def close(self) -> None:
        await self.executor.close()
        await self._backend.close()
        if self._recorder is not None:
            await asyncio.to_thread(self._recorder.close)

    async def drain(self, seconds: float) -> None:
        """Refuse new requests, and cancel those still unfinished after `seconds`."""
        self._is_draining = True
        others = self._handling - {asyncio.current_task()}
        if others:
            await asyncio.wait(others, timeout=seconds)
        await cancel_all(*self._running)
        if others:  # they now reply that the server is shutting down
            await asyncio.wait(others, timeout=_SHUTDOWN_REPLIES)

    # every request

    @web.middleware
    async def _middleware(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Assign a request id, log the request, and count it."""
        given = request.headers.get("x-request-id", "")
        trace = Trace(given if _ID.fullmatch(given) else f"req_{secrets.token_hex(12)}",
                      _route(request))
        _trace.set(trace)
        self.silent.discard(request.protocol)
        status = CLIENT_LEFT
        task = asyncio.current_task()
        assert task is not None
        self._handling.add(task)
        try:
            try:
                response = await self._respond(request, handler, trace)
                status = response.status
            finally:  # log before writing, so that a client with an answer finds it logged
                self._finish(trace, status)
            return response if response.prepared else await write(
                request, response, self._settings.write_timeout)
        except ConnectionError as error:  # the client has disconnected
            if status != CLIENT_LEFT:  # the request was already logged, with another status
                self.write_log(json.dumps({"id": trace.id, "error": str(error) or "disconnected"}))
            raise asyncio.CancelledError from None
        finally:
            self._handling.discard(task)

    async def _respond(self, request: web.Request, handler: Handler,
                       trace: Trace) -> web.StreamResponse:
        """The response of a handler; exceptions become OpenAI's error objects."""
        headers = {"x-request-id": trace.id} | cors(self._settings.allow_origin)
        try:
            self._settings.hosts.check(request.headers.get("Host", ""))
            if request.path not in _OPEN_ROUTES and request.method != "OPTIONS":
                self._settings.keys.check(request.headers.get("Authorization", ""),
                                          is_page=request.path == "/")
            response = await handler(request)
            if not response.prepared:
                response.headers.update(headers)
            return response
        except web.HTTPException as error:
            failure = http_error(error, request, self._settings.max_body)
        except ApiError as error:
            failure = error.with_traceback(None)  # its frames may keep a large body alive
        except ConnectionError:
            raise
        except Exception as error:
            failure = self._internal_error(error, trace)
        trace.fields["error"] = failure.code or str(failure.status)
        return web.Response(status=failure.status, text=failure.content,
                            content_type="application/json", headers=failure.headers | headers)

    def _internal_error(self, error: Exception, trace: Trace) -> ApiError:
        """Log an error without its message, which may quote a client's text."""
        self.write_log(json.dumps({"id": trace.id, "error": type(error).__name__, "trace":
                                   traceback.format_tb(error.__traceback__)}))
        return ApiError(500, "internal server error; see the server's log for this request id")

    def _finish(self, trace: Trace, status: int) -> None:
        trace.finish()
        if trace.route in (*_OPEN_ROUTES, "/metrics", "/"):
            return
        self.write_log(trace.line(status))
        self.metrics.count_request(trace, status, self._known_model(trace.fields.get("model")))
        is_failure = status >= _FIRST_ERROR and trace.fields.get("error") != ABSTAINED
        if self._recent is not None and is_failure:
            self._recent.add_failure(trace.failure(status))

    def _known_model(self, name: str | None) -> str:
        """The model's label in the metrics; unknown names share one, to bound the labels."""
        settings = self._settings
        is_known = name is not None and (name in settings.aliases or name == settings.preset.model
                                         or self._backend.knows(name))
        return name if is_known and name is not None else OTHER

    @asynccontextmanager
    async def _started(self, answering: Coroutine[Any, Any, T]) -> AsyncIterator[asyncio.Task[T]]:
        """Run work as a task that is cancelled if the request ends or the server shuts down."""
        work = asyncio.create_task(answering)
        self._running.add(work)
        work.add_done_callback(self._running.discard)
        try:
            yield work
        finally:
            await cancel_all(work)  # frees the upstream if the client has disconnected

    async def _outcome(self, answering: Coroutine[Any, Any, T]) -> T:
        """The result of work that is cancelled if the request ends or the server shuts down."""
        async with self._started(answering) as work:
            await asyncio.wait({work})
            return _result(work)

    async def _json(self, body: Any, headers: Mapping[str, str] | None = None,
                    status: int = 200) -> web.Response:
        return web.Response(body=await self._encoder.encode(body), status=status, headers=headers,
                            content_type="application/json", charset="utf-8")

    async def _body(self, request: web.Request, read: Callable[[bytes], T]) -> T:
        """The body of a request, read; refused while the server is loading or shutting down."""
        if self._is_draining:
            raise _stopping()
        if not self._is_loaded:
            raise ApiError(503, "the server is still loading its models", code="loading",
                           headers={"retry-after": "5"})
        if request.content_type != "application/json":  # cross-origin pages need a preflight
            raise ApiError(415, f"found content type {request.content_type[:60]!r}, expected "
                                "application/json")
        encoding = request.headers.get("Content-Encoding", "identity")
        if encoding.lower() != "identity":  # a decompression bomb could exceed max_body
            raise ApiError(415, f"found content encoding {encoding[:60]!r}, expected none")
        seconds = self._settings.body_timeout
        try:
            async with nullcontext() if request.content.is_eof() else asyncio.timeout(seconds):
                raw = await request.read()
        except TimeoutError:
            raise ApiError(408, f"the body did not arrive within {seconds:g} s",
                           headers={"connection": "close"}) from None
        if len(raw) <= LARGE:
            return read(raw)
        return await self._outcome(self.executor.run(read, raw))

    # completions

    async def _chat(self, request: web.Request) -> web.StreamResponse:
        return await self._complete(request, "chat")

    async def _completions(self, request: web.Request) -> web.StreamResponse:
        return await self._complete(request, "completions")

    async def _complete(self, request: web.Request, api: API) -> web.StreamResponse:
        given = await self._body(request, read_json)
        self._apply_preset(request, given)
        client_request = read_request(api, given, self._settings)
        return await self._respond_to(request, client_request, CompletionFormat(self._encoder))

    async def _responses(self, request: web.Request) -> web.StreamResponse:
        found = await self._body(request, read_responses_request)
        self._apply_preset(request, found.given, found.chat)
        takes_responses = await self._outcome(self._backend.takes_responses())
        client_request = (found.forwarded(self._settings) if takes_responses
                          else found.translated(self._settings))
        return await self._respond_to(request, client_request,
                                      ResponsesFormat(self._encoder, found.given, client_request))

    def _apply_preset(self, request: web.Request, *bodies: Any) -> None:
        """Write the preset of a path into the name of the model."""
        if (preset := request.match_info.get("preset")) is not None:
            for given in bodies:
                if isinstance(given, dict):
                    given["model"] = self._settings.model_of(preset, given.get("model"))

    async def _respond_to(self, request: web.Request, client_request: ClientRequest,
                          form: CompletionFormat) -> web.StreamResponse:
        trace = _trace.get()
        given = client_request.given.get("model")
        is_alias = isinstance(given, str) and given in self._settings.aliases
        trace.fields |= {"model": given if is_alias else client_request.model,
                         "stream": client_request.stream}
        collector = new_collector(client_request, self._settings, self.executor, form)
        async with self._started(self.complete(client_request, collector, trace)) as work:
            if client_request.stream:
                return await self._stream(request, collector, work)
            await asyncio.wait({work})
            answer = _result(work)
            return web.Response(body=await form.whole(answer), headers=answer.headers,
                                content_type="application/json", charset="utf-8")

    async def complete(self, request: ClientRequest, collector: SampleCollector,
                       trace: Trace) -> Completion:
        """Draw samples, choose one of them, and record the choice."""
        try:
            with self._limit.admission() as admission, trace.timing("sampling"):
                await self._sample(request, admission, collector)
        finally:
            usage = summed_usage(collector.parts)
            self._count_samples(request, collector, usage, trace)
        with trace.timing("choosing"):
            chosen = None if request.passes_through else await self._choose(request, collector)
        settings = self._settings
        answer = completion(request, collector.parts, chosen, usage,
                            settings.abstain_text if settings.abstain_as == "text" else None,
                            collector.failed_models)
        trace.fields |= usage_counts(answer.usage)
        trace.fields |= {name: answer.summary[name] for name in _LOGGED if name in answer.summary}
        self.metrics.count_answer(answer.summary)
        if self._records:
            await self._record(request, collector, usage, answer, chosen, trace)
        if chosen is not None and chosen.disagreement and settings.abstain_as == "error":
            raise ApiError(422, chosen.disagreement, code=ABSTAINED, headers=NO_RETRY)
        return answer

    async def _sample(self, request: ClientRequest, admission: Admission,
                      collector: SampleCollector) -> None:
        if not request.passes_through:
            await collect_samples(self._backend, admission, collector, self._settings)
            return
        seconds = self._settings.deadline
        try:
            async with asyncio.timeout(seconds), admission.hold(request.n):
                part = await (self._backend.relay(request, collector.relay) if request.stream
                              else self._backend.pass_through(request))
        except MinriskError as error:
            raise upstream_error(error) from None
        except TimeoutError:
            raise ApiError(504, f"no answer within {seconds:g} s", code="deadline",
                           headers=NO_RETRY) from None
        collector.report(part, len(part.choices))

    async def _choose(self, request: ClientRequest, collector: SampleCollector) -> Chosen | None:
        """Choose among the samples; None if no sample can win: the upstream's answer is sent."""
        question = Question(request.wants_json, request.source, request.n > 1, self._records,
                            request.schema)
        try:
            async with self._choosing_deadline():
                return await self.executor.choose(
                    collector.candidates, collector.choices, request.method, question)
        except MinriskError as error:
            raise ApiError(500, f"the samples cannot be ranked: {error}", code="choosing",
                           headers=NO_RETRY) from None

    @asynccontextmanager
    async def _choosing_deadline(self) -> AsyncIterator[None]:
        seconds = self._settings.choosing_deadline
        try:
            async with asyncio.timeout(seconds):
                yield
        except TimeoutError:
            raise ApiError(504, f"choosing took more than {seconds:g} s", code="deadline",
                           headers=NO_RETRY) from None

    def _count_samples(self, request: ClientRequest, collector: SampleCollector,
                       usage: Mapping[str, Any] | None, trace: Trace) -> None:
        missing = max(0, request.samples - collector.count)
        failed = min(collector.failed, missing)
        counts = {"requested": request.samples, "drawn": collector.count, "failed": failed,
                  "cancelled": missing - failed}
        trace.fields |= counts
        self.metrics.count_samples(counts, usage_counts(usage))

    @property
    def _records(self) -> bool:
        return self._recorder is not None or self._recent is not None

    async def _record(self, request: ClientRequest, collector: SampleCollector,
                      usage: Mapping[str, Any] | None, answer: Completion, chosen: Chosen | None,
                      trace: Trace) -> None:
        """Record the request in the format of `minrisk sample`, before the client is answered."""
        if chosen is None:
            read = await self.executor.run(read_candidates, comparable(collector.choices),
                                           request.wants_json)
            compared, others = [one.sample for one in read if one.can_win], []
            best = compared[0].text if compared else None
        else:
            compared = [chosen.samples[index] for index in chosen.compared]
            among = set(chosen.compared)
            others = [Sample(sample.text, finish_reason=sample.finish_reason)
                      for index, sample in enumerate(chosen.samples) if index not in among]
            best = (chosen.samples[chosen.order[0]].text if chosen.text is None
                    else chosen.text)
        if not compared:
            return
        summary = answer.summary
        optional = {"source": request.source, "usage": usage,
                    "judge_usage": summary.get("judge_usage"),
                    "abstained": summary.get("abstained"),
                    "proposal": summary.get("proposal"),
                    "passed_through": summary.get("passed_through"),
                    "finish_reason": answer.choices[0].get("finish_reason"),
                    "uncompared": columns(others) if others else None,
                    "signature": summary.get("signature")}
        line = await asyncio.to_thread(_line, compared, {
            "id": trace.id, "time": now(), **request.prompt_fields,
            "chosen": None if summary.get("abstained") else best,
            "model": answer.head.get("model"), "seed": request.seed,
            "seconds": trace.rounded_seconds(),
            **{name: value for name, value in optional.items() if value is not None}})
        if self._recent is not None:
            self._recent.add_completion(
                None if chosen is None else chosen.strategy or request.method.strategy, line)
        if self._recorder is not None:
            try:
                await asyncio.wrap_future(self._recorder.append(line))
            except OSError as error:  # still send the answer; log and metrics report the failure
                trace.fields["not_recorded"] = error.strerror or type(error).__name__
                self.metrics.record_failures.add(1)

    # streams

    async def _stream(self, request: web.Request, collector: SampleCollector,
                      work: asyncio.Task[Completion]) -> web.StreamResponse:
        """Stream the answer; headers wait for the first sample, so that errors can set the status.
        """
        started = asyncio.ensure_future(collector.started.wait())
        try:
            await asyncio.wait([work, started], timeout=self._settings.heartbeat,
                               return_when=asyncio.FIRST_COMPLETED)
        finally:
            started.cancel()
        if work.done():
            _result(work)
        trace = _trace.get()
        passed = {"x-minrisk-passed-through": "true"} if collector.request.passes_through else {}
        response = web.StreamResponse(headers={
            **_STREAM_HEADERS, **cors(self._settings.allow_origin), **passed,
            "x-request-id": trace.id})
        seconds = self._settings.write_timeout
        await response.prepare(request)
        await self._relay(request, response, collector, work)
        for one in await self._events(collector, work, trace):
            await in_time(request, response.write(one), seconds)
        await in_time(request, response.write_eof(), seconds)
        return response

    async def _relay(self, request: web.Request, response: web.StreamResponse,
                     collector: SampleCollector, work: asyncio.Task[Completion]) -> None:
        """Send events as they arrive, and comments meanwhile: proxies close silent streams."""
        while not (work.done() and collector.events.empty()):
            coming = asyncio.ensure_future(collector.events.get())
            try:
                await asyncio.wait({work, coming}, timeout=self._settings.heartbeat,
                                   return_when=asyncio.FIRST_COMPLETED)
                content = (coming.result() if coming.done()
                           else None if work.done() else b": waiting for samples\n\n")
            finally:  # also if the client has disconnected
                coming.cancel()
            if content is not None:
                await in_time(request, response.write(content), self._settings.write_timeout)

    async def _events(self, collector: SampleCollector, work: asyncio.Task[Completion],
                      trace: Trace) -> Iterable[bytes]:
        """The last chunks; or an event with the error, because the status was sent already."""
        try:
            return await collector.form.last(_result(work), collector.is_relayed)
        except ApiError as error:
            failure = error.with_traceback(None)
        except Exception as error:
            failure = self._internal_error(error, trace)
        trace.fields["error"] = failure.code or str(failure.status)
        return await collector.form.failure(failure)

    # other routes

    async def _rank(self, request: web.Request) -> web.Response:
        segment, strategy = read_ranking_request(await self._body(request, read_json),
                                                 self._settings)
        trace = _trace.get()

        async def rank() -> RankedSegment:
            async with self._choosing_deadline():
                return await self.executor.rank(self._settings.method(strategy).measured, segment)

        with trace.timing("choosing"):
            try:
                ranked = await self._outcome(rank())
            except MinriskError as error:  # bad candidates, or a missing source
                raise ApiError(400, str(error)) from None
        ranking = ranked.ranking
        if ranked.judge_usage:
            trace.fields["judge_usage"] = dict(ranked.judge_usage)
        proposed = {} if ranking.proposed is None else {"text": ranking.proposed.text}
        return await self._json({
            "object": "minrisk.ranking", **proposed,
            "results": [{"index": row, "utility": shown(ranking.utility[row])}
                        for row in ranking.order.tolist()],
            "minrisk": {"signature": signature(strategy), "pairs": ranking.pairs,
                        **ranked.fields}})

    async def _models(self, request: web.Request) -> web.Response:
        return await self._json({"object": "list", "data": await self._list_models(request)})

    async def _model(self, request: web.Request) -> web.Response:
        name = request.match_info["id"]
        for model in await self._list_models(request):
            if model["id"] == name:
                return await self._json(model)
        raise ApiError(404, f"the model {name!r:.100} does not exist here", param="model",
                       code="model_not_found")

    async def _list_models(self, request: web.Request) -> list[dict[str, Any]]:
        """All models, and presets of them; those of a path are not named together with others."""
        settings = self._settings
        self._apply_preset(request, {})  # an unknown one is not found
        own = [*settings.aliases, *([settings.preset.model] if settings.preset.model else [])]
        theirs: list[dict[str, Any]] = []
        if settings.preset.model is None:
            try:
                theirs = await self._backend.models()
            except MinriskError as error:
                raise upstream_error(error) from None
        has_presets = settings.presets and "preset" not in request.match_info
        methods = settings.named_strategies if has_presets else ()
        presets = [f"{method}-{settings.preset.samples}/{model}" for method in methods
                   for model in dict.fromkeys([*own, *(model["id"] for model in theirs)])]
        return [*({"id": name, "object": "model", "created": 0, "owned_by": "minrisk"}
                  for name in (*own, *presets)),
                *(model for model in theirs if model["id"] not in own)]

    async def _health(self, _: web.Request) -> web.Response:
        return await self._json({"status": "alive"})

    async def _ready(self, _: web.Request) -> web.Response:
        problem = await self.problem()
        if problem:
            return await self._json({"status": "not ready", "reason": problem}, status=503)
        return await self._json({"status": "ready"})

    def tell(self, question: str) -> Any:
        """The answer to a question of another process of this server."""
        if question == METRICS:
            return self.metrics.state
        return self._recent.records if self._recent is not None else []

    async def problem(self) -> str | None:
        """Why the server cannot answer completions now; None if it can."""
        if self._is_draining:
            return "the server is shutting down"
        return await self._backend.problem() if self._is_loaded else "models are being loaded"

    async def _metrics(self, _: web.Request) -> web.Response:
        return web.Response(text=self.metrics.text(await self._ask(METRICS)),
                            headers={"content-type": "text/plain; version=0.0.4; charset=utf-8"})

    async def _page(self, _: web.Request) -> web.Response:
        assert self._recent is not None
        state = {"ready": await self.problem() or "yes", "in flight": len(self._running),
                 "queued": self._limit.requests_waiting, "samples at once": self._limit.in_use}
        others = [RequestRecord(*one) for told in await self._ask(RECENT) for one in told]
        strategy, page = self._recent.snapshot(self._settings.preset.strategy, state, others)
        async with self._page_lock:
            content = await self._outcome(self.executor.run_with(strategy, page.render))
        return web.Response(body=content, content_type="text/html", charset="utf-8",
                            headers=_PAGE_HEADERS)

    async def _preflight(self, _: web.Request) -> web.Response:
        return web.Response(status=204, headers=PREFLIGHT)


def _stopping() -> ApiError:
    return ApiError(503, "the server is shutting down; retry later or on another server",
                    code="stopping", headers={"connection": "close", "retry-after": "1"})


def _result(work: asyncio.Task[T]) -> T:
    """The result of a finished task; it is only cancelled when the server shuts down."""
    if work.cancelled():
        raise _stopping()
    return work.result()


def _route(request: web.Request) -> str:
    """The declared route, so that clients cannot invent labels."""
    resource = request.match_info.route.resource
    return resource.canonical if resource is not None else "unknown"


def _line(compared: list[Sample], fields: dict[str, Any]) -> str:
    """The JSON line that records a request."""
    return json_line(fields | columns(compared))
