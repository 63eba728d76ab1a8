"""The two small C++ programs of the benchmark, built from the project's own core."""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from data import ROOT

HERE = Path(__file__).parent
CORE = ROOT / "cpp"
ON_X86 = platform.machine().lower() in ("x86_64", "amd64")
FLAGS = ["-std=c++20", "-O3", "-ffp-contract=off", "-w", "-Wno-psabi", "-pthread", f"-I{CORE}",
         *(["-DMINRISK_X86"] if ON_X86 else [])]
# as in CMakeLists.txt: each instruction set in a file of its own
KERNELS: dict[str, list[str]] = {"kernel_portable.cpp": []}
KERNELS_X86 = {
    "kernel_avx2.cpp": ["-mavx2"],
    "kernel_avx512.cpp": ["-mavx512f", "-mavx512bw", "-mavx512dq", "-mavx512vl",
                          "-mavx512vpopcntdq"],
}


def compiler() -> str | None:
    wanted = [os.environ.get("CXX", ""), "g++", "c++", "clang++"]
    return next((name for name in wanted if name and shutil.which(name)), None)


def compiler_version() -> str | None:
    name = compiler()
    if name is None:
        return None
    return subprocess.run([name, "--version"], capture_output=True, text=True,
                          check=True).stdout.splitlines()[0]


def measure(texts: list[str], repeats: int, threads: Iterable[int]) -> dict[str, Any]:
    """The machine's peak rates, and the stages of the core over these texts."""
    counts = [str(t) for t in threads]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        samples = folder / "texts.txt"
        samples.write_text("".join(t + "\n" for t in texts), encoding="utf-8")
        peak, stages = build_peak(folder), build_stages(folder)
        return {"peak_words_per_second": _json_of([peak, *counts]),
                "stages": _json_of([stages, samples, str(repeats), *counts])}


def build_peak(folder: Path) -> Path:
    return _build([HERE / "peak.cpp"], folder / "peak", [])


def build_stages(folder: Path) -> Path:
    kernels = KERNELS | (KERNELS_X86 if ON_X86 else {})
    objects = [_build([CORE / source], folder / f"{source}.o", ["-c", *flags])
               for source, flags in kernels.items()]
    return _build([HERE / "stages.cpp", *objects], folder / "stages", [])


def _build(sources: list[Path], output: Path, flags: list[str]) -> Path:
    command = [compiler() or "c++", *FLAGS, *flags, *map(str, sources), "-o", str(output)]
    subprocess.run(command, check=True)
    return output


def _json_of(command: list[Any]) -> Any:
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return json.loads(done.stdout)
