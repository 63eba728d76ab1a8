"""An output that outlives its process: nothing in it is lost, and nothing is there twice.

    NAME              a finished shard, whole; or the one output, where it is no folder
    manifest.json     how it was made, of which inputs, and which shards are finished;
                      beside a single output it is called NAME.run.json
    errors.jsonl      the segments that failed: file, line, id and reason (in a folder)
    .minrisk/         while it is made: a lock, the results of each unfinished shard in a journal,
                      and a journal of the finished shards

Segments that failed are made again when the run is resumed; until then the journal of their shard
stays.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from array import array
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, nullcontext, suppress
from pathlib import Path
from typing import Any, Self
from uuid import uuid4

from minrisk.errors import InputError, MinriskError
from minrisk.io.files import Output, as_input_error, replace_file
from minrisk.io.inputs import ERRORS, MANIFEST
from minrisk.io.journal import Journal
from minrisk.io.matrices import MatrixWriter
from minrisk.io.record import Failure, Result
from minrisk.io.remote import shown
from minrisk.io.shards import Shard
from minrisk.io.sink import MISSING, Remaining
from minrisk.io.store import Store, another_run, file_store, folder_store, locked
from minrisk.io.writer import json_line

_RUN = re.compile(r"[0-9a-f]{32}")
_GROWTH = 1.1  # a manifest is saved again when it has grown by so much: all in all in linear time
_FINISHED = "finished"


class Partial:
    """The results of a shard that is not finished, in the order in which they came."""

    def __init__(self, path: str) -> None:
        with as_input_error("write", path):
            os.makedirs(os.path.dirname(path), exist_ok=True)
        self._journal = Journal(path)
        self._offsets = array("q")  # of the entry with the result of each segment, or MISSING
        self.done = array("q")  # the checksum of the input of each segment, or MISSING
        self.failures: dict[int, Failure] = {}
        self.earlier: dict[int, Failure] = {}  # failures that are to be made again
        self.counts: Counter[str] = Counter()
        self.segments = 0

    def load(self) -> None:
        """What an earlier run left; what failed is to be made again."""
        for offset, entry in self._journal:
            with suppress(KeyError, TypeError, ValueError, IndexError):  # not of our making
                self._note(offset, entry)
        self.earlier, self.failures = self.failures, {}
        for index in self.earlier:
            self.done[index] = MISSING
        self.segments -= len(self.earlier)

    def add(self, results: Sequence[Result]) -> list[Result]:
        """Keep results; those that were not there before."""
        fresh = [r for r in results if not self._has(r.index)]
        if fresh:
            entry = {
                "indices": [r.index for r in fresh],
                "checksums": [r.checksum for r in fresh],
                "texts": [r.text for r in fresh],
                "failures": [r.failure for r in fresh],
                "counts": dict(sum((Counter(r.counts) for r in fresh), Counter())),
            }
            self._note(self._journal.append(entry), entry)
        return fresh

    def texts(self) -> Iterator[str]:
        """Of all segments, in order."""
        runs: list[tuple[int, list[int]]] = []  # consecutive segments of one entry
        for index, offset in enumerate(self._offsets):
            if runs and runs[-1][0] == offset:
                runs[-1][1].append(index)
            else:
                runs.append((offset, [index]))
        for entry, (_, indices) in zip(self._journal.read(o for o, _ in runs), runs, strict=True):
            place = {index: i for i, index in enumerate(entry["indices"])}
            for index in indices:
                yield entry["texts"][place[index]]

    def remove(self) -> None:
        Path(self._journal.path).unlink(missing_ok=True)

    def _has(self, index: int) -> bool:
        return index < len(self.done) and self.done[index] != MISSING

    def _note(self, offset: int, entry: Mapping[str, Any]) -> None:
        for index, checksum, failure in zip(entry["indices"], entry["checksums"],
                                            entry["failures"], strict=True):
            missing = index + 1 - len(self.done)
            self.done.extend([MISSING] * missing)
            self._offsets.extend([MISSING] * missing)
            self.segments += self.done[index] == MISSING
            self.done[index] = checksum
            self._offsets[index] = offset
            self.failures.pop(index, None)
            self.earlier.pop(index, None)
            if failure is not None:
                self.failures[index] = failure
        self.counts.update(entry["counts"])


class RunStore:
    """Gets results in any order, and puts a shard together when all of its results are there."""

    backlog = 0  # everything is on disk at once

    def __init__(self, store: Store, shards: Sequence[Shard], settings: Mapping[str, Any], *,
                 manifest: str = MANIFEST, errors: str | None = ERRORS, resume: bool = False,
                 overwrite: bool = False,
                 matrix_of: Callable[[Shard], MatrixWriter] | None = None) -> None:
        self.store = store
        self._shards = shards
        self._settings = json.loads(json.dumps(dict(settings), default=str))  # as read again
        self._manifest = manifest
        self._errors = errors
        self._resume = resume
        self._overwrite = overwrite
        self._matrix_of = matrix_of
        self._run = self._writer = uuid4().hex
        self._finished: dict[str, dict[str, Any]] = {}  # counts and size, by name
        self._finished_now: set[str] = set()  # by this run
        self._saved = 0  # how many of them are in the manifest
        self._partials: dict[int, Partial] = {}
        self._totals: dict[int, int] = {}  # records of the shards that were read to their end
        self._broken: list[Failure] = []
        self._is_new = True
        self._has_begun = False
        self._open = ExitStack()

    @classmethod
    def folder(cls, output: str, work: str | None, *args: Any, **options: Any) -> RunStore:
        return cls(folder_store(output, work), *args, **options)

    @classmethod
    def file(cls, output: str, work: str | None, shard: Shard, *args: Any,
             **options: Any) -> RunStore:
        store, name = file_store(output, work)
        return cls(store, [Shard(name, shard.files, shard.reader)], *args,
                   manifest=f"{name}.run.json", errors=None, **options)

    # what a run asks

    @property
    def records_broken_shards(self) -> bool:
        return self._errors is not None

    @property
    def counts(self) -> Counter[str]:
        found = Counter[str]()
        for entry in self._finished.values():
            found.update({name: n for name, n in entry.items() if name != "size"})
        for number, partial in self._partials.items():
            if self._shards[number].name not in self._finished:
                found.update(self._counts(partial))
        return found

    @property
    def is_finished(self) -> bool:
        return all(shard.name in self._finished for shard in self._shards)

    def remaining(self) -> Iterator[Remaining]:
        for number, shard in enumerate(self._shards):
            if self._is_to_do(shard):
                partial = self._partials.get(number)
                yield Remaining(number, shard, partial.done if partial else array("q"))

    # what a run does

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            stack.enter_context(locked(self.store))
            self._load()
            self._open = stack.pop_all()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        with self._open, suppress(MinriskError, OSError) if kind else nullcontext():
            if self._has_begun:
                self._close()

    def begin(self) -> None:
        """From here on, what is there under our names is ours."""
        self._has_begun = True
        for name in os.listdir(self.store.work):  # of runs that nobody can resume any more
            if _RUN.fullmatch(name) and name != self._run:
                shutil.rmtree(os.path.join(self.store.work, name), ignore_errors=True)
        self._save()
        self._write_errors()
        if self._matrix_of:
            for shard in filter(self._is_to_do, self._shards):
                self._matrix_of(shard).begin(resume=not self._is_new)

    def add(self, number: int, results: Sequence[Result]) -> list[Result]:
        shard = self._shards[number]
        if not self._is_to_do(shard):
            return []
        fresh = self._partial(number).add(results)
        if self._matrix_of:
            for result in fresh:
                if result.scores is not None:
                    self._matrix_of(shard).add(result.index, result.scores)
        self._append_errors([r.failure for r in fresh if r.failure is not None])
        if fresh:
            self._finish_if_whole(number)
        return fresh

    def end(self, number: int, records: int) -> None:
        self._totals[number] = records
        self._finish_if_whole(number)

    def fail(self, number: int, reason: str) -> None:
        self._broken.append({"file": self._shards[number].files[0].name, "line": None, "id": None,
                             "reason": reason})
        self._append_errors(self._broken[-1:])

    # loading what there is

    def _load(self) -> None:
        content = self.store.read(self._manifest)
        names = [shard.name for shard in self._shards]
        sizes = self.store.sizes([*names, *([self._errors] if self._errors else [])])
        if content is None or self._overwrite:
            if not self._overwrite:
                self._refuse_others(sizes)
            return
        if not self._resume:
            raise InputError(f"{self._name} holds an earlier run; --resume goes on with it, "
                             "--overwrite starts again, or name another output")
        self._is_new = False
        self._load_manifest(content)
        for _, entry in Journal(self._finished_path):
            with suppress(KeyError, TypeError, AttributeError):  # not of our making
                self._finished[entry["shard"]] = dict(entry["counts"])
        self._check_finished(sizes)
        for number, shard in enumerate(self._shards):
            if self._is_to_do(shard) and os.path.exists(self._partial_path(number)):
                self._partial(number).load()

    @property
    def _name(self) -> str:
        single = len(self._shards) == 1 and self._errors is None
        return shown(self.store.location(self._shards[0].name)) if single else self.store.name

    def _refuse_others(self, sizes: Mapping[str, int]) -> None:
        if sizes:
            there = shown(self.store.location(next(iter(sizes))))
            raise InputError(f"{there} exists, and is of no earlier run that could be resumed; "
                             "--overwrite replaces it, or name another output")

    def _load_manifest(self, content: bytes) -> None:
        try:
            found = json.loads(content)
            run, before, finished = found["run"], found["settings"], found[_FINISHED]
            if not (_RUN.fullmatch(run) and isinstance(before, dict)
                    and all(isinstance(entry, dict) for entry in finished.values())):
                raise ValueError
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
            path = shown(self.store.location(self._manifest))
            raise InputError(f"{path}, which says how the output was made, is no manifest of this "
                             "version; --overwrite starts again, or name another output") from None
        check_same(self._name, before, self._settings)
        self._run, self._finished = run, finished
        self._saved = len(finished)

    def _check_finished(self, sizes: Mapping[str, int]) -> None:
        """A shard that was removed is made again; one that somebody changed is told."""
        for name, entry in list(self._finished.items()):
            if name not in sizes:
                del self._finished[name]
            elif "size" in entry and entry["size"] != sizes[name]:
                raise InputError(
                    f"{shown(self.store.location(name))} has {sizes[name]} bytes, but had "
                    f"{entry['size']} when it was finished; remove it to have it made again")

    def _is_to_do(self, shard: Shard) -> bool:
        """What failed in this run is for another one to try again."""
        return shard.name not in self._finished_now and not self._is_whole(shard)

    def _is_whole(self, shard: Shard) -> bool:
        return shard.name in self._finished and not self._finished[shard.name].get("failed")

    # keeping what comes

    def _partial(self, number: int) -> Partial:
        if number not in self._partials:
            self._partials[number] = Partial(self._partial_path(number))
        return self._partials[number]

    def _finish_if_whole(self, number: int) -> None:
        shard, total = self._shards[number], self._totals.get(number)
        if total is None or not self._is_to_do(shard):
            return
        partial = self._partial(number)  # there may be no segments at all
        if partial.segments != total:
            return
        temporary = os.path.join(self.store.work, f"{uuid4().hex}.tmp")
        with Output(temporary, name=shard.name) as output:
            for text in partial.texts():
                output.write(text)
        self._check_writer()
        if self._matrix_of:
            self._matrix_of(shard).finish()
        size = os.path.getsize(temporary)
        self.store.put(temporary, shard.name)
        self._note_finished(shard.name, {**self._counts(partial), "size": size})
        if not partial.failures:
            partial.remove()
            del self._partials[number]

    @staticmethod
    def _counts(partial: Partial) -> dict[str, int]:
        failed = {"failed": len(partial.failures)} if partial.failures else {}
        return {**partial.counts, "segments": partial.segments, **failed}

    def _note_finished(self, name: str, counts: dict[str, Any]) -> None:
        self._finished[name] = counts
        self._finished_now.add(name)
        Journal(self._finished_path).append({"shard": name, "counts": counts})
        self._copy_errors()
        if len(self._finished) >= _GROWTH * self._saved:
            self._save()

    def _check_writer(self) -> None:
        """A run on another machine, which our lock does not reach, would have written its own."""
        if self.store.is_remote:
            content = self.store.read(self._manifest)
            if content is None or json.loads(content).get("writer") != self._writer:
                raise another_run(self.store)

    def _save(self) -> None:
        content = {"run": self._run, "writer": self._writer, "settings": self._settings,
                   _FINISHED: self._finished}
        temporary = os.path.join(self.store.work, f"{uuid4().hex}.tmp")
        with as_input_error("write", temporary):
            Path(temporary).write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
        self.store.put(temporary, self._manifest)
        self._saved = len(self._finished)

    # errors.jsonl

    @property
    def _errors_path(self) -> str:
        folder = self.store.work if self.store.is_remote else self.store.name
        return os.path.join(folder, self._errors or "")

    def _append_errors(self, failures: Sequence[Failure]) -> None:
        if failures and self._errors:
            with Output(self._errors_path, append=True) as output:
                output.write("".join(map(json_line, failures)))

    def _write_errors(self) -> None:
        """All that is known to have failed, in order of the input."""
        if not self._errors:
            return
        temporary = os.path.join(self.store.work, f"{uuid4().hex}.tmp")
        with Output(temporary) as output:
            for _, partial in sorted(self._partials.items()):
                for _, failure in sorted((partial.earlier | partial.failures).items()):
                    output.write(json_line(failure))
            output.write("".join(map(json_line, self._broken)))
        replace_file(temporary, self._errors_path)
        if self.store.is_remote:
            self.store.copy(self._errors_path, self._errors)

    def _copy_errors(self) -> None:
        if self.store.is_remote and self._errors and os.path.getsize(self._errors_path):
            self._check_writer()
            self.store.copy(self._errors_path, self._errors)

    # closing

    def _close(self) -> None:
        self._check_writer()
        if self._is_new and not self._finished and not self._partials:  # nothing came of it
            for name in filter(None, (self._manifest, self._errors)):
                self.store.remove(name)
            self._clean()
            return
        self._save()
        self._write_errors()
        if all(map(self._is_whole, self._shards)):
            self._clean()

    def _clean(self) -> None:
        """Nothing is unfinished."""
        for name in os.listdir(self.store.work):
            path = os.path.join(self.store.work, name)
            if os.path.isdir(path):
                shutil.rmtree(path, ignore_errors=True)
            elif name != "lock":
                os.remove(path)

    @property
    def _finished_path(self) -> str:
        return os.path.join(self.store.work, f"{self._run}.{_FINISHED}")

    def _partial_path(self, number: int) -> str:
        return os.path.join(self.store.work, self._run, f"{self._shards[number].name}.partial")


def check_same(path: str, before: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    """A run is resumed only as it was begun."""
    differing = [f"{key} was {before.get(key)}, is {now.get(key)}"
                 for key in {**before, **now} if before.get(key) != now.get(key)]
    if differing:
        raise InputError(f"cannot resume {path}: {'; '.join(differing[:5])}; "
                         "use the same options and input, or write elsewhere")
