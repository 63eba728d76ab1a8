"""Any number of choices for a prompt, in as many requests as the server needs.

Servers differ in small ways: newer OpenAI models need `max_completion_tokens` and a fixed
temperature, other servers support no seed or no log-probabilities, and `n` may be rejected, ignored
or limited. A request is first sent with all fields. If the error names a field, the request is sent
without it, and if that works, so are all further requests.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Collection, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Literal

import numpy as np

from minrisk._core.errors import MinriskError, Wording
from minrisk._core.token_confidence import WINDOW
from minrisk.openai.client import Client, Receive, Response
from minrisk.openai.encoding import Check, Mask
from minrisk.openai.errors import BadRequestError, Detail
from minrisk.openai.responses import Choice, check_response, read_choices, read_usage

API = Literal["chat", "completions"]
ACCEPTED_AFTER = 2.0  # seconds after which a request counts as accepted, because errors are fast
_PATHS = {"chat": "chat/completions", "completions": "completions"}
# words in errors about unsupported fields; a value out of range is for the user to fix
_UNKNOWN = re.compile(
    r"unsupported|unknown|unrecogni[sz]ed|unexpected|forbidden|fixed|instead|only the default"
    r"|(?:not|n't) (?:be )?(?:supported?|allowed|permitted|available|recogni[sz]ed|accepted)"
    r"|cannot find|extra inputs", re.IGNORECASE)
_CHOICES = re.compile(
    r"""['"`]n['"`]|\bn (?:must|should|is|has|cannot|value|parameter)\b|\bn ?[=<>:]"""
    r"|\b(?:parameter|value of|value for) n\b|\bn_cmpl\b|candidate_?count"
    r"|(?:multiple|more than one|number of) (?:choices|completions)", re.IGNORECASE)
_WITHOUT = {
    "temperature": "the server refuses temperature={value}: {reason}; it uses its own temperature",
    "logprobs": "the server returns no log-probabilities: {reason}; responses have none",
    "seed": "the server accepts no seed: {reason}; samples are not repeatable",
    "top_logprobs": "the server refuses top_logprobs={value}: {reason}; it is left out",
}
# fields of a request for samples that may be dropped or replaced
REPLACEABLE = frozenset({"max_tokens", "temperature", "logprobs", "top_logprobs", "seed"})
# dropped on any error that names them, even one about their value
_ALWAYS_LEFT_OUT = ("logprobs", "seed", "top_logprobs", "grammar")


@dataclass(frozen=True)
class CompletionResponse:
    """The choices of one response, its token usage, and its unchanged body."""

    choices: list[Choice]
    usage: Mapping[str, int] | None
    body: Mapping[str, Any] = field(default_factory=dict)
    raw: bytes | None = None  # of a response that is passed through, if they say the same


# called with a part or its error, and the number of choices in it
PartCallback = Callable[[CompletionResponse | MinriskError, int], None]


@dataclass(frozen=True)
class UpstreamRequest:
    """A request for choices: the body without `n`, and the seed of each choice."""

    body: Mapping[str, Any]
    seed: Callable[[int], int | None] = lambda number: None
    replaceable: frozenset[str] = REPLACEABLE  # fields of the body that may be dropped
    # waits for capacity for n choices, and holds it until they are answered
    hold: Callable[[int], AbstractAsyncContextManager[None]] = lambda n: nullcontext()

    def fields(self, number: int, n: int) -> dict[str, Any]:
        """The body of a request for n choices, starting with this number."""
        seed = self.seed(number)
        return {**self.body, **({} if seed is None else {"seed": seed}),
                **({} if n == 1 else {"n": n})}


def requested_logprobs(api: API, top: int | None = None) -> dict[str, Any]:
    """The fields that request log-probabilities, and those of the likeliest tokens."""
    if api == "completions":
        return {"logprobs": top or 1}
    return {"logprobs": True} | ({} if top is None else {"top_logprobs": top})


def request_seed(*numbers: int) -> int:
    """A seed of 31 bits that depends on all of these numbers.

    Seeds of requests are far apart, because servers use seed + 1, ... for further choices.
    """
    return int(np.random.SeedSequence(numbers).generate_state(1)[0] >> 1)


@dataclass
class Capabilities:
    """The capabilities of a server, shared by all requests to one model during a run."""

    unsupported_fields: frozenset[str] = frozenset()
    max_choices: int | None = None  # maximum choices per response, if below the number requested
    accepted: int = 0  # the largest n that worked
    notes: set[str] = field(default_factory=set)  # kinds of notes already shown

    @property
    def is_known(self) -> bool:
        """Whether a request has succeeded, so that others with the same fields will, too."""
        return self.accepted > 0


