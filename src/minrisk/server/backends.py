"""Backends that generate samples: an OpenAI-compatible server, or a model in this process."""

from __future__ import annotations

import asyncio
import json
import time
import warnings
from collections import OrderedDict
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Protocol

from minrisk._core.errors import InputError, MinriskError, brief
from minrisk._core.sampler import Prompt, Sample
from minrisk._core.token_confidence import WINDOW
from minrisk.openai.client import Client, Compute, Receive
from minrisk.openai.completions import (
    API,
    CompletionResponse,
    Completions,
    without_fields,
)
from minrisk.openai.errors import BadRequestError, ErrorResponse, error_response
from minrisk.openai.responses import Choice, read_choices
from minrisk.openai.responses_api import PATH, ResponsesEndpoint, has_route
from minrisk.server.executor import BatchThread
from minrisk.server.requests import ClientRequest
from minrisk.server.sampling import Admission, ReportPart

_MAX_MODELS = 256  # names remembered; clients may name any model
_READY_FOR = 2.0  # seconds for which a successful readiness check holds
_READY_TIMEOUT = 5.0  # seconds for a readiness check
_NO_LIST = (404, 405)  # statuses of an upstream that does not list its models
_WINDOW = 0.005  # seconds that the first request of a batch waits for others
_OPTIONS = {"temperature": "temperature", "top_p": "top_p", "top_k": "top_k", "min_p": "min_p",
            "max_tokens": "max_tokens", "max_completion_tokens": "max_tokens"}
_FRACTIONS = ("temperature", "top_p", "min_p")
_LARGEST = 2**31  # largest accepted value of a numeric option
_UNSUPPORTED = ("tools", "functions", "logit_bias", "response_format", "frequency_penalty",
            "presence_penalty", "logprobs", "audio")  # ignoring one would change the answer
_MAX_SAMPLERS = 64  # combinations of options cached

RequestOptions = tuple[tuple[str, Any], ...]


class Backend(Protocol):
    """Generates the samples of a request."""

    async def open(self, run: Compute) -> None:
        """Connect to a server, or load a model; `run` calls functions outside the event loop."""

    async def close(self) -> None: ...

    async def sample(self, request: ClientRequest, waves: AsyncIterator[range],
                     admission: Admission, report: ReportPart) -> None:
        """Report `request.samples` choices, or errors, as they arrive, until it is cancelled.

        Each request for samples holds a part of the admission's capacity. `waves` yields the
        samples to draw next; a backend for which drawing fewer is no cheaper ignores it.
        """

    async def pass_through(self, request: ClientRequest) -> CompletionResponse:
        """The backend's answer to the unchanged request."""

    async def relay(self, request: ClientRequest, receive: Receive) -> CompletionResponse:
        """The same; if the backend streams, `receive` gets each chunk as it arrives."""

    async def models(self) -> list[dict[str, Any]]:
        """The models of the backend, in OpenAI's format."""

    def knows(self, model: str) -> bool:
        """Whether the backend is known to have a model of this name."""

    async def takes_responses(self) -> bool:
        """Whether the backend has `/v1/responses` itself."""

    async def problem(self) -> str | None:
        """Why the backend cannot answer now; None if it can."""


