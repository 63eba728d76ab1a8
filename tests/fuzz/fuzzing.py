"""What the fuzz tests share: examples until the time is up, mutations, and values of all kinds."""

from __future__ import annotations

import inspect
import json
import os
import re
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import wraps
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

SECONDS = float(os.environ.get("FUZZ_SECONDS", "0.4"))  # of each target
_CPU_SECONDS = 20.0  # of an example; not wall-clock seconds, which a busy machine stretches
_DEEP = 100_000  # brackets in each other, beyond what Python's parsers can follow
_MARKER = "nested as deeply as "

settings.register_profile("fuzz", max_examples=1000, deadline=None,
                          suppress_health_check=list(HealthCheck))


class _TimeIsUp(BaseException):  # Hypothesis would take an Exception for a failure
    pass


def fuzz(**arguments: st.SearchStrategy[Any]) -> Callable[[Callable[..., None]], Any]:
    """A test of generated arguments, with other ones until `FUZZ_SECONDS` have passed.

    The arguments that are left are fixtures of pytest. The number of examples is a property of the
    test's report.
    """
    def decorate(test: Callable[..., None]) -> Any:
        left = [p for p in inspect.signature(test).parameters.values() if p.name not in arguments]

        def run(record_property: Callable[[str, object], None], **fixtures: Any) -> None:
            target = _Target(test)
            examples = settings(settings.get_profile("fuzz"))(given(**arguments)(target.example()))
            with suppress(_TimeIsUp):
                while True:  # in rounds, for Hypothesis remembers all examples of one
                    examples(**fixtures)
            record_property("examples", target.count)

        run.__name__, run.__doc__, run.__module__ = test.__name__, test.__doc__, test.__module__
        keyword = inspect.Parameter.KEYWORD_ONLY
        run.__signature__ = inspect.Signature([  # type: ignore[attr-defined]
            inspect.Parameter("record_property", keyword),
            *(p.replace(kind=keyword) for p in left)])
        return run

    return decorate


class _Target:
    """One test: how many examples it has seen, and until when it gets more."""

    def __init__(self, test: Callable[..., None]) -> None:
        self.count = 0
        self._test = test
        self._end = time.monotonic() + SECONDS
        self._has_failed = False  # which takes more examples, to find the smallest

    def example(self) -> Callable[..., None]:
        @wraps(self._test)
        def example(**arguments: Any) -> None:
            if time.monotonic() > self._end and self.count and not self._has_failed:
                raise _TimeIsUp
            self.count += 1
            try:
                with limited_time():
                    self._test(**arguments)
            except Exception:
                self._has_failed = True
                raise

        return example


@contextmanager
def limited_time() -> Iterator[None]:
    """An example that does not end is a failure, also where somebody catches all exceptions."""
    def fail(*_: object) -> None:
        raise AssertionError(f"took more than {_CPU_SECONDS:g} seconds")

    before = signal.signal(signal.SIGPROF, fail)
    signal.setitimer(signal.ITIMER_PROF, _CPU_SECONDS, 1.0)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


# values

_TEXTS = st.one_of(
    st.text(max_size=8),
    st.text(alphabet=st.characters(categories=["Cs", "Cc", "Zl", "Zp", "Lo"]), max_size=4),
    st.sampled_from(["", " ", "\n", "a\r\nb", "\x00", "\ufeff", "\ud800", "\udc80a", "\u2028",
                     "NaN", "null", "1", "-", "id", "samples", "x" * 5000]))
_INTEGERS = st.one_of(
    st.integers(-3, 70),
    st.sampled_from([2**31, 2**53 + 1, 2**63 - 1, 2**63, -2**63 - 1, 10**30, 10**400, 10**4299]))
_FLOATS = st.one_of(
    st.floats(),
    st.sampled_from([0.0, -0.0, 0.5, 5e-324, 1e-308, 1e308, -1e308, float("inf"), float("-inf"),
                     float("nan")]))