def without_fields(body: Mapping[str, Any], unsupported: Collection[str]) -> dict[str, Any]:
    """The body with these fields dropped or replaced."""
    left_out = {*unsupported, *(("top_logprobs",) if "logprobs" in unsupported else ())}
    fields = {name: value for name, value in body.items() if name not in left_out}
    if "max_tokens" in unsupported and "max_tokens" in body:
        fields["max_completion_tokens"] = body["max_tokens"]
    return fields


def unsupported_field(error: BadRequestError, candidates: Collection[str]) -> str | None:
    """The first of these fields that the error names as unsupported."""
    for name in sorted(candidates):
        if _names(error.detail, name) and (name in _ALWAYS_LEFT_OUT
                                         or _UNKNOWN.search(error.detail.text)):
            return name
    return None


def fewer_choices(error: BadRequestError, n: int) -> int:
    """The number of choices to request after n were rejected: the limit in the error, or 1."""
    if error.detail.field != "n" and not _CHOICES.search(error.detail.text):
        return 1
    numbers = map(int, re.findall(r"\b\d{1,4}\b", error.detail.text))
    return max((number for number in numbers if 0 < number < n), default=1)


def note_on(name: str, value: Any, reason: str) -> str | None:
    """The note for the user about a field that was dropped."""
    return Wording(_WITHOUT[name], value=value, reason=reason) if name in _WITHOUT else None


def _names(detail: Detail, name: str) -> bool:
    return detail.field == name or bool(re.search(rf"(?<!\w){name}(?!\w)", detail.text))


@dataclass(frozen=True)
class Variant:
    """A form of the request that the server may accept."""

    without: frozenset[str]  # fields that are dropped or replaced
    n: int  # choices per request
    # field -> the error that showed that it is not supported
    reasons: Mapping[str, BadRequestError] = field(default_factory=dict)


