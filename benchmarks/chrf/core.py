"""What the native core can use here, for the benchmarks of chrF and BLEU."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from native import compiler_version

sys.path.append(str(Path(__file__).parents[1]))  # what all benchmarks share

import machine

CORES = ("avx512", "avx2", "portable")  # best first


def native_cores() -> list[str]:
    """The instruction sets that minrisk's native core can be told to use here, best first."""
    return [name for name in CORES if _accepts(name)]


def _accepts(core: str) -> bool:
    # the core is loaded for the first features; without it minrisk warns, and computes in Python
    code = "import minrisk; minrisk.ChrF().features(['a'])"
    command = [sys.executable, "-W", "error::RuntimeWarning", "-c", code]
    return subprocess.run(command, env=os.environ | {"MINRISK_CORE": core},
                          stderr=subprocess.DEVNULL).returncode == 0


def describe(native: list[str], *packages: str) -> dict[str, Any]:
    return machine.describe("numpy", *packages) | {
        "simd": native[0], "compiler": compiler_version(), "core": machine.native_core()}
