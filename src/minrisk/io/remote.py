"""Files elsewhere, by URL (s3://, https://, ...): whatever fsspec opens."""

from __future__ import annotations

import re
from collections.abc import Iterator
from types import ModuleType
from typing import Any, BinaryIO

from minrisk._core.errors import InputError, MinriskError, MissingExtra

# without a password, what is before an @ may be public (a container of Azure), but not on the web
_USER = re.compile(r"(\bhttps?://|://(?=[^/?\s]*:))([^/?\s]+@)")
_QUERY = re.compile(r"(?<=\?)[^\s'\"]+")


def is_url(path: str) -> bool:
    return "://" in path


def shown(path: str) -> str:
    """A path as all may see it: a URL may hold a password, or a token in its query."""
    return _QUERY.sub("***", _USER.sub(r"\1", path)) if is_url(path) else path


def hidden(text: str, url: str) -> str:
    """What others say of a URL, without the secrets that they repeat."""
    text = shown(text)
    for secret in filter(None, _secrets(url)):
        text = text.replace(secret, "***")
    return text


def _secrets(url: str) -> Iterator[str]:
    if is_url(url):
        for _, user in _USER.findall(url):
            yield user
            yield user[:-1].partition(":")[2]
        yield from _QUERY.findall(url)


def system(url: str) -> tuple[Any, str]:
    """The file system, and the place in it."""
    found: tuple[Any, str] = _fsspec().core.url_to_fs(url)
    return found


def open_url(path: str, mode: str) -> BinaryIO:
    stream: BinaryIO = _fsspec().open(path, mode).open()
    return stream


def size(path: str) -> int | None:
    """In bytes, where the server tells it; fails if there is no such file."""
    files, place = system(path)
    found = files.info(place)
    if found["type"] == "directory":
        raise InputError(f"cannot read {shown(path)}: it is a directory; wanted a file")
    size: int | None = found["size"]
    return size


def exists(url: str) -> bool:
    files, place = system(url)
    return bool(files.exists(place))


def matches(pattern: str) -> list[str]:
    """The files of a pattern, in order."""
    files, place = system(pattern)
    before = pattern.removesuffix(place)  # with the host, which a place may not name
    return [before + found if before != pattern else files.unstrip_protocol(found)
            for found in sorted(files.glob(place)) if files.isfile(found)]


def as_minrisk_error(verb: str, path: str, error: Exception) -> MinriskError:
    """Each protocol is a package of its own, which may be missing, and has errors of its own."""
    if isinstance(error, MinriskError):
        return error
    if isinstance(error, ImportError):
        return MissingExtra(f"{shown(path)} needs one more package: {error}")
    if isinstance(error, NotImplementedError):
        return InputError(f"cannot {verb} {shown(path)}: its protocol has no way to {verb}; "
                          "name a URL of another")
    return InputError(f"cannot {verb} {shown(path)}: {hidden(str(error), path)}; check the URL, "
                      "and what its server must know of you")


def _fsspec() -> ModuleType:
    try:
        import fsspec
    except ImportError:
        raise MissingExtra("URLs need fsspec: pip install 'minrisk[fsspec]'") from None
    found: ModuleType = fsspec
    return found
