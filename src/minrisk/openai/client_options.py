"""Options of samplers and metrics that use an OpenAI-compatible server, and their client."""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any
from urllib.parse import urlsplit

from minrisk._core.errors import InputError, warn
from minrisk._core.lazy import lazy
from minrisk._core.options import Options, option, owner
from minrisk._core.token_confidence import WINDOW
from minrisk.openai.background import Callback
from minrisk.openai.client import Client, Health
from minrisk.openai.completions import API, Capabilities, Completions

KEY, ADDRESS = "OPENAI_API_KEY", "OPENAI_BASE_URL"  # environment variables


@dataclass(frozen=True)
class ClientOptions(Options):
    """The model, the server, and how requests are sent to it."""

    model: str = option()
    endpoint: str | None = option(None)
    concurrency: int = option(8, ge=1, affects_results=False)
    timeout: float = option(600.0, gt=0, affects_results=False)
    retries: int = option(6, ge=0, affects_results=False)
    key_variable: str = option(KEY, affects_results=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        # resolved here, so that signatures name the actual server
        object.__setattr__(self, "endpoint", server_address(self.endpoint, owner(self)))

    def client(self) -> Client:
        return Client(self.endpoint or "", server_key(self.key_variable),
                      concurrency=self.concurrency, timeout=self.timeout,
                      retries=self.retries, health=self._health)

    @asynccontextmanager
    async def completions(self, note: Callable[[str], None] = warn,
                          progress: Callable[[int, int], None] = lambda done, planned: None, *,
                          api: API = "chat", per_request: int = 1,
                          window: int = WINDOW) -> AsyncIterator[Completions]:
        """Connect; known capabilities of the server are reused."""
        async with self.client() as client:
            yield Completions(client, api, per_request=per_request, window=window,
                              capabilities=self._capabilities, note=note, progress=progress)

    @lazy
    def _health(self) -> Health:
        return Health()

    @lazy
    def _capabilities(self) -> Capabilities:
        return Capabilities()


def warn_in(call: Callable[[Callback], None]) -> Callable[[str], None]:
    """A function that warns in the caller's thread."""
    return lambda message: call(partial(warn, message))


def server_address(endpoint: str | None, name: str) -> str:
    """The given address or that of the environment; `name` is the owner, for messages."""
    address = os.environ.get(ADDRESS, "").strip() if endpoint is None else endpoint
    if endpoint is None and not address:
        raise InputError(f"{name}: endpoint must be the address of a server, such as "
                         f"http://localhost:8000/v1; give it, or set {ADDRESS}")
    _check_address(address)
    return address


def server_key(variable: str = KEY) -> str | None:
    """The API key from this environment variable; only the default variable may be unset."""
    key = os.environ.get(variable, "").strip()
    if not key and variable != KEY:
        is_name = variable.isidentifier() and variable.isupper()  # else it may be a key
        raise InputError(f"the environment variable {variable if is_name else '(not shown)'} is "
                         "not set; set it to the API key")
    if not (key.isascii() and key.isprintable()):  # not valid in a header
        raise InputError(f"the environment variable {variable} is not an API key: it has line "
                         "breaks, control or other special characters")
    return key or None


def _check_address(endpoint: str) -> None:
    try:
        parts = urlsplit(endpoint)
        fine = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        parts, fine = urlsplit(""), False
    if parts.username is not None or parts.query:  # the message must not show possible secrets
        raise InputError("the endpoint's address has a user name or a query; give "
                         "http(s)://HOST:PORT/PATH, and put the key into the environment")
    if not fine:
        raise InputError("endpoint must be an address such as http://localhost:8000/v1; got "
                         f"{endpoint!r}")


def further_fields(extra: str | None) -> dict[str, Any]:
    """The request fields in the option `extra`, a JSON object."""
    try:
        fields = json.loads(extra or "{}")
    except (ValueError, RecursionError):
        fields = None
    if not isinstance(fields, dict):
        raise InputError(f"extra {extra!r:.60}; expected a JSON object, such as "
                         '{"min_p": 0.1}')
    return fields
