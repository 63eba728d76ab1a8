"""Loads the estimator: its weights, and the backend (NumPy or torch)."""

from __future__ import annotations

import sys
from glob import glob
from importlib.resources import as_file, files
from importlib.util import find_spec
from pathlib import Path

from minrisk._core.errors import InputError, needs_extra
from minrisk.metrics.comet import PairScorer
from minrisk.metrics.comet.numpy_scorer import Array, NumpyScorer, layers

_PREFIX = "estimator.ff."  # as in COMET's checkpoints
_INPUTS = 6 * 512  # six blocks of the encoder's embeddings
_NUMPY = "numpy"
_GPU_FILES = ("/dev/nvidia[0-9]*", "/dev/kfd", "/dev/dxg")  # NVIDIA, AMD, WSL


def load(model: str | None, device: str, expected: bool) -> PairScorer:
    weights = _weights(model)
    chosen = _best() if device == "auto" else device
    return (NumpyScorer(weights, expected) if chosen == _NUMPY
            else _on_device(weights, chosen, expected))


def _weights(model: str | None) -> dict[str, Array]:
    if model is not None:
        return _read(Path(model), "give a file that experiments/mqm/train.py wrote")
    with as_file(files("minrisk") / "data" / "mqm.safetensors") as bundled:
        return _read(bundled, "install minrisk again")


def _read(path: Path, hint: str) -> dict[str, Array]:
    with needs_extra("the 'mqm' metric", "embedding"):
        from safetensors.numpy import load_file
    try:
        found = load_file(path)
    except Exception as error:  # missing, truncated, another format: the error says which
        raise InputError(f"{path}: cannot be read as weights: {error}; {hint}") from None
    weights = {name.removeprefix(_PREFIX): values for name, values in found.items()
               if name.startswith(_PREFIX)}
    if "0.weight" not in weights:
        raise InputError(f"{path}: found no {_PREFIX}0.weight, wanted an estimator; {hint}")
    if weights["0.weight"].shape[1] != _INPUTS:
        raise InputError(f"{path}: found an estimator of {weights['0.weight'].shape[1]} numbers, "
                         f"wanted one of {_INPUTS} numbers; {hint}")
    return weights


def _best() -> str:
    if find_spec("torch") is None or not _may_have_gpu():
        return _NUMPY
    import torch

    return "cuda" if torch.cuda.is_available() else _NUMPY


def _may_have_gpu() -> bool:
    """Whether torch may find a GPU; importing it takes longer than scoring many segments."""
    return sys.platform != "linux" or any(map(glob, _GPU_FILES))


def _on_device(weights: dict[str, Array], device: str, expected: bool) -> PairScorer:
    with needs_extra(f"the 'mqm' metric on {device!r}", "comet"):
        import torch

        from minrisk._torch.device import InDtype, Runtime
        from minrisk.metrics.comet.estimator import feed_forward
        from minrisk.metrics.comet.scorer import TorchScorer

    *hidden, _ = (bias.size for _, bias in layers(weights))
    network = feed_forward(weights["0.weight"].shape[1], hidden, "Tanh", None)
    network.load_state_dict({name: torch.from_numpy(w) for name, w in weights.items()})
    runtime = Runtime(device, "fp32")
    loaded = network.to(runtime.device).eval()
    return TorchScorer(InDtype(runtime, lambda: loaded), runtime, expected)
