"""A Ray cluster to work on."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager

from minrisk.errors import InputError, MissingExtra

try:
    import ray
except ImportError as missing:
    raise MissingExtra(f"--engine ray needs {missing.name}: pip install 'minrisk[ray]'") from None

__all__ = ["connect", "ray"]


def connect(address: str | None, cpus: int | None) -> bool:
    """A quiet Ray that tells nobody about us; whether there was none before.

    Without an address it is one of this machine's own, with so many processors.
    """
    if ray.is_initialized():
        return False
    os.environ |= {"RAY_USAGE_STATS_ENABLED": "0", "RAY_BACKEND_LOG_LEVEL": "fatal"}
    try:
        with _silence():
            ray.init(address or "local", num_cpus=None if address else cpus,
                     include_dashboard=False, log_to_driver=False, logging_level=logging.ERROR)
    except (ConnectionError, ValueError, RuntimeError) as error:
        raise InputError(f"no Ray cluster at {address or 'this machine'}: {error}; start one with "
                         "`ray start --head`, or leave --address out") from None
    return True


@contextmanager
def _silence() -> Iterator[None]:
    """Of native code, which says past Python that it was told to say nothing."""
    before = os.dup(2)
    with open(os.devnull, "wb") as nowhere:
        os.dup2(nowhere.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(before, 2)
        os.close(before)
