"""Configuration files of mbrs as they are: `common:`, `metric:`, `decoder:` and `selector:`.

What has another name or another value here is translated. What cannot change a choice is left out,
and named; every other key stays as it is, and is refused with the hint of `other_tools.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from minrisk._core.errors import warn
from minrisk._core.registry import METRICS, STRATEGIES

Values = dict[str, Any]
_SECTIONS = ("common", "decoder", "selector")  # `metric:` is a section of our own files too
_DEFAULTS = {"format": "text", "metric": "bleu"}  # of mbrs, where they differ from ours
_MODELS = {"bleurt": "lucadiliello/BLEURT-20-D12",  # likewise
           "metricx": "google/metricx-24-hybrid-xxl-v2p6"}
_NAMES = {
    "common.hypotheses": "input",
    "metric.char-order": "metric.order",
    "metric.max-ngram-order": "metric.order",
    "metric.score-type": "metric.part",
    "metric.model-type": "metric.model",
    "metric.num-layers": "metric.layer",
    "metric.baseline-path": "metric.baseline",
    "decoder.num-bootstrap-samples": "resamples",
    "decoder.rank": "factors",
    "decoder.niter": "iterations",
    "decoder.kmeans.ncentroids": "centroids",
    "decoder.kmeans.niter": "iterations",
    "decoder.kmeans.seed": "seed",
}
_WITHOUT_EFFECT = frozenset({  # on what is chosen
    "common.report-format", "common.width", "metric.batch-size", "metric.num-workers",
    "metric.nthreads", "metric.fastchrf", "metric.force", "metric.use-fast-tokenizer",
    "decoder.count-weight", "decoder.kmeans.kmeanspp",
})
_VALUES: dict[str, Callable[[Any], Values]] = {  # a key stays where its value says nothing here
    "common.format": lambda value: {"format": "text" if value == "plain" else value},
    "common.decoder": lambda value: {"strategy": STRATEGIES.elsewhere.get(value, value)},
    "common.metric": lambda value: {"metric": METRICS.elsewhere.get(value, value)},
    "common.selector": lambda value: {} if value == "nbest" else {"selector": value},
    "common.report": lambda value: {} if value == "-" else {"report": value},
    "metric.fp16": lambda value: {"metric.dtype": "fp16"} if value else {},
    "metric.bf16": lambda value: {"metric.dtype": "bf16"} if value else {},
    "metric.cpu": lambda value: {"metric.device": "cpu"} if value else {},
    "metric.idf": lambda value: {"metric.idf-sents": value} if value else {},
    "metric.rescale-with-baseline": lambda value: (
        {"metric.rescale-with-baseline": value} if value else {}),
    "metric.trg-lang": lambda value: {"metric.trg-lang": value} if value else {},
    "decoder.reduction-factor": lambda value: {"budget": 1 / max(1.0, float(value))},
    "decoder.sampling-scheduler": lambda value: (
        {"start": value[0]} if _doubles(value) else {"sampling-scheduler": value}),
}


def is_of_mbrs(found: Mapping[Any, Any]) -> bool:
    return any(isinstance(found.get(section), dict) for section in _SECTIONS)


def translated(path: str, values: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """The options in a file of mbrs, by our names and with mbrs's defaults."""
    values = {key: value for key, value in values.items() if value is not None}
    for key in _DEFAULTS.keys() - {key.removeprefix("common.") for key in values}:
        yield key, _DEFAULTS[key]
    yield from _implied(values).items()
    for key, value in values.items():
        if key in _VALUES:
            yield from _VALUES[key](value).items()
        elif key not in _WITHOUT_EFFECT and not key.startswith("selector."):
            yield _NAMES.get(key) or key.removeprefix("common.").removeprefix("decoder."), value
    if left_out := [key.replace("-", "_") for key in values if key in _WITHOUT_EFFECT]:
        warn(f"{path}: left out {', '.join(left_out)}, which do not change the choice here "
                "(docs/guides/moving.md has what to use instead)")


def _implied(values: Mapping[str, Any]) -> Values:
    """What mbrs does without a key for it."""
    metric, decoder = values.get("common.metric"), values.get("common.decoder")
    implied: Values = {}
    if metric in _MODELS and "metric.model" not in values:
        implied["metric.model"] = _MODELS[metric]
    if metric == "comet" and decoder in ("aggregate_mbr", "centroid_mbr"):
        implied["metric.aggregation"] = "mean"
    if decoder == "pruning_mbr" and "decoder.sampling-scheduler" not in values:
        implied["start"] = 8
    return implied


def _doubles(sizes: Any) -> bool:
    return isinstance(sizes, list) and all(
        isinstance(size, int) and size == sizes[0] * 2**step for step, size in enumerate(sizes))
