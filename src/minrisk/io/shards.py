"""Shards: the outputs of a run, one for all inputs, or one per input in a folder."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence, Sized
from copy import copy
from dataclasses import dataclass

from minrisk._core.errors import InputError, MinriskError
from minrisk.io import remote
from minrisk.io.compression import EXTENSIONS
from minrisk.io.inputs import ERRORS, MANIFEST, InputFile
from minrisk.io.parquet import is_parquet
from minrisk.io.prompts import JSON
from minrisk.io.record import Reader

WORK = ".minrisk"  # hidden folder of unfinished results; never the name of an output
_COUNTED_BYTES = 1 << 22  # of all inputs, compressed or not; counting is then quick
_OTHERS = (".txt", ".tsv", ".parquet")


@dataclass(frozen=True)
class Shard:
    """One output file, and the reader of its records."""

    name: str  # relative to the folder
    files: tuple[InputFile, ...]
    reader: Reader


def folder_shards(files: Sequence[InputFile], extension: str,
                  reader_of: Callable[[int, InputFile], Reader]) -> list[Shard]:
    """One shard per input, named after it, below the folder that the inputs have in common."""
    for file in files:
        if not file.can_be_read_again:
            raise InputError(f"{'standard input' if file.location == '-' else file.name}: a folder "
                             "as output needs files as input, which can be read again; found a "
                             "pipe: write to one file, or save the input first")
    below = [_below_root(file) for file in files]
    common = os.path.commonpath([os.path.dirname(path) for path in below])
    made: dict[str, str] = {ERRORS: "the list of errors", MANIFEST: "the manifest"}
    shards = []
    for number, (file, path) in enumerate(zip(files, below, strict=True)):
        name = _renamed(os.path.relpath(path, common), extension)
        if name in made or name.split("/")[0] == WORK:
            raise InputError(f"{made.get(name, 'the working folder')} and {file.name} would both "
                             f"become {name}; rename one of them, or write to two folders")
        made[name] = file.name
        shards.append(Shard(name, (file,), reader_of(number, file)))
    return shards


def count_records(shards: Sequence[Shard]) -> list[int] | None:
    """The number of records of each shard; None where that takes long, or cannot be known."""
    sizes = [_local_size(file) for shard in shards for file in shard.files]
    if None in sizes or sum(filter(None, sizes)) > _COUNTED_BYTES:
        limits = [getattr(shard.reader, "limit", None) for shard in shards]
        return None if None in limits else [limit for limit in limits if limit is not None]
    counts = [_count(shard) for shard in shards]
    return None if None in counts else [count for count in counts if count is not None]


def _local_size(file: InputFile) -> int | None:
    return None if remote.is_url(file.location) else file.open().size


def _count(shard: Shard) -> int | None:
    if not shard.files:
        objects = getattr(shard.reader, "objects", None)
        return len(objects) if isinstance(objects, Sized) else None
    reader = copy(shard.reader)  # it may remember what it has read
    try:
        return sum(1 for _ in reader.records(reader.open()))
    except MinriskError:  # the run will tell
        return None


def _below_root(file: InputFile) -> str:
    """The path of a file; of a URL, the part between its protocol and its query."""
    if not remote.is_url(file.location):
        return file.location
    return "/" + file.name.partition("://")[2].partition("?")[0]


def _renamed(name: str, extension: str) -> str:
    """The name with another extension: `a.txt.gz` becomes `a.jsonl.gz`; Parquet stays Parquet."""
    if is_parquet(name) and extension == ".jsonl":
        return name
    compression = next((e for e in EXTENSIONS if name.endswith(e)), "")
    stem = name.removesuffix(compression)
    for known in (*JSON, *_OTHERS):
        stem = stem.removesuffix(known)
    return stem + extension + compression
