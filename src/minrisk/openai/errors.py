"""Errors of a server: transient, permanent, and errors that affect all requests."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

from minrisk._core.errors import InputError, MinriskError, UnusableError


@dataclass(frozen=True)
class ErrorResponse:
    """An error response to be forwarded, unchanged except for the masked key."""

    status: int
    content: str
    headers: Mapping[str, str]


class ServerError(InputError):
    """A failed request, with the status and the error detail of the server, if there are any."""

    response: ErrorResponse | None = None

    def __init__(self, message: str, status: int | None = None,
                 detail: Detail | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.detail = detail or Detail("")


class UnusableServerError(UnusableError):
    """An error that affects all requests."""

    response: ErrorResponse | None = None


class BadRequestError(ServerError):
    """The server rejects this request; it may accept others."""


class TemporaryError(ServerError):
    """A transient error; the request may be retried after `wait` seconds."""

    def __init__(self, message: str, status: int | None = None, detail: Detail | None = None, *,
                 wait: float = 0.0, unreachable: bool = False) -> None:
        super().__init__(message, status, detail)
        self.wait = wait
        self.unreachable = unreachable  # True if there was no connection at all


@dataclass(frozen=True)
class Detail:
    """The message of an error, and the request field and the code that it names, if any."""

    text: str
    field: str | None = None
    code: str | None = None

    @classmethod
    def of(cls, raw: str) -> Detail:
        """The detail in the body of a response, in any of the formats that servers use."""
        with suppress(ValueError, RecursionError):
            return cls._of_json(json.loads(raw), raw)
        return cls(raw)

    @classmethod
    def _of_json(cls, found: Any, raw: str) -> Detail:
        if isinstance(found, list) and found:  # Gemini
            found = found[0]
        if not isinstance(found, dict):
            return cls(raw)
        error = found.get("error", found)
        if not isinstance(error, dict):
            return cls(error if isinstance(error, str) else raw)
        text = next(filter(None, map(_words, map(error.get, ("message", "detail", "msg")))), raw)
        return cls(text, _string(error.get("param")), _string(error.get("code")))

    def changed(self, change: Callable[[str], str]) -> Detail:
        """A copy with `change` applied to every text."""
        return Detail(change(self.text), self.field and change(self.field),
                    self.code and change(self.code))


@dataclass(frozen=True)
class InvalidResponse:
    """The reason why a response is invalid, and whether a retry may help."""

    text: str
    is_temporary: bool


def error_response(error: MinriskError) -> ErrorResponse | None:
    """The server's error response that made a request fail, if there is one."""
    return error.response if isinstance(error, ServerError | UnusableServerError) else None


def _words(found: Any) -> str | None:
    """A message, or a list of validation errors (FastAPI, Mistral), as text."""
    if isinstance(found, dict):
        found = found.get("detail")
    if isinstance(found, list):
        return "; ".join(_validation_errors(found)) or None
    return _string(found)


def _validation_errors(found: list[Any]) -> Iterator[str]:
    for item in found:
        if isinstance(item, dict) and isinstance(item.get("msg"), str):
            place = item.get("loc")
            yield f"{'.'.join(map(str, place))}: {item['msg']}" if isinstance(place, list) else (
                item["msg"])


def _string(found: Any) -> str | None:
    return found if isinstance(found, str) else None


def seconds_to_wait(header: str | None) -> float:
    """The wait of a Retry-After header, which is a number of seconds or a date."""
    if header is None:
        return 0.0
    with suppress(ValueError):
        seconds = float(header)
        return seconds if seconds > 0 else 0.0  # 0 for NaN, too
    with suppress(ValueError, TypeError, OverflowError):
        return max(0.0, (parsedate_to_datetime(header) - datetime.now(UTC)).total_seconds())
    return 0.0
