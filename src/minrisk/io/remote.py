"""Remote files by URL (s3://, https://, ...), through fsspec."""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib import import_module
from types import ModuleType
from typing import Any, BinaryIO

from minrisk._core.errors import InputError, MinriskError, MissingExtra, needs_extra

# without a password, the part before an @ may be public (an Azure container), except in http
_USER = re.compile(r"(\bhttps?://|://(?=[^/?\s]*:))([^/?\s]+@)")
_QUERY = re.compile(r"(?<=\?)[^\s'\"]+")


def is_url(path: str) -> bool:
    return "://" in path


def redact_url(path: str) -> str:
    """A path for messages: URLs lose password and query, which may be secret."""
    return _QUERY.sub("***", _USER.sub(r"\1", path)) if is_url(path) else path


def redact(text: str, url: str) -> str:
    """A library's message without the secrets of the URL."""
    text = redact_url(text)
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
    """The file system of a URL, and the path in it."""
    found: tuple[Any, str] = _fsspec().core.url_to_fs(url)
    return found


def open_url(path: str, mode: str) -> BinaryIO:
    stream: BinaryIO = _fsspec().open(path, mode).open()
    return stream


def size(path: str) -> int | None:
    """The size in bytes, if known; raises an error if the file does not exist."""
    files, place = system(path)
    info = files.info(place)
    if info["type"] == "directory":
        raise InputError(f"cannot read {redact_url(path)}: it is a directory; expected a file")
    size: int | None = info["size"]
    return size


def exists(url: str) -> bool:
    files, place = system(url)
    return bool(files.exists(place))


def matches(pattern: str) -> list[str]:
    """The URLs of the files that a pattern matches, sorted."""
    files, place = system(pattern)
    before = pattern.removesuffix(place)  # protocol and host, which results may lack
    return [before + found if before != pattern else files.unstrip_protocol(found)
            for found in sorted(files.glob(place)) if files.isfile(found)]


def as_minrisk_error(verb: str, path: str, error: Exception) -> MinriskError:
    """The error for an exception of an fsspec package, which has its own types, or is missing."""
    if isinstance(error, MinriskError):
        return error
    if isinstance(error, ImportError):
        return MissingExtra(f"{redact_url(path)} needs one more package: {error}")
    if isinstance(error, NotImplementedError):
        return InputError(f"cannot {verb} {redact_url(path)}: its protocol cannot {verb}; "
                          "use a URL with another one")
    return InputError(f"cannot {verb} {redact_url(path)}: {redact(str(error), path)}; check the "
                      "URL and the credentials")


def reason_of(error: OSError) -> str:
    """The reason of a failure; fsspec's FileNotFoundError itself may only repeat the URL."""
    cause = error.__cause__
    if (status := getattr(cause, "status", None)) is not None:  # an HTTP response
        return f"the server answered {status} {getattr(cause, 'message', '')}".rstrip()
    if cause is not None:
        return str(cause) or type(cause).__name__
    if isinstance(error, FileNotFoundError):
        return "there is no such file"
    return str(error)


def _fsspec() -> ModuleType:
    with needs_extra("a URL", "fsspec"):
        return import_module("fsspec")
