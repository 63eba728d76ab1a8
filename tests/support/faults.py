"""Metrics that fail, wait, hang or kill their process at some words: `python:faults:NAME`."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

from minrisk._core.errors import UnusableError


def equal(hypothesis: str, reference: str) -> float:
    """Fails for `bad`, and takes its process down for `deadly`."""
    if "bad" in hypothesis:
        raise ZeroDivisionError("a bad word")
    if "deadly" in hypothesis:
        os.kill(os.getpid(), signal.SIGKILL)
    return float(hypothesis == reference)


def counted(hypothesis: str, reference: str) -> float:
    """Appends each hypothesis to the file that is named, before it fails for `bad`."""
    with Path(os.environ["MINRISK_TEST_FLAG"]).open("a") as calls:
        print(hypothesis, file=calls)
    return equal(hypothesis, reference)


def slow(hypothesis: str, reference: str) -> float:
    time.sleep(0.002)
    return equal(hypothesis, reference)


def waiting(hypothesis: str, reference: str) -> float:
    """Stays at `wait` for as long as there is the file that is named, and says so beside it."""
    flag = Path(os.environ["MINRISK_TEST_FLAG"])
    if "wait" in hypothesis and flag.exists():
        flag.with_suffix(".reached").write_text("here")
        while flag.exists():
            time.sleep(0.01)
    return float(hypothesis == reference)


def on_visible_gpus(hypothesis: str, reference: str) -> float:
    """Writes the GPUs that its process may use to a file named after the process, once."""
    path = Path(os.environ["MINRISK_TEST_FLAG"]).with_name(f"{os.getpid()}.gpus")
    if path not in _WRITTEN:
        path.write_text(os.environ.get("CUDA_VISIBLE_DEVICES", "all"))
        _WRITTEN.add(path)
    return float(hypothesis == reference)


_WRITTEN: set[Path] = set()


def fatal_once(hypothesis: str, reference: str) -> float:
    """Takes its process down the first time that anybody meets `deadly` in this folder."""
    flag = Path(os.environ["MINRISK_TEST_FLAG"])
    if "deadly" in hypothesis and not flag.exists():
        flag.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return float(hypothesis == reference)


class PanicError(BaseException):
    """As what native libraries make of a panic: no `Exception`."""


def _raise(error: BaseException) -> None:
    raise error


def _hang() -> None:
    flag = Path(os.environ["MINRISK_TEST_FLAG"])
    flag.with_name("pid").write_text(str(os.getpid()))
    while True:
        time.sleep(60)


LEAVING: dict[str, Callable[[], object]] = {
    "exit": lambda: os._exit(1),
    "quit": lambda: sys.exit(3),
    "interrupt": lambda: _raise(KeyboardInterrupt()),
    "close": lambda: _raise(GeneratorExit()),
    "panic": lambda: _raise(PanicError("no such byte")),
    "abort": os.abort,
    "hang": _hang,
    "stop": lambda: os.kill(os.getpid(), signal.SIGSTOP),
}


def leaving(hypothesis: str, reference: str) -> float:
    """Leaves by the way that a hypothesis names, for as long as there is the file with the flag."""
    if Path(os.environ["MINRISK_TEST_FLAG"]).exists():
        LEAVING.get(hypothesis, lambda: None)()
    return float(hypothesis == reference)


def printing(hypothesis: str, reference: str) -> float:
    print("chatter")
    return float(hypothesis == reference)


def threaded(hypothesis: str, reference: str) -> float:
    """Starts a thread that does not end, and that Python waits for."""
    threading.Thread(target=time.sleep, args=(3600,)).start()
    return float(hypothesis == reference)


def unusable(hypothesis: str, reference: str) -> float:
    """Finds out with `unusable` that it cannot be used at all."""
    if "unusable" in hypothesis:
        raise UnusableError("nobody can use this")
    if "bad" in hypothesis:
        raise PanicError("a bad word")
    return float(hypothesis == reference)
