"""The bundled trained metric: COMET's estimator on small sentence embeddings.

It imports torch and the encoder when they are used, so that the metric can always be listed.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from glob import glob
from importlib.resources import as_file, files
from importlib.util import find_spec
from pathlib import Path

from minrisk._core.arrays import Points
from minrisk._core.errors import InputError, needs_extra
from minrisk._core.groups import WeightedRows
from minrisk._core.lazy import lazy
from minrisk._core.options import option
from minrisk.metrics.comet import Aggregation, EstimatorMetric, PairScorer
from minrisk.metrics.comet.numpy_scorer import Array, NumpyScorer, layers
from minrisk.metrics.embedding import Embedding

_PREFIX = "estimator.ff."  # as in COMET's checkpoints
_INPUTS = 6 * 512  # six blocks of the encoder's embeddings
_NUMPY = "numpy"
_GPU_FILES = ("/dev/nvidia[0-9]*", "/dev/kfd", "/dev/dxg")  # NVIDIA, AMD, WSL


@dataclass(frozen=True)
class MQM(EstimatorMetric):
    """Small bundled metric, trained on expert judgements; needs a source and minrisk[embedding].

    COMET's estimator on multilingual sentence embeddings, trained by experiments/mqm on MQM
    annotations of WMT. It runs in NumPy, or by torch on a GPU.

    Args:
        model: file of weights written by experiments/mqm [default: the bundled one].
        aggregation: how references are averaged: the "expected" output of the first layer, exactly,
            or the "mean" embedding.
        device: "numpy", or a device of torch; "auto" is "cuda" if there is a GPU, else "numpy".
        cache: folder of a cache of embeddings that runs and processes may share [default: no
            cache].

    Raises:
        InputError: when it is used, if the file does not contain such weights.
        MissingExtra: when it is used, if the encoder's package is not installed.

    >>> import minrisk
    >>> mqm = minrisk.MQM(device="numpy")
    >>> mqm.needs_source, mqm.loads_model
    (True, True)
    >>> samples = ["The cat sleeps.", "The cat is sleeping.", "It rains."]
    >>> minrisk.decode(samples, metric=mqm, source="Le chat dort.").text
    'The cat sleeps.'
    """

    name = "mqm"
    cost = ("n + m runs of a small encoder, n · m of a small estimator, or n with averaged "
            "references")
    loads_model = True
    features_per_segment = Embedding.features_per_segment

    model: str | None = option(None)
    aggregation: Aggregation = option("expected")
    device: str = option("auto")
    cache: str | None = option(None, affects_results=False)

    def prepare(self) -> None:
        self._scorer  # noqa: B018 - which loads the model
        Embedding(cache=self.cache).prepare()

    def features(self, texts: Sequence[str]) -> WeightedRows:
        base = self._scorer.embeddings(Embedding(cache=self.cache).features(texts))
        return WeightedRows.plain(self, base)

    def vectors(self, features: WeightedRows) -> Points:
        """(N, D) sentence embeddings for clustering, on their device."""
        return self._scorer.vectors(features)

    @lazy
    def _scorer(self) -> PairScorer:
        weights, is_expected = _weights(self.model), self.aggregation == "expected"
        device = _best() if self.device == "auto" else self.device
        return (NumpyScorer(weights, is_expected) if device == _NUMPY
                else _on_device(weights, device, is_expected))


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
        raise InputError(f"{path}: found no {_PREFIX}0.weight, expected an estimator; {hint}")
    if weights["0.weight"].shape[1] != _INPUTS:
        raise InputError(f"{path}: found an estimator of {weights['0.weight'].shape[1]} numbers, "
                         f"expected one of {_INPUTS} numbers; {hint}")
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
