"""Where a folder of shards is: on this machine, or at a URL.

Object stores know neither appending, nor renaming, nor locks: a URL gets whole files only, and what
is unfinished lies in a working folder on this machine. A folder of this machine is its own.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable
from hashlib import sha256
from pathlib import Path
from typing import Protocol

from minrisk.errors import InputError
from minrisk.io import remote
from minrisk.io.files import put_in_place, told

_HERE = "file://"  # URLs of this machine


class Place(Protocol):
    """Has files, which appear whole or not at all."""

    name: str  # for messages
    work: str  # the working folder

    def growing(self, run: str) -> str:
        """Where the unfinished shards of this run are, on this machine."""

    def where(self, name: str) -> str:
        """The path or the URL of a file."""

    def present(self, names: Iterable[str]) -> set[str]:
        """Those that are there."""

    def read(self, name: str) -> bytes | None:
        """None if there is no such file."""

    def put(self, fresh: str, name: str) -> None:
        """Move a file of the working folder to its place."""

    def show(self, path: str, name: str) -> None:
        """Copy a file that goes on growing in the working folder to where everybody sees it."""


class Here:
    """A folder of this machine."""

    def __init__(self, path: str) -> None:
        self.name = self.work = path

    def growing(self, run: str) -> str:
        return self.work

    def where(self, name: str) -> str:
        return os.path.join(self.work, name)

    def present(self, names: Iterable[str]) -> set[str]:
        return {name for name in names if os.path.exists(self.where(name))}

    def read(self, name: str) -> bytes | None:
        path = self.where(name)
        with told("read", path):
            return Path(path).read_bytes() if os.path.exists(path) else None

    def put(self, fresh: str, name: str) -> None:
        put_in_place(fresh, self.where(name))

    def show(self, path: str, name: str) -> None:
        """It is there already."""


class There:
    """A folder at a URL, of any file system that fsspec can write to."""

    def __init__(self, url: str, work: str) -> None:
        self.name = remote.shown(url)
        self.work = os.path.join(work, sha256(self.name.encode()).hexdigest()[:16])
        self._url = url
        with told("write", url):
            self._system, self._root = remote.system(url)

    def growing(self, run: str) -> str:
        """Apart from those of earlier runs, which somebody may have removed at the URL."""
        return os.path.join(self.work, run)

    def where(self, name: str) -> str:
        return self._url + name

    def present(self, names: Iterable[str]) -> set[str]:
        with told("read", self._url):
            self._system.invalidate_cache()
            try:
                found = self._system.find(self._root)
            except FileNotFoundError:
                found = []
        return {path.removeprefix(self._root).lstrip("/") for path in found} & set(names)

    def read(self, name: str) -> bytes | None:
        with told("read", self.where(name)):
            try:
                content: bytes = self._system.cat_file(self._path(name))
            except FileNotFoundError:
                return None
        return content

    def put(self, fresh: str, name: str) -> None:
        self.show(fresh, name)
        os.remove(fresh)

    def show(self, path: str, name: str) -> None:
        target = self._path(name)
        with told("write", self.where(name)), open(path, "rb") as source:
            self._system.makedirs(os.path.dirname(target), exist_ok=True)
            # what is written in a transaction is seen when it is over, unless it fails
            with self._system.transaction, self._system.open(target, "wb") as stream:
                shutil.copyfileobj(source, stream)

    def _path(self, name: str) -> str:
        return f"{self._root.rstrip('/')}/{name}"


def place_of(output: str, work: str | None) -> Place:
    """The folder of this path or URL; `work` is where the working folders of URLs are."""
    if remote.is_url(output) and not output.startswith(_HERE):
        return There(output, work or _cache())
    if work:
        raise InputError(f"--work goes with a URL as output; {output} itself keeps what is "
                         "unfinished")
    return Here(output.removeprefix(_HERE))


def _cache() -> str:
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return os.path.join(cache, "minrisk", "work")
