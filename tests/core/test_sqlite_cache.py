"""A SQLite file as a cache: shared, and every trouble with it told in one line."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from contextlib import closing

import numpy as np
import pytest

from minrisk import InputError
from minrisk._core.sqlite_cache import MEMORY, SqliteCache
from minrisk.metrics.embedding import EmbeddingCache

TABLE = "CREATE TABLE IF NOT EXISTS numbers (key TEXT PRIMARY KEY, value REAL)"
PUT = "INSERT OR REPLACE INTO numbers VALUES (?, ?)"


def numbers(path) -> SqliteCache:
    return SqliteCache(str(path), TABLE)


def values(store: SqliteCache) -> dict[str, float]:
    return dict(store.read("SELECT key, value FROM numbers"))


def test_what_one_writes_another_reads(tmp_path):
    path = tmp_path / "new" / "folder" / "x.db"
    numbers(path).write(PUT, [("a", 1.0), ("b", 2.0)])
    assert values(numbers(path)) == {"a": 1.0, "b": 2.0}


def test_memory_is_no_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    store = numbers(MEMORY)
    store.write(PUT, [("a", 1.0)])
    assert values(store) == {"a": 1.0}
    assert list(tmp_path.iterdir()) == []


def test_a_full_cache_in_memory_starts_again_and_a_file_does_not(tmp_path, monkeypatch):
    monkeypatch.setattr("minrisk._core.sqlite_cache._MAX_ROWS_IN_MEMORY", 3)
    memory, file = numbers(MEMORY), numbers(tmp_path / "x.db")
    for store in (memory, file):
        for keys in ("ab", "cd", "ef"):
            store.write(PUT, [(key, 1.0) for key in keys])
    assert values(memory).keys() == set("ef")
    assert values(file).keys() == set("abcdef")


def test_a_fork_has_a_connection_of_its_own(tmp_path):
    """SQLite forbids to share one; each process must still see what the other wrote."""
    code = (f"import os, sys\nfrom minrisk._core.sqlite_cache import SqliteCache\n"
            f"store = SqliteCache({str(tmp_path / 'x.db')!r}, {TABLE!r})\n"
            f"store.write({PUT!r}, [('a', 1.0)])\n"
            "before = store._open\n"
            "child = os.fork()\n"
            "if not child:\n"
            f"    store.write({PUT!r}, [('b', 2.0)])\n"
            "    sys.exit(0 if store._open is not before else 7)\n"
            "assert os.waitpid(child, 0)[1] == 0\n"
            f"store.write({PUT!r}, [('c', 3.0)])\n"
            "print(store.read('SELECT count(*) FROM numbers'))\n")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.stdout, done.returncode) == ("[(3,)]\n", 0), done.stderr


def test_a_file_that_is_no_database_is_closed_again(tmp_path, monkeypatch):
    """Python 3.13 and later warn of connections that are left open."""
    (tmp_path / "x.db").write_bytes(b"no database" * 100)
    opened, connect = [], sqlite3.connect
    monkeypatch.setattr(sqlite3, "connect",
                        lambda *args, **options: (opened.append(connect(*args, **options))
                                                  or opened[0]))
    with pytest.raises(InputError, match="database"):
        numbers(tmp_path / "x.db")
    with pytest.raises(sqlite3.ProgrammingError, match="closed"):
        opened[0].execute("SELECT 1")


def test_a_full_disk_is_told_and_costs_nothing_that_was_there(tmp_path):
    store = numbers(tmp_path / "x.db")
    store.write(PUT, [("a", 1.0)])
    store._open.database.execute("PRAGMA max_page_count=3")
    with pytest.raises(InputError, match=r"x\.db: .*full"):
        store.write(PUT, [(f"key {i}" * 100, 1.0) for i in range(100)])
    assert values(store) == {"a": 1.0}


def test_a_lock_that_is_not_given_up_is_told(tmp_path, monkeypatch):
    monkeypatch.setattr("minrisk._core.sqlite_cache._LOCK_SECONDS", 0.01)
    path = tmp_path / "x.db"
    store = numbers(path)
    with closing(sqlite3.connect(path)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(InputError, match="locked"):
            store.write(PUT, [("a", 1.0)])
        other.rollback()
    store.write(PUT, [("a", 1.0)])
    assert values(store) == {"a": 1.0}


@pytest.mark.parametrize("content", [b"no database at all, but long enough to look like one",
                                     b"SQLite format 3\0" + bytes(range(256)) * 20])
def test_a_file_that_is_no_cache_is_told(tmp_path, content):
    (tmp_path / "x.db").write_bytes(content)
    with pytest.raises(InputError, match=r"x\.db"):
        numbers(tmp_path / "x.db").write(PUT, [("a", 1.0)])


def test_a_table_of_something_else_is_told(tmp_path):
    with closing(sqlite3.connect(tmp_path / "x.db")) as other:
        other.execute("CREATE TABLE numbers (something TEXT)")
    with pytest.raises(InputError, match="2 values"):
        numbers(tmp_path / "x.db").write(PUT, [("a", 1.0)])


class Encoder:
    """Lengths of texts; counts what it was given."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    def __call__(self, texts: list[str]):
        self.seen += texts
        return np.array([[len(text), 1] for text in texts], np.float32)


@pytest.mark.parametrize("damage", [
    "'abc'", "NULL", "7", "x'00'", "x''", "substr(vector, 1, 12)", "vector || x'00000000'",
    "zeroblob(16)", "zeroblob(15)", "(SELECT max(vector) FROM embeddings)"])
def test_rows_that_were_damaged_are_made_again(tmp_path, damage):
    texts, encode = ["a", "bb", "ccc", "a"], Encoder()
    expected = [[1, 1], [2, 1], [3, 1], [1, 1]]
    store = EmbeddingCache(str(tmp_path), b"model")
    np.testing.assert_array_equal(store.get_or_encode(texts, encode), expected)
    with closing(sqlite3.connect(tmp_path / "embeddings.sqlite")) as other, other:
        other.execute(f"UPDATE embeddings SET vector = {damage}")
    again = Encoder()
    np.testing.assert_array_equal(store.get_or_encode(texts, again), expected)
    assert len(again.seen) >= 2  # a whole row is only good in its own place
    np.testing.assert_array_equal(store.get_or_encode(texts, None), expected)  # and kept
    assert encode.seen == ["a", "bb", "ccc"]


def test_models_do_not_share_vectors(tmp_path):
    first, second = (EmbeddingCache(str(tmp_path), model) for model in (b"one", b"other"))
    first.get_or_encode(["a"], Encoder())
    assert second.get(["a"]) == {}
