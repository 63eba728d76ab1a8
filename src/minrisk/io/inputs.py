"""Input files: paths and patterns, identity, and format."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterable, Iterator
from hashlib import sha256
from itertools import chain
from typing import Any, Literal, NamedTuple

from minrisk._core.errors import InputError, brief, warn
from minrisk.io import remote
from minrisk.io.files import EXTENSIONS, Input, as_input_error

# files in output folders; tools that read such a folder as data ignore names with a leading dot
ERRORS, MANIFEST = ".errors.jsonl", ".manifest.json"
OLD_ERRORS, OLD_MANIFEST = "errors.jsonl", "manifest.json"  # their names in earlier versions
WORK = ".minrisk"  # hidden folder for unfinished results; outputs cannot have this name
JSON = (".jsonl", ".json", ".ndjson")
PARQUET = ".parquet"
InputFormat = Literal["auto", "text", "json"]
_IDENTITY_BYTES = 1 << 20  # bytes at the beginning of a file that are hashed


class InputFile(NamedTuple):
    """An input file."""

    name: str  # the path as given, without secrets; for messages
    location: str  # absolute path or URL
    size: int | None = None  # bytes at the start of the run, if known

    @classmethod
    def at(cls, path: str) -> InputFile:
        is_elsewhere = path == "-" or remote.is_url(path)
        return cls(remote.redact_url(path), path if is_elsewhere else os.path.abspath(path))

    def open(self) -> Input:
        name = None if self.location == "-" else self.name
        if self.location.endswith(PARQUET):
            from minrisk.io.parquet import ParquetInput  # few runs need it

            return ParquetInput(self.location, name, self.size)
        return Input(self.location, name, self.size)

    @property
    def can_be_read_again(self) -> bool:
        """Whether it can be opened more than once, unlike a pipe."""
        return remote.is_url(self.location) or self.open().size is not None

    def identity(self) -> str:
        """Its size and a checksum of its beginning, by which a resumed run recognises it."""
        if not self.can_be_read_again:
            return "a pipe"
        source = self.open()
        beginning = sha256(source.beginning(_IDENTITY_BYTES)).hexdigest()
        return f"{source.size} bytes, {beginning[:16]}"


def input_files(paths: Iterable[Any],
                wanted: str = "inputs must be names of files") -> tuple[InputFile, ...]:
    """The existing files that paths and patterns name; nothing is read.

    `wanted` starts the error message for values that are not paths.
    """
    names = list(paths)
    for path in names:
        if not isinstance(path, str | os.PathLike):
            raise InputError(f"{wanted}; got {brief(path)}")
    files = [InputFile.at(path) for path in expand(map(os.fspath, names))]
    return tuple(file._replace(size=file.open().size) for file in files)


def expand(paths: Iterable[str]) -> list[str]:
    """The files that paths and patterns match, in order; an existing file is never a pattern.

    In the output folder of another run, only shards count; its manifest and errors are ignored.
    """
    given = list(paths)
    found = [match for path in given for match in _matches(path)]
    shards = [path for path in found if not _is_beside_shards(path)]
    beside = sorted(set(given) & set(found) - set(shards))
    if beside and shards:
        names = ", ".join(map(remote.redact_url, beside))
        belong = "it belongs" if len(beside) == 1 else "they belong"
        warn(f"ignored {names}: {belong} to the run that wrote the folder")
    return shards or found


def _matches(path: str) -> list[str]:
    if not glob.has_magic(path) or os.path.exists(path):
        return [path]
    if remote.is_url(path):
        with as_input_error("read", path):
            matches = remote.matches(path)
    else:
        matches = sorted(filter(os.path.isfile, glob.glob(path, recursive=True)))
    if not matches:
        raise InputError(f"no file matches {remote.redact_url(path)}")
    return matches


def _is_beside_shards(path: str) -> bool:
    folder, name = os.path.split(path)
    return name in (ERRORS, OLD_ERRORS, MANIFEST, OLD_MANIFEST) and any(
        _exists(os.path.join(folder, manifest)) for manifest in (MANIFEST, OLD_MANIFEST))


def _exists(path: str) -> bool:
    with as_input_error("read", path):
        return remote.exists(path) if remote.is_url(path) else os.path.exists(path)


def peek_format(source: Input, format: InputFormat = "auto") -> tuple[bool, Iterator[bytes]]:
    """Whether an input is JSON lines, and all its lines, including those already read."""
    lines = iter(source)
    first = next(lines, b"")
    as_json = source.has_fields or is_json(format, source.path, first)
    return as_json, chain([first] if source.number else [], lines)


def is_json(format: InputFormat, path: str, line: bytes) -> bool:
    """Whether a file is JSON lines, according to the given format, its name, or its first line."""
    if format != "auto":
        return format == "json"
    for extension in EXTENSIONS:
        path = path.removesuffix(extension)
    return path.endswith(JSON) or line.lstrip(b"\xef\xbb\xbf \t").startswith(b"{")