class UpstreamBackend:
    """An OpenAI-compatible server; remembers for each model which fields it accepts."""

    def __init__(self, client: Client, per_request: int, window: int = WINDOW) -> None:
        self._client = client
        self._per_request = per_request
        self._window = window
        self._completions: OrderedDict[tuple[str, str | None], Completions] = OrderedDict()
        self._known: set[str] = set()  # names of models that the upstream listed
        self._has_responses: bool | None = None  # None: not known yet
        self._exit = AsyncExitStack()
        self._last_response = -_READY_FOR

    async def open(self, run: Compute) -> None:
        self._client.compute = run
        await self._exit.enter_async_context(self._client)

    async def close(self) -> None:
        await self._exit.aclose()

    async def sample(self, request: ClientRequest, waves: AsyncIterator[range],
                     admission: Admission, report: ReportPart) -> None:
        sent = replace(request.upstream_request(), hold=admission.hold)
        async for numbers in waves:
            await self._of(request).sample(sent, numbers, report)

    async def pass_through(self, request: ClientRequest) -> CompletionResponse:
        return await self._of(request).pass_through(request.pass_through_body())

    async def relay(self, request: ClientRequest, receive: Receive) -> CompletionResponse:
        return await self._of(request).relay(request.pass_through_body(stream=True), receive)

    async def models(self) -> list[dict[str, Any]]:
        answer = await self._client.get("models")
        data = answer.body.get("data") if isinstance(answer.body, dict) else None
        listed = [one for one in data if isinstance(one, dict) and isinstance(one.get("id"), str)
                  ] if isinstance(data, list) else []
        self._known = {one["id"] for one in listed[:_MAX_MODELS]}
        return listed

    def knows(self, model: str) -> bool:
        return model in self._known

    async def takes_responses(self) -> bool:
        if self._has_responses is None:
            self._has_responses = await has_route(self._client)
        return self._has_responses is True

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
        is_forwarded = request.forwarded is not None
        key = (PATH if is_forwarded else request.api, request.model)
        if key not in self._completions:
            self._completions[key] = (
                ResponsesEndpoint(self._client, self._window) if is_forwarded else
                Completions(self._client, request.api, per_request=self._per_request,
                            window=self._window))
            if len(self._completions) > _MAX_MODELS:
                self._completions.popitem(last=False)
        self._completions.move_to_end(key)
        return self._completions[key]


class LocalSampler(Protocol):
    """A sampler that the server can run in its own process, such as `hf`."""

    @property
    def is_causal(self) -> bool: ...

    def prepare(self) -> None: ...

    def with_options(self, **changes: Any) -> LocalSampler: ...

    def prompt_length(self, prompt: Prompt) -> int: ...

    def batch_size(self, n: int) -> int: ...

    def sample(self, prompts: Sequence[Prompt], n: int, seed: int = 0,
               places: Sequence[int] | None = None) -> list[list[Sample]]: ...


@dataclass(frozen=True)
class _SamplingJob:
    prompt: Prompt
    n: int
    seed: int
    options: RequestOptions

    @property
    def kind(self) -> tuple[int, RequestOptions]:
        """The key of a batch: its jobs have the same number of samples and the same options."""
        return self.n, self.options


class LocalBackend:
    """A model in this process; one thread draws the samples of waiting requests in batches."""

    def __init__(self, sampler: LocalSampler, name: str) -> None:
        self._sampler = sampler
        self._name = name
        self._thread: BatchThread[_SamplingJob, tuple[list[Sample], int]] = BatchThread(
            "minrisk-sample", self._sample_batch, kind=lambda job: job.kind,
            max_batch=lambda job: sampler.batch_size(job.n), window=_WINDOW)
        self._with_options = lru_cache(_MAX_SAMPLERS)(self._changed)

    async def open(self, run: Compute) -> None:
        await asyncio.to_thread(self._sampler.prepare)

    async def close(self) -> None:
        self._thread.close()

    async def sample(self, request: ClientRequest, waves: AsyncIterator[range],
                     admission: Admission, report: ReportPart) -> None:
        try:
            sent = request.upstream_request()
            # the sampler always computes log-probabilities: drop minrisk's own request for them
            body = without_fields(sent.body, sent.replaceable & {"logprobs"})
            async with admission.hold(request.samples):
                part = await self._part(request, request.samples, body)
        except MinriskError as error:
            report(error, request.samples)
        else:
            report(part, len(part.choices))

    async def pass_through(self, request: ClientRequest) -> CompletionResponse:
        """One sample, or the most likely text at temperature 0, repeated for `n` choices."""
        part = await self._part(request, 1, request.pass_through_body())
        return replace(part, choices=part.choices * request.n)

    async def relay(self, request: ClientRequest, receive: Receive) -> CompletionResponse:
        return await self.pass_through(request)  # the sampler does not stream

    async def models(self) -> list[dict[str, Any]]:
        return [{"id": self._name, "object": "model", "created": 0, "owned_by": "minrisk"}]

    def knows(self, model: str) -> bool:
        return model == self._name

    async def takes_responses(self) -> bool:
        return False

    async def problem(self) -> str | None:
        return None

    async def _part(self, request: ClientRequest, n: int,
                    body: dict[str, Any]) -> CompletionResponse:
        options = _options(body)
        seed = 0 if body.get("temperature") == 0 else request.seed  # one choice also of equal ones
        job = _SamplingJob(self._prompt(request), n, seed, options)
        samples, prompt_tokens = await asyncio.wrap_future(self._thread.submit(job))
        return _part(samples, prompt_tokens, request.api, self._name)

    def _prompt(self, request: ClientRequest) -> Prompt:
        """The messages, for a chat model; the text of the last one, for a translation model."""
        if request.api == "completions" or not self._sampler.is_causal:
            if request.source is None or not request.source.strip():
                raise _bad_request("the last message, or the prompt, has no text")
            return request.source
        messages: list[dict[str, Any]] = request.given["messages"]
        return messages

    def _sample_batch(self, jobs: Sequence[_SamplingJob]) -> list[tuple[list[Sample], int]]:
        """The samples and the prompt length of each job; all have the same options."""
        try:
            sampler = self._with_options(jobs[0].options)
            lengths = [sampler.prompt_length(job.prompt) for job in jobs]
            # all jobs share seed 0; `places` gives each job its own random stream
            with warnings.catch_warnings():
                # a client that requests few tokens expects truncated texts
                warnings.filterwarnings("ignore", message=".* samples so far were cut")
                samples = sampler.sample([job.prompt for job in jobs], jobs[0].n, 0,
                                         [job.seed for job in jobs])
        except InputError as error:
            raise _bad_request(str(error)) from error
        return list(zip(samples, lengths, strict=True))

    def _changed(self, options: RequestOptions) -> LocalSampler:
        return self._sampler.with_options(**dict(options)) if options else self._sampler


