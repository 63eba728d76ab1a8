"""Metrics that are in trouble with certain words: `--metric python:troubled:NAME`."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path


def equal(hypothesis: str, reference: str) -> float:
    """Fails for `bad`, and takes its process down for `deadly`."""
    if "bad" in hypothesis:
        raise ZeroDivisionError("a bad word")
    if "deadly" in hypothesis:
        os.kill(os.getpid(), signal.SIGKILL)
    return float(hypothesis == reference)


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


def fatal_once(hypothesis: str, reference: str) -> float:
    """Takes its process down the first time that anybody meets `deadly` in this folder."""
    flag = Path(os.environ["MINRISK_TEST_FLAG"])
    if "deadly" in hypothesis and not flag.exists():
        flag.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return float(hypothesis == reference)
