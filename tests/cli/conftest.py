"""Sources, and commands that draw samples from a server on this machine."""

from __future__ import annotations

from pathlib import Path

import pytest

from commands import run


@pytest.fixture
def sources(tmp_path) -> Path:
    path = tmp_path / "sources.txt"
    path.write_text("".join(f"{source}\n" for source in ("one", "two", "three", "four")))
    return path


@pytest.fixture
def sample(server):
    """`minrisk sample` from the server."""
    return lambda *args, **options: run("sample", "--endpoint", server.endpoint, "--model", "m",
                                        *args, **options)


@pytest.fixture
def translate(server):
    """`minrisk translate` from the server."""
    return lambda *args, **options: run("translate", "--endpoint", server.endpoint, "--model", "m",
                                        "--prompt", "In French: {source}", *args, **options)
