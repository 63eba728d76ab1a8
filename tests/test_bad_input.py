"""Whatever is wrong with the input: a clear message, exit code 2, no traceback, nothing lost."""

from __future__ import annotations

import gzip
import os
import stat
from dataclasses import dataclass
from pathlib import Path

import pytest
from commands import read, run, write

GOOD = '{"id": "good", "samples": ["a cat", "a cat", "the dog"]}'


@dataclass(frozen=True)
class Bad:
    """Something wrong, after one good segment unless the command line itself is wrong."""

    name: str
    wants: tuple[str, ...]  # what the message must say
    line: str | None = None  # of JSON, after a good one
    files: tuple[tuple[str, bytes], ...] = ()
    args: tuple[str, ...] = ()
    decoded: int = 1  # segments in the output in spite of it

    def arguments(self, folder: Path) -> list[str]:
        for name, content in self.files:
            (folder / name).write_bytes(content)
        if self.line is None:
            return [arg.replace("@", f"{folder}/") for arg in self.args]
        path = write(folder / "in.jsonl", GOOD, self.line)
        return [str(path), *self.args]


def lines(name: str, *wants: str, line: str, args: tuple[str, ...] = ()) -> Bad:
    return Bad(name, ("in.jsonl:2: ", *wants), line, args=args)


def files(name: str, *wants: str, args: str, decoded: int = 0, **contents: bytes) -> Bad:
    made = tuple((key.replace("_", "."), content) for key, content in contents.items())
    return Bad(name, wants, None, made, tuple(args.split()), decoded)


def options(name: str, *wants: str, args: str) -> Bad:
    return files(name, *wants, args=f"@in.jsonl {args}", in_jsonl=f"{GOOD}\n".encode())


RECORDS = [
    lines("invalid JSON", "found invalid JSON", "wanted one JSON object", line='{"samples": ['),
    lines("plain text", "found invalid JSON", "--num-candidates", line="plain text"),
    lines("bottomless JSON", "found invalid JSON", line="[" * 100_000),
    lines("not an object", 'found ["a"], wanted a JSON object', line='["a"]'),
    lines("no samples", "found the fields id, sample", "wanted samples", line='{"id":1,"sample":2}'),
    lines("an empty object", "found the fields (none)", "wanted samples", line="{}"),
    lines("both names", "found both samples and hypotheses",
          line='{"samples": ["a"], "hypotheses": ["a"]}'),
    lines("samples in one string", 'found samples "abc", wanted a list', line='{"samples": "abc"}'),
    lines("samples in an object", "wanted a list", line='{"samples": {"a": 1}}'),
    lines("a sample that is a number", "must be strings", "int: 3", line='{"samples": ["a", 3]}'),
    lines("a sample that is null", "must be strings", line='{"samples": [null]}'),
    lines("zero hypotheses", "zero hypotheses", line='{"samples": []}'),
    lines("zero references", "zero references", line='{"samples": ["a"], "references": []}'),
    lines("references in one string", 'found references "b"',
          line='{"samples": ["a"], "references": "b"}'),
    lines("a source that is a list", 'found source ["s"], wanted a string',
          line='{"samples": ["a"], "source": ["s"]}'),
    lines("an id that is a list", "found id [1], wanted a string or a number",
          line='{"samples": ["a"], "id": [1]}'),
    lines("weights of the wrong length", "weights: 1 values for 2 references",
          line='{"samples": ["a", "b"], "weights": [1]}'),
    lines("weights for the samples only", "2 values for 1 references",
          line='{"samples": ["a", "b"], "references": ["c"], "weights": [1, 1]}'),
    lines("negative weights", "not negative", line='{"samples": ["a", "b"], "weights": [2, -1]}'),
    lines("weights that are NaN", "finite", line='{"samples": ["a", "b"], "weights": [1, NaN]}'),
    lines("infinite weights", "finite", line='{"samples": ["a", "b"], "weights": [1, Infinity]}'),
    lines("weights that are all zero", "all zero",
          line='{"samples": ["a", "b"], "weights": [0, 0.0]}'),
    lines("weights beyond any float", "numbers",
          line='{"samples": ["a"], "weights": [1%s]}' % ("0" * 400)),
    lines("weights that are words", 'found "1" in weights, wanted numbers',
          line='{"samples": ["a"], "weights": ["1"]}'),
    lines("weights that are no list", "found weights 1, wanted a list",
          line='{"samples": ["a"], "weights": 1}'),
    lines("logprobs of the wrong length", "logprobs: 1 values for 2 references",
          line='{"samples": ["a", "b"], "logprobs": [-1]}'),
    lines("logprobs that are NaN", "logprobs must be numbers",
          line='{"samples": ["a", "b"], "logprobs": [-1, NaN]}'),
    lines("logprobs without a finite one", "at least finite",
          line='{"samples": ["a"], "logprobs": [-Infinity]}', args=("--weights", "logprobs")),
    lines("weights and logprobs", "found both weights and logprobs",
          line='{"samples": ["a"], "weights": [1], "logprobs": [-1]}'),
    lines("more groups than references", "4 groups of 2 references; choose from 1 to 2",
          line='{"samples": ["a", "b"]}', args=("--strategy", "aggregate", "--groups", "3")),
    lines("more to keep than there are", "keep 3 of 2 hypotheses; choose from 1 to 2",
          line='{"samples": ["a", "b"]}', args=("--strategy", "aggregate-to-fine", "--keep", "3")),
    lines("a subset of more than there are", "a subset of 3 of 2 references",
          line='{"samples": ["a", "b"]}', args=("--strategy", "n-by-s", "--subset", "3")),
]
RECORDS = [
    Bad(b.name, tuple(w.replace("4 groups", "3 groups") for w in b.wants), b.line, args=b.args)
    for b in RECORDS
]
