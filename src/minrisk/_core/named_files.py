"""The files and folders that options of a metric name."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice
from typing import Any

from minrisk._core.options import inner_metrics

_MAX_FILES_PER_FOLDER = 1000


def named_files(config: Any) -> Iterator[str]:
    """Options that are the name of a file or folder."""
    if not dataclasses.is_dataclass(config):
        return
    for field in dataclasses.fields(config):
        value = getattr(config, field.name)
        affects_results = field.metadata.get("affects_results", True)
        if isinstance(value, str) and affects_results and _exists(value):
            yield value


def files_of(path: str) -> Iterator[str]:
    """The file, or the first of those in the folder and in its folders."""
    if not os.path.isdir(path):
        yield path
        return
    inside = (os.path.join(folder, name) for folder, _, names in os.walk(path) for name in names)
    yield from islice(inside, _MAX_FILES_PER_FOLDER)


def file_states(metric: Any) -> tuple[tuple[str, int, int], ...]:
    """Name, size and modification time of all files behind a metric, which tell of changes."""
    found = [state for part in inner_metrics(metric) for state in file_states(part)]
    for file in (file for path in named_files(metric) for file in files_of(path)):
        with suppress(OSError):  # the metric reports it when it needs the file
            status = os.stat(file)
            found.append((file, status.st_size, status.st_mtime_ns))
    return tuple(sorted(found))


def _exists(path: str) -> bool:
    try:
        return os.path.exists(path)
    except ValueError:  # no text that could be a path
        return False
