"""Minimum Bayes Risk decoding: pick, from many samples, the one with the highest utility.

    ranking = minrisk.decode(["a sample", "another sample", "a sample again"])
    print(ranking.text)

Everything here is imported on first use. `minrisk.plugins` has what authors of metrics, strategies
and samplers need.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from minrisk.version import __version__ as __version__

# modules of public functions; classes of metrics, strategies and samplers are in the registry
_HOMES = {
    "_core.batch": ("Batch", "bind"),
    "_core.calibration": ("Calibration",),
    "_core.decoding": ("decode", "make_metric", "make_sampler", "make_strategy"),
    "_core.errors": ("InputError", "MinriskError", "MissingExtra", "UnusableError"),
    "_core.groups": ("Groups",),
    "_core.pool": ("Pool",),
    "_core.segment": ("Confidence", "Proposal", "Ranking", "References", "Segment",
                      "Uncertainty"),
    "_core.signature": ("signature",),
    "_core.process": ("set_threads",),
    "_core.weights": ("weights_from_logprobs",),
    "evaluation.calibration": ("CalibrationReport", "read_calibration"),
    "evaluation.scoring": ("Score", "score"),
    "evaluation.validation": ("Validation",),
    "io.segments": ("ReferenceFile",),
    "io.text": ("TextFiles",),
    "samplers.ensemble": ("Ensemble",),
    "strategies.calibrated": ("Calibrated",),
    "strategies.confident": ("Confident",),
    "strategies.quality": ("RewardWeighted",),
    "strategies.uncertain": ("Uncertain",),
    "tasks.calibrate": ("calibrate",),
    "tasks.decode": ("decode_corpus",),
    "tasks.export": ("export",),
    "tasks.inspect": ("Report", "inspect"),
    "tasks.parts": ("decode_parts",),
    "tasks.results": ("DecodedSegment", "RunSummary", "SampledPrompt"),
    "tasks.sample": ("sample",),
    "tasks.translate": ("answer", "answer_async", "translate"),
    "tasks.validate": ("validate",),
    "version": ("__version__",),
}
_RENAMED = {"decode_shards": "decode_parts (and its argument shards to parts)"}


def _modules() -> dict[str, str]:
    """The module of each public name."""
    from minrisk._core.registry import REGISTRIES

    modules = {name: f"minrisk.{module}" for module, names in _HOMES.items() for name in names}
    for registry in REGISTRIES:
        for target in registry.builtin.values():
            module, _, name = target.partition(":")
            modules[name] = module
    return modules


def __getattr__(name: str) -> Any:
    if name in _RENAMED:
        raise AttributeError(f"minrisk.{name} was renamed to minrisk.{_RENAMED[name]}")
    modules = {} if name.startswith("__") and name != "__all__" else _modules()
    if name == "__all__":
        value: Any = sorted(modules)
    elif name in modules:
        value = getattr(import_module(modules[name]), name)
    else:
        raise AttributeError(f"module 'minrisk' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(_modules())
