"""The fused and packed paths of COMET say what the plain path says.

On the CPU the kernels run under Triton's interpreter, which must be on before Triton is imported:
hence a process of its own. On a CUDA device they run as they are.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="needs the extra minrisk[comet]")
pytest.importorskip("triton", reason="needs triton, which comes with torch for CUDA")

from warm import run_script_warm

CHECKS = Path(__file__).parent / "comet" / "kernels.py"


def test_kernels_agree_with_the_plain_path(tmp_path):
    code = run_script_warm(tmp_path, CHECKS, "cpu")
    assert code == 0, (tmp_path / "err").read_text()


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_kernels_agree_with_the_plain_path_on_the_gpu(monkeypatch):
    monkeypatch.setenv("TRITON_INTERPRET", "0")
    done = subprocess.run([sys.executable, "-W", "error", str(CHECKS), "cuda"],
                          capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
