"""One request to a JSON server, with every failure sorted by what can be done about it."""

from __future__ import annotations

import json
import socket
import ssl
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from http.client import HTTPException
from typing import IO, Any
from urllib.error import HTTPError, URLError
from urllib.request import HTTPRedirectHandler, Request, build_opener

from minrisk.errors import InputError

_TEMPORARY = {408, 425, 429}  # and all from 500 on
_REFUSED = {400, 413, 422}
_SHOWN = 300  # characters of what a server says


class TemporaryError(InputError):
    """May work when asked again, not before `wait` seconds have passed."""

    def __init__(self, message: str, wait: float = 0.0) -> None:
        super().__init__(message)
        self.wait = wait


class RefusedError(InputError):
    """The server does not take this request; it may take another."""


class UnusableError(InputError):
    """No request to this server can work."""


class _NoRedirect(HTTPRedirectHandler):
    """A key is for the server it was given to, and not for where that one points."""

    def redirect_request(self, req: Request, fp: IO[bytes], code: int, msg: str, headers: Any,
                         newurl: str) -> None:
        return None


_opener = build_opener(_NoRedirect)


def post(url: str, body: Mapping[str, Any], key: str | None, timeout: float) -> Any:
    """The server's answer; its errors never show the key."""
    headers = {"Content-Type": "application/json"}
    if key:
        headers["Authorization"] = f"Bearer {key}"
    try:
        with _opener.open(Request(url, json.dumps(body).encode(), headers), timeout=timeout) as got:
            return json.load(got)
    except HTTPError as error:
        raise _sorted(error, url, key) from None
    except (OSError, HTTPException, ValueError) as error:
        raise _broken(error, url) from None


def _sorted(error: HTTPError, url: str, key: str | None) -> InputError:
    said = _said(error)
    message = f"{url}: {error.code} {said.replace(key, '***') if key else said}"
    if error.code in _TEMPORARY or error.code >= 500:
        return TemporaryError(message, _wait(error.headers.get("Retry-After")))
    if error.code in _REFUSED:
        return RefusedError(message)
    hints = {401: "check the key in the environment", 403: "check the key in the environment",
             404: "check the endpoint and the model"}
    return UnusableError(f"{message}; {hints.get(error.code, 'check the endpoint')}")


def _broken(error: Exception, url: str) -> InputError:
    reason = error.reason if isinstance(error, URLError) else error
    if isinstance(reason, ConnectionRefusedError | socket.gaierror | ssl.SSLCertVerificationError):
        return UnusableError(f"cannot reach {url}: {reason}; check the address, "
                             "and that the server is running")
    if isinstance(reason, TimeoutError):
        return TemporaryError(f"{url}: no answer in time")
    if isinstance(reason, ValueError):
        return TemporaryError(f"{url}: the answer is no whole JSON")
    return TemporaryError(f"{url}: the connection broke: {reason or type(reason).__name__}")


def _said(error: HTTPError) -> str:
    """The server's own words, in one short line."""
    text = ""
    with suppress(OSError, HTTPException):
        text = error.read().decode("utf-8", "replace")
    with suppress(ValueError, TypeError, KeyError):
        found = json.loads(text)["error"]
        text = found if isinstance(found, str) else found["message"]
    return " ".join(str(text).split())[:_SHOWN] or error.reason


def _wait(header: str | None) -> float:
    """Seconds from now, which servers give as such or as a date."""
    if header is None:
        return 0.0
    with suppress(ValueError):
        return max(0.0, float(header))
    with suppress(ValueError, TypeError):
        return max(0.0, (parsedate_to_datetime(header) - datetime.now(UTC)).total_seconds())
    return 0.0
