"""Fingerprints of metrics: hashes of the code and the files that scores depend on.

Not covered are changes of what such a file uses in turn (modules that it imports, programs that it
starts, servers that it asks), of installed packages, and of models behind a name on the hub.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator
from hashlib import blake2b
from typing import Any

from minrisk._core.adapters import MetricAdapter, as_metric
from minrisk._core.metric import AnyMetric
from minrisk._core.named_files import files_of, named_files
from minrisk._core.options import inner_metrics

_MAX_HASHED_BYTES = 1 << 20  # of a file; of larger ones size and modification time count


def fingerprint(metric: AnyMetric) -> str:
    """Changes when the code or a file behind the metric, or a metric inside it, does."""
    metric = as_metric(metric)
    unwrapped = metric.metric if isinstance(metric, MetricAdapter) else metric
    own = metric.fingerprint()
    if own is None:
        own = digest([*module_files(type(unwrapped)), *named_files(unwrapped)])
    if unwrapped is not metric:
        return own
    return " ".join([own, *map(fingerprint, inner_metrics(metric))])


def module_files(*owners: Any) -> Iterator[str]:
    """The files in which classes, functions or modules of other packages are written."""
    for owner in owners:
        name = str(getattr(owner, "__module__", None) or getattr(owner, "__name__", ""))
        file = getattr(sys.modules.get(name), "__file__", None)
        if file and name.partition(".")[0] != "minrisk":  # whose version is in the signature
            yield file


def digest(paths: Iterable[str]) -> str:
    """Hash of the contents of files and folders."""
    found = blake2b(digest_size=16)
    for path in paths:
        for file in sorted(files_of(path)):
            found.update(_content(file))
    return found.hexdigest()


def _content(path: str) -> bytes:
    try:
        with open(path, "rb") as stream:
            content = stream.read(_MAX_HASHED_BYTES + 1)
            if len(content) <= _MAX_HASHED_BYTES:
                return blake2b(content).digest()
            found = os.fstat(stream.fileno())
            return f"{found.st_size} {found.st_mtime_ns}".encode()
    except OSError:  # the metric reports it when it needs the file
        return b"unreadable"
