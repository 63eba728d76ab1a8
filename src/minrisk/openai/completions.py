"""Any number of choices for a prompt, in as many requests as the server needs for them.

Servers differ in small ways: newer models of OpenAI need `max_completion_tokens` and their own
temperature, other servers have no seed or no log-probabilities, and `n` may be refused, ignored or
limited. A request is first sent with all fields; if the error names a field, it is sent without it,
and if that works, so are all further requests.
"""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import AsyncIterator, Callable, Collection, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Literal

import numpy as np

from minrisk._core.errors import MinriskError, Wording
from minrisk.openai.client import Client, Receive, Response
from minrisk.openai.encoding import Mask
from minrisk.openai.errors import BadRequestError, Detail
from minrisk.openai.responses import Choice, check_response, read_choices, read_usage

API = Literal["chat", "completions"]
ACCEPTED_AFTER = 2.0  # seconds after which a request is taken to be accepted: errors are fast
_PATHS = {"chat": "chat/completions", "completions": "completions"}
# in errors about unknown fields; a value that is out of range is for the user to fix
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
# fields that a request for samples can do without
REPLACEABLE = frozenset({"max_tokens", "temperature", "logprobs", "seed"})
# whatever is wrong with their values
_ALWAYS_LEFT_OUT = ("logprobs", "seed", "top_logprobs", "grammar")


@dataclass(frozen=True)
class CompletionResponse:
    """The choices of one response, its usage in tokens, and its unchanged body."""

    choices: list[Choice]
    usage: Counter[str] | None
    body: Mapping[str, Any] = field(default_factory=dict)


# called with a part or its error, and the number of its choices
PartCallback = Callable[[CompletionResponse | MinriskError, int], None]


@dataclass(frozen=True)
class UpstreamRequest:
    """A request for choices: the body without their number, and the seed of each choice."""

    body: Mapping[str, Any]
    seed: Callable[[int], int | None] = lambda number: None
    replaceable: frozenset[str] = REPLACEABLE  # fields of the body that may be left out
    # waits for room for so many choices, which they have until they are answered
    hold: Callable[[int], AbstractAsyncContextManager[None]] = lambda n: nullcontext()

    def fields(self, number: int, n: int) -> dict[str, Any]:
        """The body of a request for n choices from this number on; without `n` servers give one."""
        seed = self.seed(number)
        return {**self.body, **({} if seed is None else {"seed": seed}),
                **({} if n == 1 else {"n": n})}


def request_seed(*numbers: int) -> int:
    """A seed of 31 bits that depends on all of these numbers.

    Seeds of requests are far apart, because servers use the next ones for further choices.
    """
    return int(np.random.SeedSequence(numbers).generate_state(1)[0] >> 1)


@dataclass
class Capabilities:
    """The capabilities of a server, shared by all requests to one model during a run."""

    unsupported_fields: frozenset[str] = frozenset()
    max_choices: int | None = None  # in one response, if fewer than were requested
    accepted: int = 0  # the largest n that worked
    notes: set[str] = field(default_factory=set)  # kinds of notes that were shown already

    @property
    def is_known(self) -> bool:
        """Whether a request has succeeded, so that others with the same fields will."""
        return self.accepted > 0


def without_fields(body: Mapping[str, Any], unsupported: Collection[str]) -> dict[str, Any]:
    """The body without these fields, or with their replacements."""
    left_out = {*unsupported, *(("top_logprobs",) if "logprobs" in unsupported else ())}
    fields = {name: value for name, value in body.items() if name not in left_out}
    if "max_tokens" in unsupported and "max_tokens" in body:
        fields["max_completion_tokens"] = body["max_tokens"]
    return fields


def unsupported_field(error: BadRequestError, candidates: Collection[str]) -> str | None:
    """The first of these fields that the error says is not accepted."""
    for name in sorted(candidates):
        if _names(error.detail, name) and (name in _ALWAYS_LEFT_OUT
                                         or _UNKNOWN.search(error.detail.text)):
            return name
    return None


def fewer_choices(error: BadRequestError, n: int) -> int:
    """The number of choices to request after n were refused: the limit in the error, or 1."""
    if error.detail.field != "n" and not _CHOICES.search(error.detail.text):
        return 1
    numbers = map(int, re.findall(r"\b\d{1,4}\b", error.detail.text))
    return max((number for number in numbers if 0 < number < n), default=1)


def note_on(name: str, value: Any, reason: str) -> str | None:
    """The note for the user about a field that was left out."""
    return Wording(_WITHOUT[name], value=value, reason=reason) if name in _WITHOUT else None


def _names(detail: Detail, name: str) -> bool:
    return detail.field == name or bool(re.search(rf"(?<!\w){name}(?!\w)", detail.text))


@dataclass(frozen=True)
class Variant:
    """A form of request that the server may take."""

    without: frozenset[str]  # these fields
    n: int  # choices
    # the errors about newly unsupported fields
    reasons: Mapping[str, BadRequestError] = field(default_factory=dict)


