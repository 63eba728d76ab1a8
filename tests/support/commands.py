"""`minrisk ARGS` in this process or in one of its own, events to wait for, and JSON lines."""

from __future__ import annotations

import io
import json
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

from minrisk.cli import main

PATIENCE = 120  # seconds after which a test is taken to hang; what is awaited comes long before


class Result(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def records(self) -> list[dict[str, Any]]:
        return read(self.out)


def run(*args: object, stdin: bytes = b"") -> Result:
    """`minrisk ARGS` in this process."""
    out, err = _stream(b""), _stream(b"", errors="backslashreplace")  # as Python's own
    with (redirect_stdout(out), redirect_stderr(err), patch.object(sys, "stdin", _stream(stdin)),
          warnings.catch_warnings()):
        warnings.filterwarnings("always", category=UserWarning)  # they are shown, as to a user
        code = main([str(arg) for arg in args])
    return Result(code, _content(out), _content(err))


def spawn(*args: object, modules: str = "sys", **options: Any) -> subprocess.Popen[bytes]:
    """`minrisk ARGS` in a process of its own; Ctrl-C works even where the tests ignore it."""
    code = (f"import signal, sys, {modules}; "
            "signal.signal(signal.SIGINT, signal.default_int_handler); "
            "from minrisk.cli import main; sys.exit(main())")
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen([sys.executable, "-c", code, *map(str, args)], **(pipes | options))


def wait_for(is_true: Callable[[], object], seconds: float = PATIENCE) -> None:
    end = time.monotonic() + seconds
    while not is_true():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.01)


def read(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.split("\n") if line]


def write(path: Path, *records: object) -> Path:
    """Records as JSON lines; a string is a line as it is."""
    lines = (r if isinstance(r, str) else json.dumps(r, ensure_ascii=False) for r in records)
    path.write_text("".join(line + "\n" for line in lines), encoding="utf-8", newline="")
    return path


def _stream(content: bytes, errors: str = "strict") -> io.TextIOWrapper:
    return io.TextIOWrapper(io.BytesIO(content), encoding="utf-8", errors=errors, newline="",
                            write_through=True)


def _content(stream: io.TextIOWrapper) -> str:
    buffer = stream.buffer
    assert isinstance(buffer, io.BytesIO)
    return buffer.getvalue().decode("utf-8")
