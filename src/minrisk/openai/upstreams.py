"""Several servers whose samples form one pool, as commands name them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import urlsplit

from minrisk._core.errors import InputError, unknown
from minrisk._core.options import labels
from minrisk.openai.client_options import server_address

SYNTAX = "URL[,model=NAME][,name=LABEL][,samples=N][,weight=W][,key-variable=VAR]"
_SETTINGS = ("model", "name", "samples", "weight", "key-variable")


@dataclass(frozen=True)
class UpstreamServer:
    """A server, and how it takes part in a pool of samples."""

    endpoint: str
    model: str | None = None  # None: the one that is requested
    name: str = ""  # of its samples; default: its model, or its host
    samples: int | None = None  # None: an equal part
    weight: float = 1.0  # of each of its samples as a reference
    key_variable: str | None = None  # environment variable with its key; None: the default


def parse_upstreams(texts: Sequence[str], flag: str) -> list[UpstreamServer]:
    """The servers of a repeated flag; the key of each one stays in the environment.

    >>> [one] = parse_upstreams(["http://localhost:8000/v1,model=m"], "--upstream")
    >>> one.endpoint, one.name, one.samples, one.weight
    ('http://localhost:8000/v1', 'm', None, 1.0)
    """
    found = [_parsed(text, flag) for text in texts]
    numbers = [one.samples for one in found]
    if None in numbers and any(numbers):
        raise InputError(f"{flag}: give samples for all servers, or for none")
    if len(found) == 1 and (numbers[0] or found[0].weight != 1):
        raise InputError(f"{flag}: samples and weight are for pools; give several servers")
    names = labels(one.name or one.model or urlsplit(one.endpoint).netloc for one in found)
    return [replace(one, name=name) for one, name in zip(found, names, strict=True)]


def _parsed(text: str, flag: str) -> UpstreamServer:
    url, *settings = text.split(",")
    server_address(url, flag)
    given: dict[str, Any] = {}
    for one in settings:
        name, equals, value = one.partition("=")
        if name not in _SETTINGS:
            raise unknown(f"setting of {flag},", name, _SETTINGS)
        if not (equals and value):
            raise InputError(f"{flag}: {name} has no value, in {text!r:.100}")
        if name == "name" and "+" in value:
            raise InputError(f"{flag}: the name {value!r:.60} must not contain a +")
        given[name.replace("-", "_")] = value
    try:
        if "samples" in given:
            given["samples"] = int(given["samples"])
        given["weight"] = float(given.get("weight", 1))
    except ValueError:
        raise InputError(f"{flag}: samples and weight must be numbers; got {text!r:.100}") from None
    if given.get("samples", 1) < 1 or not 0 < given["weight"] < math.inf:
        raise InputError(f"{flag}: samples must be at least 1, and weight above 0; "
                         f"got {text!r:.100}")
    return UpstreamServer(url, **given)


def split(n: int, shares: Sequence[float]) -> list[int]:
    """n in whole parts that are proportional to the shares, by the largest remainders.

    >>> split(5, [2, 1, 1])
    [3, 1, 1]
    """
    exact = [n * share / sum(shares) for share in shares]
    parts = [math.floor(part) for part in exact]
    largest = sorted(range(len(parts)), key=lambda place: parts[place] - exact[place])
    for place in largest[:n - sum(parts)]:
        parts[place] += 1
    return parts


def ranges(numbers: range, parts: Sequence[int]) -> Iterator[range]:
    """The numbers in consecutive parts of these sizes."""
    start = numbers.start
    for part in parts:
        yield range(start, start + part)
        start += part