def _options(body: dict[str, Any]) -> RequestOptions:
    """The sampler's options from a request body; unsupported fields are refused."""
    for name in _UNSUPPORTED:
        if body.get(name):
            raise _bad_request(f"{name} is not supported by a local model; leave it out")
    options: dict[str, Any] = {ours: _number(body, name) for name, ours in _OPTIONS.items()
                               if body.get(name) is not None}
    if options.get("temperature") == 0:  # the most likely token at each step, in shared batches
        options = {"top_k": 1} | {k: v for k, v in options.items() if k == "max_tokens"}
    if body.get("stop"):
        stop = body["stop"]
        options["stop"] = json.dumps(stop if isinstance(stop, list) else [stop])
    return tuple(sorted(options.items()))


def _number(body: dict[str, Any], name: str) -> int | float:
    """A numeric option, converted to the type that the sampler expects."""
    value = body[name]
    kind = float if name in _FRACTIONS else int
    if isinstance(value, bool) or not isinstance(value, kind | int) or abs(value) > _LARGEST:
        raise _bad_request(f"{name} must be {'a number' if kind is float else 'an integer'}; "
                           f"found {brief(value)}")
    return kind(value)


def _bad_request(message: str) -> BadRequestError:
    error = BadRequestError(message, 400)
    error.response = ErrorResponse(400, json.dumps({"error": {
        "message": message, "type": "invalid_request_error", "param": None, "code": None}}), {})
    return error


def _part(samples: Sequence[Sample], prompt_tokens: int, api: API,
          model: str) -> CompletionResponse:
    """Samples as an upstream would return them."""
    each = [sample for sample in samples for _ in range(sample.count)]
    tokens = sum(len(sample.tokens) for sample in each)
    body = {"created": int(time.time()), "model": model,
            "choices": [_choice(sample, index, api) for index, sample in enumerate(each)],
            "usage": {"prompt_tokens": prompt_tokens, "completion_tokens": tokens,
                      "total_tokens": prompt_tokens + tokens}}
    usage = {"prompt_tokens": prompt_tokens, "completion_tokens": tokens}
    choices = [_with_logprob(*pair) for pair in zip(read_choices(body), each, strict=True)]
    return CompletionResponse(choices, usage, body)


def _choice(sample: Sample, index: int, api: API) -> dict[str, Any]:
    text = ({"message": {"role": "assistant", "content": sample.text}} if api == "chat"
            else {"text": sample.text})
    return {"index": index, **text, "logprobs": None,
            "finish_reason": sample.finish_reason or "stop"}


def _with_logprob(choice: Choice, sample: Sample) -> Choice:
    return replace(choice, logprob=sample.logprob, length=len(sample.tokens))