class Completions:
    """Requests to one interface (chat or completions) of a server, for one model."""

    def __init__(self, client: Client, api: API = "chat", *, per_request: int = 16,
                 window: int = WINDOW, capabilities: Capabilities | None = None,
                 note: Callable[[str], None] = lambda message: None,
                 progress: Callable[[int, int], None] = lambda done, planned: None) -> None:
        self.capabilities = capabilities or Capabilities()
        self._client = client
        self._path = _PATHS[api]
        self._check: Check = check_response
        self._per_request = per_request
        self._window = window  # tokens
        self._note = note
        self._progress = progress
        self._planned = self._done = 0  # number of requests
        self._first_request: asyncio.Event | None = None  # set when other requests may be sent

    async def sample(self, request: UpstreamRequest, numbers: range,
                     report: PartCallback | None = None) -> list[CompletionResponse]:
        """Choices with these numbers in order, at least one in each part.

        `report` is called for each part as it arrives; with it, a failed part does not cancel the
        others.
        """
        size = self.capabilities.max_choices or self._per_request
        # by per_request first, so that bounds are the same before the server's maximum is known
        parts = [part for block in _split(numbers, self._per_request)
                 for part in _split(block, size)]
        self._planned += len(parts)
        if len(parts) == 1:
            return await self._part(request, parts[0], report)
        try:
            async with asyncio.TaskGroup() as group:  # cancels the other requests on an error
                tasks = [group.create_task(self._part(request, part, report)) for part in parts]
        except BaseExceptionGroup as errors:
            raise errors.exceptions[0] from None
        return [part for task in tasks for part in task.result()]

    def note(self, kind: str, message: str) -> None:
        """Show the user a message once per run and kind."""
        if kind not in self.capabilities.notes:
            self.capabilities.notes.add(kind)
            self._note(message)

    async def _part(self, request: UpstreamRequest, numbers: range,
                    report: PartCallback | None) -> list[CompletionResponse]:
        try:
            if self.capabilities.is_known:
                part = await self._request(request, numbers)
            else:
                async with self._turn():
                    part = await self._request(request, numbers)
        except MinriskError as error:
            if report is None:
                raise
            report(error, len(numbers))
            return []
        if report is not None:
            report(part, len(part.choices))
        self._done += 1
        self._progress(self._done, self._planned)
        rest = numbers[len(part.choices):]  # some servers return fewer than requested
        return [part, *(await self.sample(request, rest, report) if rest else [])]

    async def _request(self, request: UpstreamRequest, numbers: range) -> CompletionResponse:
        """The choices of the first of these numbers, dropping fields that the server rejects."""
        known = self.capabilities
        trial = Variant(known.unsupported_fields,
                        min(len(numbers), known.max_choices or len(numbers)))
        while True:
            body = request.fields(numbers[0], trial.n)
            sent = without_fields(body, trial.without & frozenset(request.replaceable))
            try:
                async with request.hold(trial.n):
                    response = await self._post(sent, partial(self._settle, trial, body, numbers))
            except BadRequestError as error:
                trial = self._next(trial, error, sent.keys() & request.replaceable)
            else:
                part = await _completion(response, trial.n, self._client.mask, self._window)
                self._learn(replace(trial, n=len(part.choices)), body, numbers)
                known.accepted = max(known.accepted, len(part.choices))
                return part

    async def pass_through(self, body: Mapping[str, Any]) -> CompletionResponse:
        """The response to a request that is forwarded unchanged."""
        response = await self._client.post(self._path, body, self._check, keep_raw=True)
        return await _completion(self._read(response), _wanted(body), self._client.mask)

    async def relay(self, body: Mapping[str, Any], receive: Receive) -> CompletionResponse:
        """Like `pass_through`, with each chunk passed to `receive` as it arrives."""
        response = await self._client.stream(self._path, body, receive, self._check)
        return await _completion(self._read(response), _wanted(body), self._client.mask)

    def _read(self, response: Response) -> Response:
        """The response in the format of chats and completions."""
        return response

    async def _post(self, sent: Mapping[str, Any], settle: Callable[[], None]) -> Response:
        timer = None if self._first_request is None else (
            asyncio.get_running_loop().call_later(ACCEPTED_AFTER, settle))
        try:
            return self._read(await self._client.post(self._path, sent, self._check))
        finally:
            if timer is not None:
                timer.cancel()

    def _next(self, trial: Variant, error: BadRequestError, candidates: Collection[str]) -> Variant:
        """The variant to try after an error; raises the error if no other one can help."""
        known = self.capabilities
        if known.unsupported_fields - trial.without:  # learned meanwhile by a concurrent request
            return replace(trial, without=trial.without | known.unsupported_fields)
        if name := unsupported_field(error, candidates):
            return replace(trial, without=trial.without | {name},
                           reasons={**trial.reasons, name: error})
        if trial.n > max(1, known.accepted):
            return replace(trial, n=fewer_choices(error, trial.n))
        raise error

    def _learn(self, trial: Variant, body: Mapping[str, Any], numbers: range) -> None:
        """Remember unsupported fields once a request without them has been accepted."""
        known = self.capabilities
        known.unsupported_fields |= trial.without
        if trial.n < len(numbers):
            known.max_choices = min(known.max_choices or trial.n, trial.n)
        for name, error in trial.reasons.items():
            if message := note_on(name, body.get(name), str(error)):
                self.note(name, message)

    def _settle(self, trial: Variant, body: Mapping[str, Any], numbers: range) -> None:
        """Release the other requests: errors are fast, so this one counts as accepted."""
        if self._first_request:
            self._learn(trial, body, numbers)
            self._first_request.set()

    @asynccontextmanager
    async def _turn(self) -> AsyncIterator[None]:
        """Send one request first, so that only one is rejected because of an unsupported field."""
        while (first := self._first_request) and not self.capabilities.is_known:
            await first.wait()
            if first is self._first_request:  # not answered yet, but assumed to be accepted
                break
        is_first = not self._first_request and not self.capabilities.is_known
        if is_first:
            self._first_request = asyncio.Event()
        try:
            yield
        finally:
            if is_first and self._first_request:
                first, self._first_request = self._first_request, None
                first.set()


def _wanted(body: Mapping[str, Any]) -> int:
    """The number of choices that a request asks for."""
    n = body.get("n")
    return n if isinstance(n, int) and n > 0 else 1


async def _completion(response: Response, most: int, mask: Mask,
                      window: int = WINDOW) -> CompletionResponse:
    """At most `most` choices of a response, and its usage."""
    def read() -> CompletionResponse:
        choices = read_choices(response.body, most, mask, window)
        return CompletionResponse(choices, read_usage(response.body, choices), response.body,
                                  response.raw)

    return await asyncio.to_thread(read) if response.is_large else read()


def _split(numbers: range, size: int) -> list[range]:
    return [numbers[start:start + size] for start in range(0, len(numbers), size)]
