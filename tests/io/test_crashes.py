"""A run that fails at any of its writes is resumed to the same bytes, with nothing left over."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest

from commands import run, write
from minrisk.run.workers import Inline
from write_faults import Faults, Killed

pytest.importorskip("fsspec", reason="needs the extra minrisk[fsspec]")
import object_store  # noqa: F401 - the file system of its URLs


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    """In memory where there is such a folder, for thousands of files are written and removed."""
    memory = Path("/dev/shm")
    with TemporaryDirectory(dir=memory if os.access(memory, os.W_OK) else None) as folder:
        yield Path(folder)


@pytest.fixture
def flag(tmp_path, monkeypatch) -> Path:
    """One segment fails while it is there; all in this process, for that is quick."""
    monkeypatch.setattr("minrisk.run.processes.Processes", Inline)
    monkeypatch.setattr("os.fsync", lambda _: None)  # slow, and nobody pulls a plug here
    monkeypatch.setenv("MINRISK_TEST_BUCKET", str(tmp_path / "made"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("MINRISK_TEST_FLAG", str(tmp_path / "flag"))
    return tmp_path / "flag"


@pytest.mark.parametrize("kills", [False, True], ids=["full", "killed"])
@pytest.mark.parametrize(("output", "is_lost"), [
    ("out/", False), ("out.jsonl", False), ("bucket://out/", False), ("bucket://out/", True),
    ("bucket://out.jsonl", False)])
def test_every_write_may_fail(tmp_path, flag, output, is_lost, kills):
    """Of a URL the working folder may be lost as well."""
    files = [write(tmp_path / "a.jsonl", {"samples": ["panic", "b"]}, {"samples": ["a"]}),
             write(tmp_path / "b.jsonl", {"samples": ["c", "d"]})]
    args = ["decode", *files, "-q", "--metric", "python:faults:leaving", "-o",
            output if "://" in output else f"{tmp_path}/made/{output}"]
    if "://" not in output:
        args += ["--matrix", f"{tmp_path}/made/scores{'/' if output == 'out/' else '.npz'}"]
    expected = fresh(tmp_path) or attempt(*args) or contents(tmp_path)
    number, faults = -1, Faults(tmp_path, 0, kills)
    while number < 0 or faults.has_failed:
        number += 1
        fresh(tmp_path)
        flag.touch()
        faults = Faults(tmp_path, number, kills)
        with faults.planted():
            attempt(*args)
        flag.unlink()
        if is_lost:
            shutil.rmtree(tmp_path / "cache")
        result = run(*args, "--resume")
        assert result.code == 0, (number, result.err)
        assert contents(tmp_path) == expected, number
    assert number > 40  # so many writes there were


def fresh(tmp_path: Path) -> None:
    for name in ("made", "cache"):
        shutil.rmtree(tmp_path / name, ignore_errors=True)
        (tmp_path / name).mkdir()


def attempt(*args: object) -> None:
    with suppress(Killed):
        assert "Traceback" not in run(*args).err


def contents(tmp_path: Path) -> dict[str, object]:
    """Of all files, but for what tells one run from another."""
    return {str(path.relative_to(tmp_path)): content(path) for name in ("made", "cache")
            for path in (tmp_path / name).rglob("*") if path.is_file()}


def content(path: Path) -> object:
    if path.suffix == ".npz":
        with np.load(path) as found:
            return {name: found[name].tolist() for name in found.files}
    return path.read_text() if path.suffix == ".jsonl" else ""
