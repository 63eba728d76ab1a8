"""Runs the neural and core tests as other CPUs would run them.

usage: python tests/cpus.py [VARIANT...]        (all that this CPU can do, unless named)

Libraries choose their instructions by the CPU, and with them the order in which they add. Each
variant makes all of them choose less than they could: torch, oneDNN, MKL, NumPy and its OpenBLAS,
CTranslate2, and our own core.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np

from minrisk import _native

HERE = Path(__file__).parent
NEURAL = ["metrics/bertscore", "metrics/bleurt", "metrics/comet", "metrics/comet_unified",
          "metrics/comet_kernels", "metrics/every_metric", "metrics/light", "metrics/metricx",
          "metrics/mqm", "metrics/xcomet_lite", "samplers/ct2", "samplers/hf",
          "samplers/hf_generate", "samplers/hf_kernels"]
CORE = ["cli/data", "cli/score_command", "core/pairs", "core/weights", "evaluation/scoring",
        "evaluation/validation", "metrics/bleu", "metrics/chrf", "metrics/composed",
        "metrics/contract", "metrics/native", "metrics/rouge", "metrics/ter",
        "pipeline/reference_parts", "strategies/confidence", "strategies/control_variate",
        "strategies/mbrs", "strategies/methods", "strategies/strategies",
        "strategies/strategy_matrix", "tolerance"]
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
    "plain": (PLAIN | threads(1), [*NEURAL, *CORE]),
    "threads": (PLAIN | threads(3), [*NEURAL, *CORE]),
    "avx2": (AVX2 | threads(1), [*NEURAL, *CORE]),
    "avx512": ({"MINRISK_CORE": "avx512"} | threads(1), CORE),
}


def possible() -> list[str]:
    """The variants that this CPU can run."""
    return [name for name in VARIANTS
            if name in ("plain", "threads") or name in _native.available_simd()]


def run(name: str) -> bool:
    settings, files = VARIANTS[name]
    print(f"{name}: {' '.join(f'{key}={value}' for key, value in settings.items())}", flush=True)
    tests = [str(HERE / f"test_{file}.py") for file in files]
    return subprocess.run([sys.executable, "-m", "pytest", *tests],
                          env=os.environ | settings).returncode == 0


def main(names: list[str]) -> int:
    failed = [name for name in names or possible() if not run(name)]
    print(f"failed: {', '.join(failed)}" if failed else "all variants passed")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
