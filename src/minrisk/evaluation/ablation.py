"""What each model contributes to a pool of samples: choices without its samples."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from minrisk._core.decoding import decode
from minrisk._core.errors import InputError
from minrisk._core.metric import AnyMetric
from minrisk.io.inputs import InputFile
from minrisk.io.records import error_location
from minrisk.io.segments import output_fields


@dataclass(frozen=True)
class PooledSamples:
    """The samples of a line of an output, with the model, number and weight of each."""

    where: str
    samples: list[str]
    models: list[str]
    counts: list[int]
    weights: list[float]

    def choice(self, metric: AnyMetric, without: str | None = None) -> str:
        """The choice of standard MBR without the samples of a model; empty if none that count are
        left.
        """
        rows = [row for row, model in enumerate(self.models) if model != without]
        if not any(self.weights[row] > 0 for row in rows):
            return ""
        with error_location(self.where):
            return decode([self.samples[row] for row in rows], metric=metric,
                          counts=[self.counts[row] for row in rows],
                          weights=[self.weights[row] for row in rows]).text.rstrip()


def ablated(path: str, metric: AnyMetric) -> dict[str, list[str]]:
    """The choices among the samples of all models of an output, and without each of them; empty
    for segments that failed.

    Raises:
        InputError: if another line has no samples with their models.
    """
    lines = [_pooled(where, fields) for where, fields in output_fields(InputFile.at(path))]
    models = dict.fromkeys(model for line in lines for model in line.models)
    if len(models) < 2:
        raise InputError(f"{path}: found samples of {len(models)} model; an ablation needs several")
    found = {"all models": [line.choice(metric) for line in lines]}
    return found | {f"without {model}": [line.choice(metric, model) for line in lines]
                    for model in models}


def _pooled(where: str, fields: Mapping[str, Any]) -> PooledSamples:
    if fields.get("error") is not None:
        return PooledSamples(where, [], [], [], [])
    samples, models = fields.get("samples"), fields.get("models")
    if not (isinstance(samples, list) and isinstance(models, list) and samples
            and len(samples) == len(models) and all(isinstance(one, str) for one in models)):
        raise InputError(f"{where}: found no models of the samples; expected the lists samples and "
                         "models, as `minrisk answer` writes them for several endpoints")
    return PooledSamples(where, samples, models, fields.get("counts") or [1] * len(samples),
                         fields.get("weights") or [1.0] * len(samples))
