"""The native core, or plain Python with the same results if it could not be built."""

from __future__ import annotations

import os
from functools import cache
from importlib import import_module
from types import ModuleType

from minrisk._core.errors import InputError, unknown, warn

_PLAIN = {"chrf": "ngram.chrf_plain", "bleu": "ngram.bleu_plain", "ter": "ter"}


def backend(metric: str) -> ModuleType:
    """The implementation of a metric; MINRISK_CORE selects avx512, avx2, portable or plain."""
    native = native_core()
    if native is None:
        return import_module(f"minrisk.metrics.{_PLAIN[metric]}")
    part: ModuleType = getattr(native, metric)
    return part


@cache
def native_core() -> ModuleType | None:
    """The module, which uses the instructions that MINRISK_CORE names; None for the plain twins."""
    wanted = os.environ.get("MINRISK_CORE", "")
    if wanted == "plain":
        return None
    try:
        native = import_module("minrisk._native")
    except ImportError as error:
        if wanted:
            raise InputError(f"MINRISK_CORE is {wanted!r}, but the native core cannot be loaded: "
                             f"{error}") from None
        warn(f"minrisk's native core cannot be loaded ({error}); plain Python is used, "
             "which is correct but slow; install a C++20 compiler, and then minrisk again",
             RuntimeWarning)
        return None
    if wanted:
        if wanted not in native.available_simd():
            raise unknown("MINRISK_CORE", wanted, [*native.available_simd(), "plain"])
        native.set_simd(wanted)
    return native
