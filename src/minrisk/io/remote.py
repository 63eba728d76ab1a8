"""Files elsewhere, by URL (s3://, https://, ...): whatever fsspec opens."""

from __future__ import annotations

from types import ModuleType
from typing import BinaryIO

from minrisk.errors import InputError, MinriskError, MissingExtra


def is_url(path: str) -> bool:
    return "://" in path


def open_url(path: str, mode: str) -> BinaryIO:
    stream: BinaryIO = _fsspec().open(path, mode).open()
    return stream


def size(path: str) -> int | None:
    """In bytes, where the server tells it; fails if there is no such file."""
    system, place = _fsspec().core.url_to_fs(path)
    found = system.info(place)
    if found["type"] == "directory":
        raise InputError(f"cannot read {path}: it is a directory; wanted a file")
    size: int | None = found["size"]
    return size


def matches(pattern: str) -> list[str]:
    """The files of a pattern, in order."""
    system, place = _fsspec().core.url_to_fs(pattern)
    return [system.unstrip_protocol(found) for found in sorted(system.glob(place))
            if system.isfile(found)]


def told(verb: str, path: str, error: Exception) -> MinriskError:
    """Each protocol is a package of its own, which may be missing, and has errors of its own."""
    if isinstance(error, MinriskError):
        return error
    if isinstance(error, ImportError):
        return MissingExtra(f"{path} needs one more package: {error}")
    return InputError(f"cannot {verb} {path}: {error}; check the URL, and what its server must "
                      "know of you")


def _fsspec() -> ModuleType:
    try:
        import fsspec
    except ImportError:
        raise MissingExtra("URLs need fsspec: pip install 'minrisk[fsspec]'") from None
    found: ModuleType = fsspec
    return found
