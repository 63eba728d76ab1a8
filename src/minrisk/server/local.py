"""A model in this process as the source of samples: requests that come together are one batch."""

from __future__ import annotations

import asyncio
import json
import time
import warnings
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from functools import lru_cache
from queue import Empty, Queue
from threading import Thread
from typing import Any, Protocol

from minrisk._core.errors import InputError, MinriskError
from minrisk._core.sampler import Prompt, Sample
from minrisk.openai.choices import Choice, read_choices
from minrisk.openai.completions import API, AnswerPart, Report
from minrisk.openai.errors import Refusal, RefusedError
from minrisk.server.calls import Call
from minrisk.server.limits import SampleLimit

_WINDOW = 0.005  # seconds for which a batch waits for others
_OPTIONS = {"temperature": "temperature", "top_p": "top_p", "top_k": "top_k", "min_p": "min_p",
            "max_tokens": "max_tokens", "max_completion_tokens": "max_tokens"}
_REFUSED = ("tools", "functions", "logit_bias", "response_format", "frequency_penalty",
            "presence_penalty", "logprobs", "audio")  # which would change the answer
_MOST_SAMPLERS = 64  # combinations of options that are remembered

RequestOptions = tuple[tuple[str, Any], ...]


class LocalSampler(Protocol):
    """What is wanted of a sampler; `hf` has it."""

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
    result: Future[tuple[list[Sample], int]]  # and the tokens of the prompt

    @property
    def kind(self) -> tuple[int, RequestOptions]:
        """What all of a batch have in common."""
        return self.n, self.options


class LocalModel:
    """Draws from a sampler in a thread of its own."""

    def __init__(self, sampler: LocalSampler, name: str, limit: SampleLimit) -> None:
        self._sampler = sampler
        self._name = name
        self._limit = limit
        self._jobs: Queue[_SamplingJob | None] = Queue()
        self._with_options = lru_cache(_MOST_SAMPLERS)(self._changed)

    async def open(self) -> None:
        Thread(target=self._work, name="minrisk-sample", daemon=True).start()
        await asyncio.to_thread(self._sampler.prepare)

    async def close(self) -> None:
        self._jobs.put(None)

    async def draw(self, call: Call, report: Report) -> None:
        try:
            query = call.query()
            part = await self._part(call, call.samples, dict(query.body))
        except MinriskError as error:
            report(error, call.samples)
        else:
            report(part, len(part.choices))

    async def pass_through(self, call: Call) -> AnswerPart:
        """One sample, or the likeliest text where the temperature is 0, as often as wanted."""
        part = await self._part(call, 1, call.passed())
        return replace(part, choices=part.choices * call.n)

    async def models(self) -> list[dict[str, Any]]:
        return [{"id": self._name, "object": "model", "created": 0, "owned_by": "minrisk"}]

    async def problem(self) -> str | None:
        return None

    async def _part(self, call: Call, n: int, body: dict[str, Any]) -> AnswerPart:
        job = _SamplingJob(self._prompt(call), n, call.seed, _options(body), Future())
        async with self._limit.hold(n):
            self._jobs.put(job)
            samples, prompt_tokens = await asyncio.wrap_future(job.result)
        return _part(samples, prompt_tokens, call.api, self._name)

    def _prompt(self, call: Call) -> Prompt:
        """Messages for a model that chats; a translation model gets the last one's text."""
        if call.api == "completions" or not self._sampler.is_causal:
            if call.source is None or not call.source.strip():
                raise _refused("the last message, or the prompt, has no text")
            return call.source
        messages: list[dict[str, Any]] = call.given["messages"]
        return messages

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            jobs = [one for one in (job, *self._more(job))
                    if one.result.set_running_or_notify_cancel()]
            for kind in dict.fromkeys(one.kind for one in jobs):
                self._draw([one for one in jobs if one.kind == kind])

    def _more(self, first: _SamplingJob) -> Sequence[_SamplingJob]:
        """What comes within a few milliseconds, as much as makes a batch."""
        found: list[_SamplingJob] = []
        end = time.monotonic() + _WINDOW
        while len(found) + 1 < self._sampler.batch_size(first.n):
            try:
                job = self._jobs.get(timeout=max(0.0, end - time.monotonic()))
            except Empty:
                break
            if job is None:
                self._jobs.put(None)  # which ends the thread after this batch
                break
            found.append(job)
        return found

    def _draw(self, jobs: Sequence[_SamplingJob]) -> None:
        """Together, or one by one where that fails: one prompt may be the fault of all."""
        try:
            sampler = self._with_options(jobs[0].options)
            lengths = [sampler.prompt_length(job.prompt) for job in jobs]
            # the place, with a seed that all share, makes the random stream of each its own
            with warnings.catch_warnings():
                # a client that wants few tokens knows that texts are cut
                warnings.filterwarnings("ignore", message=".* samples so far were cut")
                drawn = sampler.sample([job.prompt for job in jobs], jobs[0].n, 0,
                                       [job.seed for job in jobs])
        except BaseException as error:  # it belongs to those who wait
            if len(jobs) == 1:
                jobs[0].result.set_exception(
                    _refused(str(error)) if isinstance(error, InputError) else error)
                return
            for job in jobs:
                self._draw([job])
        else:
            for job, samples, length in zip(jobs, drawn, lengths, strict=True):
                job.result.set_result((samples, length))

    def _changed(self, options: RequestOptions) -> LocalSampler:
        return self._sampler.with_options(**dict(options)) if options else self._sampler


