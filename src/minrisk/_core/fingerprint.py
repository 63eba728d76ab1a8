"""Fingerprints of the code and files on which the scores of a metric depend besides its options.

They do not cover what such a file uses in turn (imported modules, programs, servers), installed
packages, or models that are loaded by name from the hub.
"""

from __future__ import annotations

import dataclasses
import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from hashlib import blake2b
from itertools import islice
from typing import Any

from minrisk._core.options import inner_metrics, unwrapped

_MAX_FILES_PER_FOLDER = 1000
_MAX_HASHED_BYTES = 1 << 20  # larger files are identified by size and modification time


def fingerprint(metric: Any) -> str:
    """A string that changes with the code and the files of the metric and its inner metrics."""
    own = metric.fingerprint()
    if own is None:
        own = digest([*module_files(type(unwrapped(metric))), *named_files(metric)])
    return " ".join([own, *map(fingerprint, inner_metrics(metric))])


def file_states(metric: Any) -> tuple[tuple[str, int, int], ...]:
    """Name, size and modification time of all files of a metric, to detect changes cheaply."""
    states = [state for part in inner_metrics(metric) for state in file_states(part)]
    for file in (file for path in named_files(metric) for file in files_of(path)):
        with suppress(OSError):  # the metric reports it when it needs the file
            status = os.stat(file)
            states.append((file, status.st_size, status.st_mtime_ns))
    return tuple(sorted(states))


def digest(paths: Iterable[str]) -> str:
    """Hash of the contents of files and folders."""
    hasher = blake2b(digest_size=16)
    for path in paths:
        for file in sorted(files_of(path)):
            hasher.update(_content(file))
    return hasher.hexdigest()


def module_files(*owners: Any) -> Iterator[str]:
    """The source files of classes, functions or modules, except for those of minrisk."""
    for owner in owners:
        name = str(getattr(owner, "__module__", None) or getattr(owner, "__name__", ""))
        file = getattr(sys.modules.get(name), "__file__", None)
        if file and name.partition(".")[0] != "minrisk":  # covered by the version in the signature
            yield file


def named_files(metric: Any) -> Iterator[str]:
    """Values of the metric's options that are paths of existing files or folders."""
    config = unwrapped(metric)
    if not dataclasses.is_dataclass(config):
        return
    for field in dataclasses.fields(config):
        value = getattr(config, field.name)
        affects_results = field.metadata.get("affects_results", True)
        if isinstance(value, str) and affects_results and _exists(value):
            yield value


def files_of(path: str) -> Iterator[str]:
    """The file itself, or the first files in the folder and its subfolders."""
    if not os.path.isdir(path):
        yield path
        return
    inside = (os.path.join(folder, name) for folder, _, names in os.walk(path) for name in names)
    yield from islice(inside, _MAX_FILES_PER_FOLDER)


def _exists(path: str) -> bool:
    try:
        return os.path.exists(path)
    except ValueError:  # not a valid path, e.g. a null character
        return False


def _content(path: str) -> bytes:
    try:
        with open(path, "rb") as stream:
            content = stream.read(_MAX_HASHED_BYTES + 1)
            if len(content) <= _MAX_HASHED_BYTES:
                return blake2b(content).digest()
            status = os.fstat(stream.fileno())
            return f"{status.st_size} {status.st_mtime_ns}".encode()
    except OSError:  # the metric reports it when it needs the file
        return b"unreadable"
