"""The native core, or plain Python with the same results if it could not be built."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType

from minrisk._core.native import native_core

_PLAIN = {"chrf": "ngram.chrf_plain", "bleu": "ngram.bleu_plain", "ter": "ter"}


def backend(metric: str) -> ModuleType:
    """The implementation of a metric; MINRISK_CORE selects avx512, avx2, portable or plain."""
    native = native_core()
    if native is None:
        return import_module(f"minrisk.metrics.{_PLAIN[metric]}")
    part: ModuleType = getattr(native, metric)
    return part