def _options(body: dict[str, Any]) -> RequestOptions:
    """The fields of a body that the sampler knows; what it cannot do is refused."""
    for name in _REFUSED:
        if body.get(name):
            raise _refused(f"{name} is not for a local model; leave it out")
    found: dict[str, Any] = {ours: body[name] for name, ours in _OPTIONS.items()
                             if body.get(name) is not None}
    if found.get("temperature") == 0:  # the likeliest text
        found = {"beams": 1} | {k: v for k, v in found.items() if k == "max_tokens"}
    elif body.get("stop"):
        stop = body["stop"]
        found["stop"] = json.dumps(stop if isinstance(stop, list) else [stop])
    for name in ("temperature", "top_p", "min_p"):
        if isinstance(found.get(name), int):
            found[name] = float(found[name])
    return tuple(sorted(found.items()))


def _refused(message: str) -> RefusedError:
    error = RefusedError(message, 400)
    error.refusal = Refusal(400, json.dumps({"error": {
        "message": message, "type": "invalid_request_error", "param": None, "code": None}}), {})
    return error


def _part(samples: Sequence[Sample], prompt_tokens: int, api: API, model: str) -> AnswerPart:
    """Samples in the form of an upstream's answer."""
    each = [sample for sample in samples for _ in range(sample.count)]
    tokens = sum(len(sample.tokens) for sample in each)
    body = {"created": int(time.time()), "model": model,
            "choices": [_choice(sample, index, api) for index, sample in enumerate(each)],
            "usage": {"prompt_tokens": prompt_tokens, "completion_tokens": tokens,
                      "total_tokens": prompt_tokens + tokens}}
    usage = Counter(prompt_tokens=prompt_tokens, completion_tokens=tokens)
    return AnswerPart([_with_logprob(*pair) for pair in zip(read_choices(body), each, strict=True)],
                usage, body)


def _choice(sample: Sample, index: int, api: API) -> dict[str, Any]:
    text = ({"message": {"role": "assistant", "content": sample.text}} if api == "chat"
            else {"text": sample.text})
    return {"index": index, **text, "logprobs": None,
            "finish_reason": sample.finish_reason or "stop"}


def _with_logprob(choice: Choice, sample: Sample) -> Choice:
    return replace(choice, logprob=sample.logprob, length=len(sample.tokens))
