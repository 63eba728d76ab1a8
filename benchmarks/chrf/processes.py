"""Whole processes: the time and memory of a command, and the time of an import."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from contest import timing

SPAWN = Path(__file__).with_name("spawn.py")
IMPORT = "import time; t = time.perf_counter(); import {}; print(time.perf_counter() - t)"


def spawn(command: list[str]) -> dict[str, Any]:
    """The time and peak memory of a command."""
    done = subprocess.run([sys.executable, str(SPAWN), *command],
                          capture_output=True, text=True, check=True)
    result: dict[str, Any] = json.loads(done.stdout)
    if result["status"] != 0:
        raise RuntimeError(f"{' '.join(command)} failed:\n{done.stderr}")
    return result


def imports(repeats: int) -> dict[str, Any]:
    """Fresh processes in turns; the first of each fills the caches."""
    seconds: dict[str, list[float]] = {"minrisk": [], "numpy": []}
    for _ in range(repeats + 1):
        for name, found in seconds.items():
            command = [sys.executable, "-c", IMPORT.format(name)]
            found.append(float(subprocess.check_output(command)))
    return {name: timing(found[1:]) for name, found in seconds.items()}
