"""Many files in, as many files out: which is made of which, and what it is called."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256

from minrisk.errors import InputError
from minrisk.io import remote
from minrisk.io.compression import EXTENSIONS
from minrisk.io.files import Input
from minrisk.io.inputs import open_input
from minrisk.io.prompts import JSON, InputFormat, is_json

_OTHERS = (".txt", ".tsv", ".parquet")
ERRORS, MANIFEST = "errors.jsonl", "manifest.json"  # of a folder of shards, and no shards
_BEGINNING = 1 << 20  # bytes, which tell files apart


@dataclass(frozen=True)
class Shard:
    """One file of the input, and the name of what is made of it."""

    path: str  # as it was given but for its secrets, for messages
    place: str  # where any process finds it
    output: str  # relative to the folder
    as_json: bool  # whether a line is an object, or a text

    def lines(self, source: Input) -> Iterator[bytes]:
        """A line for each segment; blank ones are texts too, but no objects."""
        return (line for line in source if line.strip() or not self.as_json)


def expand(paths: Iterable[str]) -> list[str]:
    """Patterns as the files they match, in order; a file that is there is no pattern.

    A folder that we made may be what is read next: what lies beside its shards is passed over.
    """
    found = [match for path in paths for match in _matches(path)]
    return [path for path in found if not _is_beside(path)] or found


def shards(paths: Sequence[str], extension: str, form: InputFormat = "json") -> list[Shard]:
    """Outputs are named after the inputs, below the folder that these have in common."""
    if not paths or "-" in paths:
        raise InputError("a folder as output needs files as input, not standard input")
    common = os.path.commonpath([os.path.dirname(_below_root(path)) for path in paths])
    made = {ERRORS: "the list of errors"}  # the input of each output
    for path in paths:
        output = _renamed(os.path.relpath(_below_root(path), common), extension)
        if output in made:
            raise InputError(f"{remote.shown(made[output])} and {remote.shown(path)} would both "
                             f"become {output}; rename one of them, or write to two folders")
        made[output] = path
    return [Shard(remote.shown(path), _place(path), output, _as_json(path, form))
            for output, path in made.items() if output != ERRORS]


def identity(path: str) -> str:
    """What tells a file from another of the same name: its size, and how it begins."""
    source = Input(path)
    beginning = sha256(source.beginning(_BEGINNING)).hexdigest()
    return f"{source.size} bytes, {beginning[:16]}"


def _matches(path: str) -> list[str]:
    if not glob.has_magic(path) or os.path.exists(path):
        return [path]
    if remote.is_url(path):
        found = remote.matches(path)
    else:
        found = sorted(filter(os.path.isfile, glob.glob(path, recursive=True)))
    if not found:
        raise InputError(f"no file matches {remote.shown(path)}")
    return found


def _is_beside(path: str) -> bool:
    folder, name = os.path.split(path)
    return name in (ERRORS, MANIFEST) and _exists(os.path.join(folder, MANIFEST))


def _exists(path: str) -> bool:
    return remote.exists(path) if remote.is_url(path) else os.path.exists(path)


def _place(path: str) -> str:
    return path if remote.is_url(path) else os.path.abspath(path)


def _below_root(path: str) -> str:
    """Where a file is among the others; of a URL, what is between its protocol and its query."""
    if not remote.is_url(path):
        return _place(path)
    return "/" + remote.shown(path).partition("://")[2].partition("?")[0]


def _as_json(path: str, form: InputFormat) -> bool:
    if form == "json":
        return True
    source = open_input(path)
    return source.has_fields or is_json(form, path, next(iter(source), b""))


def _renamed(name: str, extension: str) -> str:
    """`a.txt.gz` as `a.jsonl.gz`."""
    compression = next((e for e in EXTENSIONS if name.endswith(e)), "")
    stem = name.removesuffix(compression)
    for known in (*JSON, *_OTHERS):
        stem = stem.removesuffix(known)
    return stem + extension + compression