scalars = st.one_of(st.none(), st.booleans(), _INTEGERS, _FLOATS, _TEXTS)
json_values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_TEXTS, inner, max_size=4),
    max_leaves=8)


@dataclass(frozen=True)
class _Deep:
    """In the place of a value: lists in each other, some of them too many for any parser."""

    depth: int


_deep = st.builds(_Deep, st.integers(200, 1000) | st.just(_DEEP))


@st.composite
def altered(draw: st.DrawFn, valid: Any) -> Any:
    """Valid JSON with other values, or none, in some places."""
    found = json.loads(json.dumps(valid))
    for _ in range(draw(st.integers(0, 3))):
        found = _changed(draw, found)
    return found


def _changed(draw: st.DrawFn, value: Any) -> Any:
    """Some place of the value, changed: the deeper it goes, the sooner it stops."""
    if isinstance(value, dict | list) and value and draw(st.integers(0, 3)):
        key = draw(st.sampled_from(sorted(value) if isinstance(value, dict)
                                   else range(len(value))))
        kind = draw(st.sampled_from(["change", "change", "change", "remove", "add"]))
        if kind == "change":
            value[key] = _changed(draw, value[key])
        elif kind == "remove":
            del value[key]
        elif isinstance(value, dict):
            value[draw(_TEXTS)] = draw(json_values)
        else:
            value.insert(key, draw(json_values))
        return value
    return draw(st.one_of(_similar(value), json_values, json_values, _deep))


def _similar(value: Any) -> st.SearchStrategy[Any]:
    """Values of the same type, which get further than others."""
    if isinstance(value, bool):
        return st.booleans()
    if isinstance(value, int | float):
        return _INTEGERS | _FLOATS
    return _TEXTS if isinstance(value, str) else st.lists(scalars, max_size=3)


def dump(value: Any) -> str:
    """As JSON, with NaN and with what is nested too deeply."""
    def nested(found: re.Match[str]) -> str:
        return "[" * int(found[1]) + "]" * int(found[1])

    text = json.dumps(value, default=lambda found: f"{_MARKER}{found.depth}")
    return re.sub(rf'"{_MARKER}(\d+)"', nested, text)


# bytes

_PIECES = st.one_of(
    st.binary(max_size=6),
    st.sampled_from([b"\n", b"\r\n", b"\x00", b"\xff", b"\xef\xbb\xbf", b"{", b"}", b"[", b"]",
                     b'"', b"\\", b"\\u", b",", b":", b"null", b"NaN", b"-1", b"1e999", b"9" * 5000,
                     b"\xed\xa0\x80", b"[" * _DEEP, b" " * 70_000]))


@st.composite
def mutated(draw: st.DrawFn, valid: st.SearchStrategy[bytes]) -> bytes:
    """Valid bytes with flipped bits, and pieces that were cut, doubled, moved or put in."""
    content = bytearray(draw(valid))
    for _ in range(draw(st.integers(0, 4))):
        _mutate(draw, content)
    return bytes(content)


def _mutate(draw: st.DrawFn, content: bytearray) -> None:
    start = draw(st.integers(0, len(content)))
    end = min(len(content), start + draw(st.integers(0, 40)))
    kind = draw(st.sampled_from(["flip", "flip", "put", "replace", "remove", "cut", "double",
                                 "move"]))
    if kind == "flip" and start < len(content):
        content[start] ^= 1 << draw(st.integers(0, 7))
    elif kind == "put":
        content[start:start] = draw(_PIECES)
    elif kind == "replace":
        content[start:end] = draw(_PIECES)
    elif kind == "remove":
        del content[start:end]
    elif kind == "cut":
        del content[start:]
    elif kind == "double":
        content[end:end] = content[start:end]
    elif kind == "move":
        piece = content[start:end]
        del content[start:end]
        place = draw(st.integers(0, len(content)))
        content[place:place] = piece
