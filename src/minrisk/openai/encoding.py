"""JSON of any size, of which the event loop reads and writes only what is small."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Any

from minrisk._core.arrays import finite_numbers
from minrisk.openai.masking import Mask

LARGE = 1 << 16  # characters and values; what is larger is read and written beside the event loop
_MAX_VALUES = 1 << 22  # of a response


def is_large(found: Any) -> bool:
    """Whether characters and values add up to more than the event loop should write at once."""
    rest, size = [found], 0
    while rest and size <= LARGE:
        value = rest.pop()
        if isinstance(value, str):
            size += len(value)
        elif isinstance(value, Mapping):
            size += 2 * len(value)
            rest.extend(value.values())
        elif isinstance(value, list):
            size += len(value)
            rest.extend(value)
    return size > LARGE


def encoded(found: Any) -> bytes:
    """As JSON, with null for the numbers that JSON has not."""
    try:
        return json.dumps(found, allow_nan=False).encode()
    except ValueError:
        return json.dumps(finite_numbers(found)).encode()


class Encoder:
    """Encodes in a thread what is large, one at a time, so that the event loop has its turns."""

    def __init__(self) -> None:
        self._turn = asyncio.Lock()

    async def encode(self, found: Any) -> bytes:
        if not is_large(found):
            return encoded(found)
        async with self._turn:
            return await asyncio.to_thread(encoded, found)


def parsed(raw: str, mask: Mask) -> Any:
    """The JSON of a server, without the key and without numbers that JSON has not.

    Raises:
        ValueError: if it is no JSON, or has more values than any response.
        RecursionError: if it is nested too deeply.
    """
    if len(raw) > _MAX_VALUES and sum(map(raw.count, ",[{")) > _MAX_VALUES:
        raise ValueError(f"more than {_MAX_VALUES:,} values")
    return mask.json(json.loads(raw, parse_constant=_no_number), raw)


async def parsed_here(raw: str, mask: Mask) -> Any:
    return parsed(raw, mask)


def _no_number(name: str) -> None:
    """NaN and Infinity, which some servers write."""
