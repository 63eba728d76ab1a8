"""`--config run.yaml`: the values of options from a file, as click's `default_map`.

`decode` accepts configuration files of mbrs unchanged: `common:`, `metric:`, `decoder:` and
`selector:`. Keys and values with another name in minrisk are translated. Keys that cannot change
the choice are ignored with a warning; all others are kept, and refused with a hint from
`other_tools.py`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from minrisk._core.errors import InputError, warn
from minrisk._core.registry import METRICS, STRATEGIES
from minrisk.cli.options import FieldOption
from minrisk.io.files import Input

Values = dict[str, Any]
_SECTIONS = ("common", "decoder", "selector")  # not `metric`, which minrisk's files have, too
_DEFAULTS = {"format": "text", "metric": "bleu"}  # mbrs's defaults that differ from minrisk's
_MODELS = {"bleurt": "lucadiliello/BLEURT-20-D12",  # mbrs's default models
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
_WITHOUT_EFFECT = frozenset({  # keys that cannot change the choice
    "common.report-format", "common.width", "metric.batch-size", "metric.num-workers",
    "metric.nthreads", "metric.fastchrf", "metric.force", "metric.use-fast-tokenizer",
    "decoder.count-weight", "decoder.kmeans.kmeanspp",
})
_VALUES: dict[str, Callable[[Any], Values]] = {  # others keep their key, to be refused
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


@dataclass(frozen=True)
class Config:
    """The values from a file, by flag without the leading dashes."""

    path: str = ""
    values: dict[str, Any] = field(default_factory=dict)

    def default_map(self, options: Iterable[FieldOption]) -> dict[str, Any]:
        """The values by parameter name, as strings for click to convert."""
        return {str(option.name): self._value(key, option)
                for key, option in _keys(options).items() if key in self.values}

    def names(self) -> dict[str, list[str]]:
        """The values as texts, as on a command line."""
        return {f"--{key}": [str(one) for one in (value if isinstance(value, list) else [value])]
                for key, value in self.values.items()}

    def unknown(self, options: Iterable[FieldOption]) -> list[str]:
        return [key for key in self.values if key not in _keys(options)]

    def _value(self, key: str, option: FieldOption) -> Any:
        value = self.values[key]
        if option.multiple:
            return [str(item) for item in (value if isinstance(value, list) else [value])]
        if isinstance(value, list):
            raise InputError(f"{self.path}: found a list for {key!r}, expected one value")
        if option.is_flag and isinstance(value, bool):
            return value
        return str(value).lower() if isinstance(value, bool) else str(value)


def read_config(path: str, command: str | None) -> Config:
    """The values from a file; `decode` also accepts files of mbrs."""
    loaded = _load(path)
    pairs = list(_flat(loaded, ""))
    if command == "decode" and is_of_mbrs(loaded):
        pairs = list(translated(path, dict(pairs)))
    for key, count in Counter(key for key, _ in pairs).items():
        if count > 1:
            raise InputError(f"{path}: found {key!r} in {count} spellings, expected it once")
    return Config(path, {key: value for key, value in pairs if value is not None})


def _keys(options: Iterable[FieldOption]) -> dict[str, FieldOption]:
    """The options by every accepted spelling of their keys."""
    return {name[2:]: option for option in options for name in option.opts
            if name.startswith("--") and name != "--config"}


def _flat(mapping: dict[Any, Any], owner: str) -> Iterator[tuple[str, Any]]:
    for key, value in mapping.items():
        name = _name(str(key).replace("_", "-"), owner)
        if isinstance(value, dict):
            yield from _flat(value, name)
        else:
            yield name, value


def _name(key: str, owner: str) -> str:
    """`metric: {name: chrf, order: 4}` sets --metric and --metric.order; others add no prefix."""
    if owner and key == "name":
        return owner
    return key if owner in ("", "strategy", "sampler") else f"{owner}.{key}"


def _load(path: str) -> dict[Any, Any]:
    import yaml  # imported here because few runs need it

    text = "\n".join(Input(path).texts())
    try:
        content = yaml.load(text, _strict_loader())
    except InputError as error:
        raise InputError(f"{path}:{error}") from None
    except Exception as error:  # PyYAML raises many types: `!!bool maybe` is a KeyError
        raise InputError(f"{path}: found invalid YAML, expected `option: value` lines: "
                         + " ".join(str(error).split())) from None
    if content is None:  # an empty file
        return {}
    if not isinstance(content, dict):
        raise InputError(f"{path}: found {type(content).__name__}, expected a mapping: `option: "
                         "value` lines")
    return content


@cache
def _strict_loader() -> Any:
    """A YAML loader that refuses aliases and repeated keys."""
    import yaml

    class StrictLoader(yaml.SafeLoader):
        def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
            if self.check_event(yaml.AliasEvent):  # nested aliases can expand exponentially
                event: Any = self.peek_event()  # type: ignore[no-untyped-call]
                raise InputError(f"{event.start_mark.line + 1}: found the alias *{event.anchor}, "
                                 "expected plain values: write it out")
            return super().compose_node(parent, index)

        def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
            seen = set()
            for key, _ in node.value:
                if isinstance(key.value, str) and key.value in seen:
                    raise InputError(f"{key.start_mark.line + 1}: found the key {key.value!r} "
                                     "twice; remove one")
                seen.add(str(key.value))
            return super().construct_mapping(node, deep)

    return StrictLoader


def is_of_mbrs(found: Mapping[Any, Any]) -> bool:
    return any(isinstance(found.get(section), dict) for section in _SECTIONS)


def translated(path: str, values: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """The options from a file of mbrs, under minrisk's names, with mbrs's defaults."""
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
        warn(f"{path}: ignored {', '.join(left_out)}, which minrisk does not need "
             "(docs/guides/moving.md says what to use instead)")


def _implied(values: Mapping[str, Any]) -> Values:
    """Options for what mbrs does by default, without a key."""
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
