"""Whatever became of what an interrupted run left: the right output, or one line and no output."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache, partial
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from zlib import crc32

import pytest
from hypothesis import strategies as st

from commands import Result, run
from fuzzing import altered, dump, fuzz, json_values, mutated
from minrisk.run.workers import Inline

LINES = [json.dumps({"id": i, "samples": [f"a cat {i}", "a cat", f"the dog {i % 3}"], "extra": i})
         for i in range(6)]
BROKEN = '{"samples": 7}'
INPUTS = {"in/a.jsonl": "\n".join([*LINES[:3], BROKEN, *LINES[3:5]]).encode(),
          "in/b.jsonl": "\n".join(LINES[2:]).encode()}
COMMANDS = {"file": ("decode", *INPUTS, "-o", "out.jsonl", "--utilities", "-q"),
            "folder": ("decode", *INPUTS, "-o", "out/", "-q")}
BEGUN = {"stopped": ("--on-error", "stop"), "failed": ()}

Files = Mapping[str, bytes]  # by their paths


class Case:
    """A run that was begun and then left, and what it would have become."""

    def __init__(self, command: Sequence[str], begun: Sequence[str]) -> None:
        self.command = command
        with folder(INPUTS) as here:
            assert run(*command, *begun).code in (2, 3)
            self.left = files(here)
        with folder(INPUTS) as here:
            assert run(*command).code == 3
            self.whole = outputs(files(here))
        with folder(INPUTS, first=10**9) as here:  # another run, of other results
            run(*command, *begun, "--metric", "bleu")
            self.foreign = tuple(files(here).values())

    @property
    def states(self) -> list[str]:
        """What a run that resumes this one reads, but for its input."""
        return [name for name, content in self.left.items()
                if content and name not in INPUTS and name not in self.whole]


@contextmanager
def folder(content: Files, first: int = 1) -> Iterator[Path]:
    """In a folder with these files; runs get names by number, and need no further processes."""
    with TemporaryDirectory() as here, pytest.MonkeyPatch.context() as patches:
        for name, data in content.items():
            path = Path(here, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
        numbers = count(first)
        patches.chdir(here)
        patches.setattr("minrisk.run.processes.Processes", Inline)
        patches.setattr("minrisk.io.run_store.random_id", lambda: f"{next(numbers):032x}")
        patches.setattr("os.fsync", lambda descriptor: None)  # no machine dies here
        yield Path(here)


def files(here: Path) -> dict[str, bytes]:
    return {str(path.relative_to(here)): path.read_bytes()
            for path in sorted(here.rglob("*")) if path.is_file()}


def outputs(found: Files) -> dict[str, bytes]:
    """Without what is hidden, and what says how they were made."""
    return {path: content for path, content in found.items()
            if path.startswith("out") and "/." not in path and not path.endswith(".json")}


@cache
def case(command: str, begun: str) -> Case:
    return Case(COMMANDS[command], BEGUN[begun])


# damage

@st.composite
def damaged(draw: st.DrawFn) -> tuple[Case, Files]:
    """A run that was left, with damage to some of what it left."""
    found = case(draw(st.sampled_from(sorted(COMMANDS))), draw(st.sampled_from(sorted(BEGUN))))
    left = dict(found.left)
    for name in sorted(draw(st.sets(st.sampled_from(found.states), min_size=1))):
        left[name] = draw(manifests(left[name]) if name.endswith(".json")
                          else journals(left[name], _owner(Path(name)), found.foreign))
    if draw(st.integers(0, 9)) == 0:
        del left[draw(st.sampled_from(found.states))]
    return found, left


def any_bytes(content: bytes) -> st.SearchStrategy[bytes]:
    return st.one_of(mutated(st.just(content)), st.integers(0, len(content)).map(
        lambda end: content[:end]), st.binary(max_size=20))


@cache
def manifests(content: bytes) -> st.SearchStrategy[bytes]:
    values = altered(json.loads(content)) | json_values
    return any_bytes(content) | values.map(lambda found: dump(found).encode())


def _owner(path: Path) -> str:
    """Whose entries a journal has: those of a run, or of a shard of it."""
    return path.stem if path.suffix == ".finished" else f"{path.parent.name}/{path.stem}"


@cache
def journals(content: bytes, owner: str, foreign: tuple[bytes, ...]) -> st.SearchStrategy[bytes]:
    lines = content.split(b"\n")
    others = [line for other in foreign for line in other.split(b"\n")]
    mixed = st.lists(st.sampled_from(lines) | st.sampled_from(others), max_size=20)
    changed = st.lists(st.sampled_from(lines).flatmap(partial(entries, owner)),
                       max_size=6)
    return st.one_of(any_bytes(content), *(
        some.map(b"\n".join) for some in (st.permutations(lines), mixed, changed)))


@st.composite
def entries(draw: st.DrawFn, owner: str, line: bytes) -> bytes:
    """An entry with a right checksum, of which fields are of other types, or missing."""
    try:
        valid = json.loads(line[9:])
    except (ValueError, RecursionError):
        return line
    found = draw(altered(valid) | json_values)
    if isinstance(found, dict) and _are_texts(found.get("texts"), valid.get("texts", ())):
        found["texts"] = valid["texts"]  # nobody could know that these are others
    content = dump(found).encode()
    return b"%08x %b" % (crc32(content, crc32(owner.encode())), content)


def _are_texts(found: Any, valid: Sequence[str]) -> bool:
    return (isinstance(found, list) and len(found) == len(valid)
            and all(isinstance(text, str) for text in found))


def check_line(result: Result) -> None:
    *_, last = result.err.splitlines()
    assert last.startswith("minrisk: error: "), result


@fuzz(found=damaged())
def test_a_run_is_resumed_to_the_same_bytes_or_refused(found):
    begun, left = found
    with folder(left) as here:
        result = run(*begun.command, "--resume")
        made = outputs(files(here))
    if result.code == 2:
        check_line(result)
        assert all(content == begun.whole[name] or content == left.get(name)
                   for name, content in made.items())
    else:
        assert result.code in (0, 3)
        assert made == begun.whole
