"""Files elsewhere, by URL (s3://, https://, ...): whatever fsspec opens."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import BinaryIO

from minrisk.errors import InputError, MissingExtra


def is_url(path: str) -> bool:
    return "://" in path


def open_url(path: str, mode: str) -> BinaryIO:
    with _told(path):
        stream: BinaryIO = _fsspec().open(path, mode).open()
        return stream


def size(path: str) -> int | None:
    """In bytes, where the server tells it; fails if there is no such file."""
    with _told(path):
        system, place = _fsspec().core.url_to_fs(path)
        found = system.info(place)
    if found["type"] == "directory":
        raise InputError(f"cannot read {path}: it is a directory; wanted a file")
    size: int | None = found["size"]
    return size


def _fsspec() -> ModuleType:
    try:
        import fsspec
    except ImportError:
        raise MissingExtra("URLs need fsspec: pip install 'minrisk[fsspec]'") from None
    found: ModuleType = fsspec
    return found


@contextmanager
def _told(path: str) -> Iterator[None]:
    """Each protocol is a package with errors of its own; those of files are told as files' are."""
    try:
        yield
    except (MissingExtra, OSError):
        raise
    except ImportError as error:
        raise MissingExtra(f"{path} needs one more package: {error}") from None
    except Exception as error:
        raise InputError(f"{path} cannot be opened: {error}; check the URL and what it needs to "
                         "know of you") from None
