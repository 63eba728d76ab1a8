"""The sampler for OpenAI-compatible servers: vLLM, llama.cpp, SGLang, Ollama, OpenAI, ..."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Callable, Generator, Iterable, Sequence
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

from minrisk._core.errors import InputError, MinriskError, UnusableError, Wording, warn
from minrisk._core.lazy import lazy
from minrisk._core.options import option
from minrisk._core.process import report_progress
from minrisk._core.sampler import (
    AnyRequest,
    PartialError,
    Prompt,
    Sample,
    Sampler,
    SamplingResult,
    TruncationCount,
    check_numbers,
)
from minrisk._core.texts import check_template, fill
from minrisk._core.token_confidence import WINDOW
from minrisk._core.vote import answer_pattern
from minrisk.openai.background import AsyncWork, Callback, stream
from minrisk.openai.client_options import ClientOptions, further_fields, warn_in
from minrisk.openai.completions import (
    REPLACEABLE,
    UpstreamRequest,
    request_seed,
    requested_logprobs,
)
from minrisk.samplers.connection import Connection, EarlyStop

_OURS = {"messages": "give it as input", "prompt": "give it as input",
         "model": "give it as an option", "n": "it follows from the number of samples",
         "seed": "every request has its own", "stream": "answers are read as a whole"}
_SYSTEM = ("system", "developer")  # roles


@dataclass(frozen=True)
class Endpoint(ClientOptions, Sampler):
    """An OpenAI-compatible server (chat or completions API); needs minrisk[openai].

    Options that are not set use the server's defaults: llama.cpp, for example, truncates the
    distribution unless `extra` is {"min_p": 0}, `top_k` is 0 and `top_p` is 1. Log-probabilities
    are computed by the server, too. Fields that a server rejects (log-probabilities, a seed, a
    temperature) are dropped with a warning.

    Args:
        model: name of the model on the server.
        endpoint: address of the server, such as "http://localhost:8000/v1" [default:
            OPENAI_BASE_URL]. The environment variable is read when the sampler is created.
        api: the server's interface, "chat" or "completions".
        prompt: template of the prompt, with {source}.
        system: system message of chats that have none.
        temperature: temperature of sampling; 0 is greedy.
        top_p: nucleus sampling: probability mass to keep.
        top_k: number of most likely tokens to keep; not supported by OpenAI's own API.
        max_tokens: maximum number of tokens of a sample, including its reasoning.
        stop: text that ends a sample, or a JSON list of texts.
        extra: further request fields as a JSON object, such as {"min_p": 0.1}; null removes a
            field.
        logprobs: request log-probabilities.
        top_logprobs: number of most likely tokens to request per position, for `certainty`.
        window: number of tokens that `lowest_logprob` and `tail_logprob` average.
        send_seed: send a seed, which makes samples repeatable.
        drop_truncated: discard samples cut at `max_tokens`.
        vote: stop sampling once one answer has won; a regular expression, group 1 of the last
            match. The default metric of `translate` and `answer` is then `ExactMatch` with this
            pattern.
        vote_error: probability that the winner of such a vote is not the most likely answer.
        per_request: number of samples per request; fewer if the server rejects that.
        concurrency: maximum number of simultaneous requests.
        timeout: time limit for a response, in seconds.
        retries: number of retries after a transient error.
        key_variable: environment variable with the API key.

    Raises:
        InputError: if an option is invalid, or there is no address of a server.

    >>> sampler = Endpoint("llama-3", endpoint="http://localhost:8000/v1", temperature=0.7)
    >>> sampler.request("Write a haiku.", seed=0, index=0).body["temperature"]
    0.7
    """

    name = "openai"
    cost = "n samples in requests of per_request each"
    takes_messages = True
    is_causal = True  # it needs an instruction for a source

    streams = True

    api: Literal["chat", "completions"] = option("chat")
    prompt: str | None = option(None)
    system: str | None = option(None)
    temperature: float = option(1.0, ge=0)
    top_p: float | None = option(None, gt=0, le=1)
    top_k: int | None = option(None)
    max_tokens: int = option(2048, ge=1)
    stop: str | None = option(None)
    extra: str | None = option(None)
    logprobs: bool = option(True)
    top_logprobs: int | None = option(None, ge=2)
    window: int = option(WINDOW, ge=1)
    send_seed: bool = option(True)
    drop_truncated: bool = option(False)
    vote: str | None = option(None)
    vote_error: float = option(0.05, gt=0, lt=1)
    per_request: int = option(16, ge=1)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_template(self.prompt)
        for name, value in self._extra.items():
            if name in _OURS and value is not None:
                raise InputError(f"extra has {name}; {_OURS[name]}")
        if self.system is not None and self.api == "completions":
            raise InputError("system is for chats; put it into prompt, or use the chat api")
        if self.top_logprobs is not None and not self.logprobs:
            raise InputError(Wording("top_logprobs={top} needs logprobs=True",
                                     top=self.top_logprobs))
        _ = self._stop, self._answer

    @property
    def is_random(self) -> bool:
        """Whether the temperature is above 0 or left to the server."""
        return bool(self._extra.get("temperature", self.temperature) != 0)

    def batch_size(self, n: int) -> int:
        """The number of prompts that keeps all connections busy."""
        return max(1, 4 * self.concurrency // -(-n // self.per_request))

    def sample(self, prompts: Sequence[Prompt], n: int, seed: int = 0,
               indices: Sequence[int] | None = None) -> list[list[Sample]]:
        check_numbers(n, seed)
        return collected(lambda requests: self._stream(requests, n, seed, len(requests)), prompts,
                         indices)

    def stream(self, requests: Iterable[AnyRequest], n: int,
               seed: int = 0) -> Generator[tuple[AnyRequest, SamplingResult]]:
        """Results of requests as they finish; requests are read as capacity becomes free."""
        check_numbers(n, seed)
        parts = -(-n // self.per_request)
        return self._stream(requests, n, seed, max(1, -(-2 * self.concurrency // parts)))

    @asynccontextmanager
    async def connect(self, note: Callable[[str], None] = warn,
                      progress: Callable[[int, int], None] = lambda done, planned: None,
                      ) -> AsyncIterator[Connection]:
        """Connect, for asynchronous callers; known capabilities of the server are reused."""
        async with self.completions(note, progress, api=self.api,
                                    per_request=self._per_request,
                                    window=self.window) as completions:
            early_stop = self._answer and EarlyStop(self._answer, self.vote_error,
                                                    self._per_request)
            yield Connection(self.request, self.drop_truncated, completions, self._truncation,
                             early_stop)

    def request(self, prompt: Prompt, seed: int, index: int) -> UpstreamRequest:
        """The request for samples of a prompt; fields of `extra` take precedence."""
        body = self._prompt_fields(prompt) | self._options | self._extra
        if self._extra.get("max_completion_tokens") is not None:
            del body["max_tokens"]
        return UpstreamRequest({name: value for name, value in body.items() if value is not None},
                     partial(self._seed, seed, index), REPLACEABLE - self._extra.keys())

    def _stream(self, requests: Iterable[AnyRequest], n: int, seed: int,
                ahead: int) -> Generator[tuple[AnyRequest, SamplingResult]]:
        @asynccontextmanager
        async def connect(
            call: Callable[[Callback], None],
        ) -> AsyncIterator[AsyncWork[AnyRequest, SamplingResult]]:
            def progress(done: int, planned: int) -> None:
                call(partial(report_progress, "requests answered", done, planned))

            async with self.connect(warn_in(call), progress) as connection:
                yield lambda request: connection.sample(request.prompt, n, seed, request.index)

        return stream(connect, requests, ahead)

    @property
    def _options(self) -> dict[str, Any]:
        fields = requested_logprobs(self.api, self.top_logprobs) if self.logprobs else {}
        return {"model": self.model, "temperature": self.temperature, "top_p": self.top_p,
                "top_k": self.top_k, "max_tokens": self.max_tokens, "stop": self._stop,
                **fields}

    def _prompt_fields(self, prompt: Prompt) -> dict[str, Any]:
        if isinstance(prompt, str):
            text = fill(self.prompt, prompt)
            if self.api == "completions":
                return {"prompt": text}
            prompt = [{"role": "user", "content": text}]
        elif self.prompt is not None or self.api == "completions":
            raise InputError(Wording("found messages, which need api='chat' and no prompt "
                                     "template; set these, or give sources"))
        has_system = any(message.get("role") in _SYSTEM for message in prompt)
        system = [] if self.system is None or has_system else [
            {"role": "system", "content": self.system}]
        return {"messages": [*system, *prompt]}

    def _seed(self, seed: int, index: int, number: int) -> int | None:
        """The seed of a choice."""
        if not self.send_seed or "seed" in self._extra:
            return None
        return request_seed(seed, index, number)

    @lazy
    def _truncation(self) -> TruncationCount:
        return TruncationCount()

    @lazy
    def _extra(self) -> dict[str, Any]:
        return further_fields(self.extra)

    @lazy
    def _stop(self) -> list[str] | None:
        if self.stop is None or not self.stop.startswith("["):
            return None if self.stop is None else [self.stop]
        try:
            texts = json.loads(self.stop)
        except (ValueError, RecursionError):
            texts = None
        if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
            raise InputError(f"stop {self.stop!r:.60}; expected a text, or a JSON list of texts, "
                             r'such as ["\n\n", "Q:"]')
        return texts

    @lazy
    def _answer(self) -> re.Pattern[str] | None:
        return answer_pattern(self.vote, "vote") if self.vote is not None else None

    @property
    def _per_request(self) -> int:
        return 1 if "n" in self._extra else self.per_request


@dataclass(frozen=True)
class IndexedRequest:
    """A request with its number in the batch."""

    prompt: Prompt
    index: int
    number: int  # position in the batch


def collected(
    stream: Callable[[list[IndexedRequest]], Generator[tuple[IndexedRequest, SamplingResult]]],
    prompts: Sequence[Prompt], indices: Sequence[int] | None,
) -> list[list[Sample]]:
    """The samples of all prompts, in order; raises a PartialError if some prompts failed."""
    indices = range(len(prompts)) if indices is None else indices
    requests = [IndexedRequest(prompt, index, number) for number, (prompt, index)
                in enumerate(zip(prompts, indices, strict=True))]
    finished: dict[int, SamplingResult] = {}
    failed: MinriskError | None = None
    try:
        with closing(stream(requests)) as results:
            finished.update((request.number, result) for request, result in results)
    except UnusableError as error:
        if not any(isinstance(result, list) for result in finished.values()):
            raise
        failed = error
    listed = [finished.get(number, failed) for number in range(len(requests))]
    samples = [result for result in listed if isinstance(result, list)]
    if len(samples) < len(requests):
        raise PartialError([result for result in listed if result is not None])
    return samples
