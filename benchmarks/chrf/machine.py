"""What the numbers were measured with."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from native import compiler_version

CORES = ("avx512", "avx2", "portable")  # best first


def cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def cpu_model() -> str:
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def native_cores() -> list[str]:
    """The instruction sets that minrisk's native core can be told to use here, best first."""
    return [name for name in CORES if _accepts(name)]


def _accepts(core: str) -> bool:
    # the core is loaded for the first features; without it minrisk warns, and computes in Python
    code = "import minrisk; minrisk.ChrF().features(['a'])"
    command = [sys.executable, "-W", "error::RuntimeWarning", "-c", code]
    return subprocess.run(command, env=os.environ | {"MINRISK_CORE": core},
                          stderr=subprocess.DEVNULL).returncode == 0


def installed(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def describe(native: list[str]) -> dict[str, Any]:
    return {
        "cpu": cpu_model(),
        "cores": cores(),
        "simd": native[0],
        "system": f"{platform.system()} {platform.machine()}",
        "compiler": compiler_version(),
        "python": platform.python_version(),
        **{name: installed(name) for name in ("minrisk", "numpy", "fastchrf", "mbrs")},
    }
