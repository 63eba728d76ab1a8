"""The sink for files and folders, from which an interrupted run can be resumed.

    NAME              a finished shard, or the output if it is a single file
    .manifest.json    settings, inputs and finished shards; NAME.run.json beside a single file
    .errors.jsonl     failed segments with file, line, id and reason (in a folder only)
    .minrisk/         during a run: a lock, a journal with the results of each unfinished shard,
                      and a journal of the finished shards

A resumed run retries failed segments; until then, the journal of their shard is kept.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from array import array
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, nullcontext, suppress
from dataclasses import dataclass, field, replace
from enum import Enum, auto
from pathlib import Path
from typing import Any, Self

from minrisk._core.errors import InputError, MinriskError, Wording
from minrisk.io.files import Output, as_input_error, replace_file
from minrisk.io.formats import JSON_LINES, OutputFormat, json_line
from minrisk.io.inputs import ERRORS, MANIFEST, OLD_ERRORS, OLD_MANIFEST
from minrisk.io.journal import Journal, PartialShard
from minrisk.io.outputs import MatrixWriter, Shard, UnfinishedShard
from minrisk.io.records import Failure, Result
from minrisk.io.remote import redact_url
from minrisk.io.store import LOCK, Store, another_run, file_store, folder_store, locked

_RUN = re.compile(r"[0-9a-f]{32}")
_OWN_FILES = re.compile(rf"{_RUN.pattern}(\..+)?$|{re.escape(ERRORS)}")  # in the working folder
_GROWTH = 1.1  # a file is uploaded again after it has grown by 10%: O(n) traffic in total
_FINISHED = "finished"


class Status(Enum):
    """The progress of a shard."""

    UNFINISHED = auto()  # some of its records have no result yet
    RETRIED = auto()  # finished by an earlier run; this run retries its failed records
    FAILED = auto()  # finished by this run, with failures for the next run to retry
    WHOLE = auto()  # finished without failures


@dataclass
class ShardState:
    """A shard of the output, with its state."""

    shard: Shard
    status: Status = Status.UNFINISHED
    counts: dict[str, int] = field(default_factory=dict)  # and size of its file, once finished
    partial: PartialShard | None = None  # its results until it is whole
    records: int | None = None  # number of records; known once it has been read
    broken: Failure | None = None  # the error that ended reading

    @property
    def is_open(self) -> bool:
        """Whether results are missing; failures of this run are not retried by it."""
        return self.status in (Status.UNFINISHED, Status.RETRIED)


class RunStore:
    """A sink that stores results in journals, and writes each shard when it is complete."""

    def __init__(self, output: str, work: str | None, shards: Sequence[Shard],
                 settings: Mapping[str, Any], *, is_folder: bool,
                 format: OutputFormat = JSON_LINES, header: str = "",
                 resume: bool = False, overwrite: bool = False,
                 matrix_of: Callable[[Shard], MatrixWriter] | None = None) -> None:
        self.store: Store
        self._errors: str | None = None
        if is_folder:
            self.store = folder_store(output, work)
            self._manifest, self._errors = MANIFEST, ERRORS
        else:
            self.store, name = file_store(output, work)
            self._manifest = manifest_name(name)
            shards = [replace(shard, name=name) for shard in shards]
        self._states = [*map(ShardState, shards)]
        self._names = [shard.name for shard in shards]
        self._settings = json.loads(json.dumps(dict(settings), default=str))  # as in the manifest
        self._format, self._header = format, header
        self._resume = resume
        self._overwrite = overwrite
        self._matrix_of = matrix_of
        self._run = self._writer = random_id()
        self._temporary = os.path.join(self.store.work, f"{self._run}.tmp")
        self._saved = 0  # number of finished shards in the manifest
        self._unsaved = 0  # number of shards finished since it was written
        self._copied = 0  # bytes of .errors.jsonl uploaded to the URL
        self.counts: Counter[str] = Counter()
        self.retried = 0  # number of segments that failed in an earlier run
        self._last_written: PartialShard | None = None
        self._is_new = True
        self._is_renamed = False  # the manifest has its old name
        self._has_begun = False
        self._open = ExitStack()

    # state that the driver reads

    @property
    def records_broken_shards(self) -> bool:
        return self._errors is not None

    def is_full(self, memory: int) -> bool:
        return False  # results are written to disk at once

    def remaining(self) -> Iterator[UnfinishedShard]:
        for number, state in enumerate(self._states):
            if state.is_open:
                yield UnfinishedShard(number, state.shard,
                                      state.partial.done if state.partial else array("q"))

    # methods that the driver calls

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            stack.enter_context(locked(self.store))
            self._load()
            self._open = stack.pop_all()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        with self._open, suppress(MinriskError, OSError) if kind else nullcontext():
            if self._last_written:
                self._last_written.journal.close()
            if self._has_begun or self._was_never_closed:
                self._close()

    def begin(self) -> None:
        """Take over the output: from now on, files of earlier runs may be replaced."""
        self._has_begun = True
        self._clean(keep=(self._run, os.path.basename(self._finished_journal.path)))
        if self.store.writer:  # for runs on other machines, because the lock is local
            self._put(self.store.writer, self._writer)
        self._save()
        if self._is_renamed:
            self.store.remove(OLD_MANIFEST)
            self.store.remove(OLD_ERRORS)
        if self._errors:
            self._write_errors(self._errors)
        if self._matrix_of:
            for state in self._states:
                matrices = self._matrix_of(state.shard)
                if state.is_open:
                    matrices.begin(resume=not self._is_new)
                else:
                    matrices.clean()

    def add(self, number: int, results: Sequence[Result]) -> list[Result]:
        state = self._states[number]
        if not state.is_open:
            return []
        partial = self._partial(state)
        fresh = partial.missing(results)
        if not fresh:
            return []
        if self._matrix_of:
            for result in fresh:
                if result.scores is not None:
                    self._matrix_of(state.shard).add(result.index, result.scores)
        if self._last_written and self._last_written is not partial:
            self._last_written.journal.close()  # a process cannot open those of many shards
        self._last_written = partial
        partial.add(fresh)  # after the matrices: results in the journal are not computed again
        for result in fresh:
            self.counts.update(result.counts)
        failures = [r.failure for r in fresh if r.failure is not None]
        self.counts["segments"] += len(fresh)
        self.counts["failed"] += len(failures)
        if failures:
            self._append_errors(failures)
        self._finish_if_complete(state)
        return fresh

    def end(self, number: int, records: int) -> None:
        state = self._states[number]
        state.records = records
        self._finish_if_complete(state)

    def fail(self, number: int, reason: str) -> None:
        state = self._states[number]
        state.broken = {"file": state.shard.files[0].name, "line": None, "id": None,
                        "reason": reason}
        self._append_errors([state.broken])

    # loading an earlier run

    def _load(self) -> None:
        content = self._read_manifest()
        sizes = self.store.sizes([*self._names, *([self._errors] if self._errors else [])])
        if self._overwrite:
            return
        if content is None:
            for name in sizes:
                raise InputError(Wording("{there} exists, and no manifest says that minrisk made "
                                         "it; overwrite=True replaces it, or name another output",
                                         there=redact_url(self.store.location(name))))
            return
        if not self._resume:
            if self._was_removed(content):
                return
            raise InputError(Wording("{name} holds an earlier run; resume=True continues it, "
                                     "overwrite=True replaces it, or name another output",
                                     name=self._name))
        self._is_new = False
        finished = self._load_manifest(content)
        for _, entry in self._finished_journal:
            with suppress(KeyError, TypeError, AttributeError, ValueError):  # an invalid entry
                finished[entry["shard"]] = _checked_counts(entry["counts"])
        for state in self._states:
            self._load_state(state, finished, sizes)

    def _read_manifest(self) -> bytes | None:
        """The manifest; also found under its name in earlier versions."""
        content = self.store.read(self._manifest)
        if content is None and self._manifest == MANIFEST:
            content = self.store.read(OLD_MANIFEST)
            if content is not None and b'"finished"' not in content:  # the user's own file
                content = None
            self._is_renamed = content is not None
        return content

    def _was_removed(self, manifest: bytes) -> bool:
        """Whether an earlier run was finished and all of its shards have been removed since.

        Then a new run replaces nothing; otherwise results of an unfinished run, or of one with
        failed segments, could be lost.
        """
        try:
            finished = json.loads(manifest)[_FINISHED].keys()
            sizes = self.store.sizes([*finished, *self._names])
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
            return False
        return bool(finished) and not sizes and os.listdir(self.store.work) == [LOCK]

    def _load_state(self, state: ShardState, finished: Mapping[str, dict[str, int]],
                    sizes: Mapping[str, int]) -> None:
        """Restore the state of a shard from an earlier run; shards removed since are made again."""
        name = state.shard.name
        if name in finished and name in sizes:
            state.counts = finished[name]
            if state.counts.get("size", sizes[name]) != sizes[name]:
                raise InputError(
                    f"{redact_url(self.store.location(name))} has {sizes[name]} bytes, but had "
                    f"{state.counts['size']} when it was finished; remove it to make it again")
            state.status = Status.RETRIED if state.counts.get("failed") else Status.WHOLE
        if state.status is Status.WHOLE:
            self.counts.update({key: n for key, n in state.counts.items() if key != "size"})
        elif os.path.exists(self._partial_path(state)):
            partial = self._partial(state)
            partial.load()
            self.counts.update(partial.counts)
            self.retried += len(partial.earlier)
        else:
            self.retried += state.counts.get("failed", 0)

    @property
    def _name(self) -> str:
        single = len(self._states) == 1 and self._errors is None
        return redact_url(self.store.location(*self._names)) if single else self.store.name

    def _load_manifest(self, content: bytes) -> dict[str, dict[str, int]]:
        """Resume the run of this manifest; returns the counts of its finished shards."""
        try:
            manifest = json.loads(content)
            run, before = manifest["run"], dict(manifest["settings"])
            finished = {name: _checked_counts(entry) for name, entry in manifest[_FINISHED].items()}
            if not _RUN.fullmatch(run):
                raise ValueError
            differing = [f"{key} was {before.get(key)}, is {self._settings.get(key)}"
                         for key in {**before, **self._settings}
                         if before.get(key) != self._settings.get(key)]
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
            path = redact_url(self.store.location(self._manifest))
            raise InputError(Wording("{path}, which says how the output was made, is no manifest "
                                     "of this version; overwrite=True replaces it, or name "
                                     "another output", path=path)) from None
        if differing:
            raise InputError(f"cannot resume {self._name}: {'; '.join(differing[:5])}; "
                             "use the same options and input, or write to another output")
        self._run = run
        return finished

    # writing results

    def _partial(self, state: ShardState) -> PartialShard:
        if state.partial is None:
            owner = f"{self._run}/{state.shard.name}"
            state.partial = PartialShard(self._partial_path(state), owner)
        return state.partial

    def _finish_if_complete(self, state: ShardState) -> None:
        """Write the file of a shard if all its records have a result or an error."""
        if state.records is None or not state.is_open:
            return
        shard, partial = state.shard, self._partial(state)
        if partial.segments != state.records:
            return
        temporary = self._temporary
        self._format.named(shard.name).write(temporary, shard.name, partial.texts, self._header)
        if self.store.writer:
            self._check_writer(self.store.writer)
        if self._matrix_of:
            self._matrix_of(shard).pack()
        size = os.path.getsize(temporary)
        self.store.put(temporary, shard.name)
        state.counts = {**partial.counts, "size": size}
        state.status = Status.FAILED if partial.failures else Status.WHOLE
        with closing(self._finished_journal) as journal:
            journal.append({"shard": shard.name, "counts": state.counts})
        if self.store.writer:  # the local journal may be lost
            self._copy_progress()
        if state.status is Status.FAILED:
            return  # keep the journal, so that a resumed run only repeats failed records
        if self._matrix_of:
            self._matrix_of(shard).clean()
        partial.remove()
        state.partial = None

    def _copy_progress(self) -> None:
        """Write the list of errors and the manifest to a URL, if they have grown enough."""
        size = os.path.getsize(self._errors_path) if self._errors else 0
        if self._errors and size > _GROWTH * self._copied:
            self.store.copy(self._errors_path, self._errors)
            self._copied = size
        self._unsaved += 1
        if self._saved + self._unsaved >= _GROWTH * self._saved:
            self._save()

    def _check_writer(self, name: str) -> None:
        if self.store.read(name) != self._writer.encode():
            raise another_run(self.store)

    def _save(self) -> None:
        finished = {state.shard.name: state.counts for state in self._states if state.counts}
        content = {"run": self._run, "settings": self._settings, _FINISHED: finished}
        self._put(self._manifest, json.dumps(content, indent=1) + "\n")
        self._saved, self._unsaved = len(finished), 0

    def _put(self, name: str, content: str) -> None:
        with as_input_error("write", self._temporary):
            Path(self._temporary).write_text(content, encoding="utf-8")
        self.store.put(self._temporary, name)

    # .errors.jsonl

    @property
    def _errors_path(self) -> str:
        folder = self.store.work if self.store.writer else self.store.name
        return os.path.join(folder, self._errors or "")

    def _append_errors(self, failures: Sequence[Failure]) -> None:
        if self._errors:
            with Output(self._errors_path, append=True) as output:
                output.write("".join(map(json_line, failures)))

    def _write_errors(self, name: str) -> None:
        """Write all known failures, in input order."""
        with Output(self._temporary) as output:
            for partial in filter(None, (state.partial for state in self._states)):
                for _, failure in sorted((partial.earlier | partial.failures).items()):
                    output.write(json_line(failure))
            broken = (state.broken for state in self._states if state.broken)
            output.write("".join(map(json_line, broken)))
        replace_file(self._temporary, self._errors_path)
        if self.store.writer:
            self.store.copy(self._errors_path, name)

    # closing

    def _close(self) -> None:
        if self.store.writer:
            self._check_writer(self.store.writer)
        if self._is_empty:
            for name in filter(None, (self._manifest, self._errors)):
                self.store.remove(name)
        else:
            self._save()
            if self._errors:
                self._write_errors(self._errors)
        if self._is_empty or self._is_whole:
            self._clean()
        if self.store.writer:
            with suppress(MinriskError):  # some stores allow writing but not removing
                self.store.remove(self.store.writer)

    @property
    def _was_never_closed(self) -> bool:
        """Whether an earlier run finished all shards but was killed before closing the output."""
        return (not self._is_new and self._is_whole
                and os.listdir(self.store.work) != [LOCK])

    @property
    def _is_whole(self) -> bool:
        return all(state.status is Status.WHOLE for state in self._states)

    @property
    def _is_empty(self) -> bool:
        """Whether the run has no results."""
        return self._is_new and not any(
            state.counts or (state.partial and state.partial.segments) for state in self._states)

    def _clean(self, keep: Sequence[str] = ()) -> None:
        """Remove the journals of this run, and of earlier runs that can no longer be resumed."""
        for name in os.listdir(self.store.work):
            path = os.path.join(self.store.work, name)
            if name == LOCK or name in keep or not _OWN_FILES.match(name):
                continue
            if os.path.isdir(path) and not os.path.islink(path):
                shutil.rmtree(path, ignore_errors=True)
            else:
                with as_input_error("write", path):
                    os.remove(path)

    @property
    def _finished_journal(self) -> Journal:
        return Journal(os.path.join(self.store.work, f"{self._run}.{_FINISHED}"), self._run)

    def _partial_path(self, state: ShardState) -> str:
        return os.path.join(self.store.work, self._run, f"{state.shard.name}.partial")


def random_id() -> str:
    return os.urandom(16).hex()  # a UUID says no more, and its module takes long to load


def manifest_name(file: str) -> str:
    """The path of the manifest of a single output file."""
    return f"{file}.run.json"


def _checked_counts(found: Any) -> dict[str, int]:
    counts = dict(found)
    if not all(type(n) is int for n in counts.values()):
        raise ValueError
    return counts

