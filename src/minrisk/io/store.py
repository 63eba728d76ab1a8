"""Storage of outputs: a local folder, or a URL.

Object stores cannot append, rename or lock, so only whole files are written to a URL; unfinished
results are kept in a working folder on this machine.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from hashlib import sha256
from importlib import import_module
from pathlib import Path
from typing import Any, BinaryIO, Protocol

from minrisk._core.errors import InputError, Wording
from minrisk.io import remote
from minrisk.io.files import Output, as_input_error, replace_file
from minrisk.io.inputs import WORK

_LOCAL_SCHEME = "file://"
LOCK = "lock"
# Windows locks bytes, which others then cannot read: this one is far beyond the content, and within
# the 32-bit offsets of the C library
_LOCKED_BYTE = 2**31 - 2
_MAX_SINGLE_REQUESTS = 8  # for more files, the whole folder is listed


class Store(Protocol):
    """A folder whose files are written atomically."""

    name: str  # for messages
    work: str  # local working folder for unfinished results
    writer: str | None  # name of a file that identifies the writer; None if a lock suffices

    def location(self, name: str) -> str:
        """The path or URL of a file."""

    def sizes(self, names: Sequence[str]) -> dict[str, int]:
        """The sizes in bytes of the files that exist."""

    def read(self, name: str) -> bytes | None:
        """The content of a file; None if it does not exist."""

    def put(self, temporary: str, name: str) -> None:
        """Move a file from the working folder to its final name."""

    def copy(self, path: str, name: str) -> None:
        """Copy a file that is still growing in the working folder."""

    def remove(self, name: str) -> None:
        """Remove a file, if it exists."""


@dataclass
class LocalStore:
    """A local folder."""

    name: str
    work: str
    writer: str | None = None

    def location(self, name: str) -> str:
        return os.path.join(self.name, name)

    def sizes(self, names: Sequence[str]) -> dict[str, int]:
        sizes = {}
        for name in names:
            try:
                sizes[name] = os.stat(self.location(name)).st_size
            except OSError:
                continue
        return sizes

    def read(self, name: str) -> bytes | None:
        path = self.location(name)
        with as_input_error("read", path):
            return Path(path).read_bytes() if os.path.exists(path) else None

    def put(self, temporary: str, name: str) -> None:
        path = self.location(name)
        with as_input_error("write", path):
            os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
        replace_file(temporary, path)

    def copy(self, path: str, name: str) -> None:
        temporary = f"{path}.copy"
        with as_input_error("write", temporary):
            shutil.copyfile(path, temporary)
        self.put(temporary, name)

    def remove(self, name: str) -> None:
        path = self.location(name)
        with as_input_error("write", path):
            Path(path).unlink(missing_ok=True)


class RemoteStore:
    """A folder at a URL, on any file system that fsspec can write to."""

    def __init__(self, url: str, work: str, writer: str) -> None:
        self.name = remote.redact_url(url)
        self.writer: str | None = writer
        self.work = os.path.join(work, sha256(self.name.encode()).hexdigest()[:16])
        self._url = url
        with as_input_error("write", url):
            self._system, self._root = remote.system(url)

    def location(self, name: str) -> str:
        return self._url + name

    def sizes(self, names: Sequence[str]) -> dict[str, int]:
        with as_input_error("read", self._url):
            self._system.invalidate_cache()
            infos = self._infos(names) if len(names) <= _MAX_SINGLE_REQUESTS else self._all_infos()
        return {name: infos[name]["size"] for name in names if name in infos}

    def _infos(self, names: Sequence[str]) -> dict[str, Any]:
        infos = {}
        for name in names:
            with suppress(FileNotFoundError):
                infos[name] = self._system.info(self._path(name))
        return infos

    def _all_infos(self) -> dict[str, Any]:
        with suppress(FileNotFoundError):
            return {path.removeprefix(self._root).lstrip("/"): info for path, info
                    in self._system.find(self._root, detail=True).items()}
        return {}

    def read(self, name: str) -> bytes | None:
        with as_input_error("read", self.location(name)):
            try:
                content: bytes = self._system.cat_file(self._path(name))
            except FileNotFoundError:
                return None
        return content

    def put(self, temporary: str, name: str) -> None:
        try:
            self.copy(temporary, name)
        finally:
            os.remove(temporary)

    def copy(self, path: str, name: str) -> None:
        target = self._path(name)
        with as_input_error("write", self.location(name)), open(path, "rb") as source:
            if folder := os.path.dirname(target):
                self._system.makedirs(folder, exist_ok=True)
            # a transaction makes the file visible only when it is complete
            with self._system.transaction, self._system.open(target, "wb") as stream:
                shutil.copyfileobj(source, stream)

    def remove(self, name: str) -> None:
        with as_input_error("write", self.location(name)):
            if self._system.exists(self._path(name)):
                self._system.rm_file(self._path(name))

    def _path(self, name: str) -> str:
        is_joined = not self._root or self._root.endswith("/")  # such as the root of a file system
        return f"{self._root}{'' if is_joined else '/'}{name}"


def folder_store(output: str, work: str | None) -> Store:
    """The store for an output folder; `work` is the parent of the working folders of URLs."""
    path = _local_path(output, work)
    if path is None:
        return RemoteStore(output, work or work_cache(), f"{WORK}-writer")
    return LocalStore(path, os.path.join(path, WORK))


def file_store(output: str, work: str | None) -> tuple[Store, str]:
    """The store for an output file, and the name of the file in it."""
    path = _local_path(output, work)
    if path is None:
        root, _, name = output.rpartition("/")
        # one working folder per file, because runs may write to one folder at the same time
        store: Store = RemoteStore(f"{root}/", os.path.join(work or work_cache(), name),
                                   f".{name}{WORK}-writer")
    else:
        folder, name = os.path.split(path)
        with as_input_error("write", output):
            os.stat(folder or ".")  # the folder must exist
        store = LocalStore(folder, os.path.join(folder, f".{name}{WORK}"))
    return store, name


@contextmanager
def locked(store: Store) -> Iterator[None]:
    """Lock the working folder, so that no other run writes to the output.

    The lock ends with the process. Folders that were created but stay empty are removed.
    """
    if os.path.islink(store.work):
        raise InputError(f"{store.work} is a link, but minrisk keeps unfinished results in a "
                         "folder of this name; remove the link, or name another output")
    made, folder = list[str](), store.work  # the new folders, the innermost first
    while folder and not os.path.exists(folder):
        made.append(folder)
        folder = os.path.dirname(folder)
    with as_input_error("write", store.work):
        os.makedirs(store.work, exist_ok=True)
    path = os.path.join(store.work, LOCK)
    try:
        with as_input_error("write", path):
            stream = open(path, "ab")  # noqa: SIM115 - closed below
        with stream:
            if not _has_lock(stream, path):
                made = []
                raise another_run(store)
            try:
                yield
            finally:
                if os.listdir(store.work) == [LOCK]:
                    with suppress(PermissionError):  # Windows: the next run uses the open file
                        os.remove(path)
                    _remove_if_empty(store.work)
    finally:
        for folder in made:
            _remove_if_empty(folder)


def check_new(path: str, overwrite: bool) -> None:
    """Raise InputError if a file exists and may not be replaced."""
    with as_input_error("write", path):
        is_there = remote.exists(path) if remote.is_url(path) else os.path.exists(path)
    if is_there and not overwrite:
        raise InputError(Wording("{path} exists; overwrite=True replaces it, or name another file",
                                 path=remote.redact_url(path)))


def write_text(path: str, text: str) -> None:
    """Write a text file atomically, compressed according to its extension."""
    with _whole(path) as temporary, Output(temporary, name=path) as output:
        output.write(text)


def write_whole(path: str, chunks: Iterable[bytes]) -> int:
    """Write a file atomically, also to a URL; returns the number of bytes."""
    with (_whole(path) as temporary, as_input_error("write", path),
          open(temporary, "wb") as output):
        return sum(map(output.write, chunks))


@contextmanager
def _whole(path: str) -> Iterator[str]:
    """A temporary file to write, which is then moved to its final name."""
    store, name = file_store(path, None)
    with locked(store):
        temporary = os.path.join(store.work, "file")
        try:
            yield temporary
            store.put(temporary, name)
        finally:
            Path(temporary).unlink(missing_ok=True)


def try_lock(descriptor: int) -> bool:
    """Try to lock an open file; returns whether this process has the lock.

    The lock ends when the file is closed. On systems without locks, every attempt succeeds.
    """
    try:
        with suppress(ImportError):
            fcntl: Any = import_module("fcntl")
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        with suppress(ImportError):
            msvcrt: Any = import_module("msvcrt")
            os.lseek(descriptor, _LOCKED_BYTE, os.SEEK_SET)
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
    except OSError:
        return False
    return True


def _has_lock(stream: BinaryIO, path: str) -> bool:
    """Whether this process got the lock, and the file was not removed after it was opened."""
    try:
        return try_lock(stream.fileno()) and os.path.samestat(os.fstat(stream.fileno()),
                                                              os.stat(path))
    except OSError:
        return False


def another_run(store: Store) -> InputError:
    return InputError(f"another run is writing to {store.name or '.'}; wait until it ends, or name "
                      "another output")


def _local_path(output: str, work: str | None) -> str | None:
    """The path of a local output; None for a URL, whose unfinished work is kept elsewhere."""
    if remote.is_url(output) and not output.startswith(_LOCAL_SCHEME):
        return None
    if work:
        raise InputError(Wording("work= is only for an output that is a URL; unfinished results "
                                 "of a local output are kept beside it", output=output))
    return output.removeprefix(_LOCAL_SCHEME)


def _remove_if_empty(folder: str) -> None:
    if os.path.isdir(folder) and not os.listdir(folder):
        os.rmdir(folder)


def work_cache() -> str:
    """The folder for unfinished results of outputs at URLs."""
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return os.path.join(cache, "minrisk", "work")