class Completions:
    """One interface of a server, for one model."""

    def __init__(self, client: Client, api: API = "chat", *, per_request: int = 16,
                 capabilities: Capabilities | None = None,
                 note: Callable[[str], None] = lambda message: None,
                 progress: Callable[[int, int], None] = lambda done, planned: None) -> None:
        self.capabilities = capabilities or Capabilities()
        self._client = client
        self._path = _PATHS[api]
        self._per_request = per_request
        self._note = note
        self._progress = progress
        self._planned = self._done = 0  # requests
        self._first_request: asyncio.Event | None = None  # set when others may follow

    async def sample(self, request: UpstreamRequest, numbers: range,
                     report: PartCallback | None = None) -> list[CompletionResponse]:
        """Choices of these numbers in order, at least one in each part.

        With `report`, which is called for each part as it comes, a failed part costs no other one.
        """
        size = self.capabilities.max_choices or self._per_request
        # the bounds are the same before and after the server's maximum is known
        parts = [part for block in _split(numbers, self._per_request)
                 for part in _split(block, size)]
        self._planned += len(parts)
        try:
            async with asyncio.TaskGroup() as group:  # an error cancels the other requests
                tasks = [group.create_task(self._part(request, part, report)) for part in parts]
        except BaseExceptionGroup as errors:
            raise errors.exceptions[0] from None
        return [part for task in tasks for part in task.result()]

    def note(self, kind: str, message: str) -> None:
        """Show the user a message, once per run and kind."""
        if kind not in self.capabilities.notes:
            self.capabilities.notes.add(kind)
            self._note(message)

    async def _part(self, request: UpstreamRequest, numbers: range,
                    report: PartCallback | None) -> list[CompletionResponse]:
        try:
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
        rest = numbers[len(part.choices):]  # some servers give fewer than were requested
        return [part, *(await self.sample(request, rest, report) if rest else [])]

    async def _request(self, request: UpstreamRequest, numbers: range) -> CompletionResponse:
        """The choices of the first of these numbers, with as few fields as the server takes."""
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
                part = await _completion(response, trial.n, self._client.mask)
                self._learn(replace(trial, n=len(part.choices)), body, numbers)
                known.accepted = max(known.accepted, len(part.choices))
                return part

    async def pass_through(self, body: Mapping[str, Any]) -> CompletionResponse:
        """The response to a request that is sent as it is."""
        return await _completion(await self._client.post(self._path, body, check_response),
                                 _wanted(body), self._client.mask)

    async def relay(self, body: Mapping[str, Any], receive: Receive) -> CompletionResponse:
        """The same, with each chunk given to `receive` as it comes."""
        return await _completion(
            await self._client.stream(self._path, body, receive, check_response), _wanted(body),
            self._client.mask)

    async def _post(self, sent: Mapping[str, Any], settle: Callable[[], None]) -> Response:
        timer = asyncio.get_running_loop().call_later(ACCEPTED_AFTER, settle)
        try:
            return await self._client.post(self._path, sent, check_response)
        finally:
            timer.cancel()

    def _next(self, trial: Variant, error: BadRequestError, candidates: Collection[str]) -> Variant:
        """The variant to send after an error; raises the error if the prompt is the reason."""
        known = self.capabilities
        if known.unsupported_fields - trial.without:  # another request found out in the meantime
            return replace(trial, without=trial.without | known.unsupported_fields)
        if name := unsupported_field(error, candidates):
            return replace(trial, without=trial.without | {name},
                           reasons={**trial.reasons, name: error})
        if trial.n > max(1, known.accepted):
            return replace(trial, n=fewer_choices(error, trial.n))
        raise error

    def _learn(self, trial: Variant, body: Mapping[str, Any], numbers: range) -> None:
        """Remember unsupported fields once a request without them was not refused."""
        known = self.capabilities
        known.unsupported_fields |= trial.without
        if trial.n < len(numbers):
            known.max_choices = min(known.max_choices or trial.n, trial.n)
        for name, error in trial.reasons.items():
            if message := note_on(name, body.get(name), str(error)):
                self.note(name, message)

    def _settle(self, trial: Variant, body: Mapping[str, Any], numbers: range) -> None:
        """Let the other requests go: errors are fast, so this one is taken as accepted."""
        if self._first_request:
            self._learn(trial, body, numbers)
            self._first_request.set()

    @asynccontextmanager
    async def _turn(self) -> AsyncIterator[None]:
        """Send one request first, so that only one is refused for an unsupported field."""
        while (first := self._first_request) and not self.capabilities.is_known:
            await first.wait()
            if first is self._first_request:  # not yet answered, but settled
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


async def _completion(response: Response, most: int, mask: Mask) -> CompletionResponse:
    """The choices of a response, at most so many, and its usage."""
    def read() -> CompletionResponse:
        choices = read_choices(response.body, most, mask)
        return CompletionResponse(choices, read_usage(response.body, choices), response.body)

    return await asyncio.to_thread(read) if response.is_large else read()


def _split(numbers: range, size: int) -> list[range]:
    return [numbers[start:start + size] for start in range(0, len(numbers), size)]
