"""The names of metrics, strategies and samplers, whose modules are imported on first use.

Other packages add names through the entry-point groups `minrisk.metrics`, `minrisk.strategies` and
`minrisk.samplers`. `NAME:ARGUMENT` sets the first field of NAME, and `NAME*WEIGHT+NAME` is a
weighted sum; `recipe.py` has the grammar.
"""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from typing import Any

from minrisk._core.errors import InputError, unknown
from minrisk._core.foreign import foreign_import
from minrisk._core.options import inner_field, labels
from minrisk._core.recipe import SUM, NameParser, Recipe, label_of


@dataclass(frozen=True)
class Registry:
    """Names of one kind of component, built in or from plug-ins, and the classes behind them."""

    kind: str  # "metric", "strategy" or "sampler", for messages
    group: str  # of entry points
    builtin: dict[str, str] = field(default_factory=dict)  # "module:class" by name
    sums: bool = False  # whether names may be added
    removed: dict[str, str] = field(default_factory=dict)  # former names, and their replacements
    elsewhere: dict[str, str] = field(default_factory=dict)  # our names by those of other tools

    def plugins(self) -> Mapping[str, str]:
        return _entry_points(self.group)

    def names(self) -> list[str]:
        return [*self.builtin, *(name for name in self.plugins() if name not in self.builtin)]

    def get(self, name: str) -> type:
        """The class behind a name. A plug-in cannot replace a built-in name."""
        target = self.builtin.get(name) or self.plugins().get(name)
        if target is None and name in self.removed:
            raise InputError(f"{self.kind} {name!r} was removed; {self.removed[name]}")
        if target is None and name in self.elsewhere:
            raise InputError(f"unknown {self.kind} {name!r}; here it is {self.elsewhere[name]!r}")
        if target is None:
            raise unknown(self.kind, name, self.names())
        module, _, attribute = target.partition(":")
        with foreign_import(f"{self.kind} {name!r} cannot be loaded from {target!r}",
                            "; reinstall the package that provides it"):
            found: type = getattr(import_module(module), attribute)
        if not dataclasses.is_dataclass(found):
            raise InputError(f"{self.kind} {name!r} must be a dataclass; got {found!r}")
        return found

    def installed(self) -> Iterator[tuple[str, type]]:
        """All names and the classes behind them, without broken plug-ins."""
        for name in self.names():
            try:
                yield name, self.get(name)
            except Exception:  # of whatever a plug-in raises when it is imported
                continue

    def recipe(self, name: str) -> Recipe:
        """Parse a name, which may have an argument or be a sum of names."""
        parser = NameParser(name, self.kind, self.sums)
        terms, weights = [], []
        while True:
            terms.append(self._component(parser))
            weights.append(parser.weight() if self.sums and parser.take("*") else 1.0)
            if not (self.sums and parser.take("+")):
                break
        parser.end()
        if len(terms) == 1 and weights == [1.0]:
            return terms[0]
        return Recipe(self.kind, name, self.get(SUM), {"weights": tuple(weights)}, _parts(terms),
                      is_sum=True)

    def make(self, name: str, /, **options: Any) -> Any:
        """An instance; options are the fields of its dataclass."""
        return self.recipe(name).make(options)

    def _component(self, parser: NameParser) -> Recipe:
        head = parser.head()
        cls = self.get(head)
        if not parser.take(":"):
            return Recipe(self.kind, head, cls)
        if not inner_field(cls):
            first, argument = self._first_text(head, cls), parser.text()
            if hasattr(cls, "class_of") and (found := cls.class_of(argument)) is not None:
                return Recipe(self.kind, f"{head}:{argument}", found)
            return Recipe(self.kind, head, cls, given={first: argument})
        own = parser.quoted()
        part = self._component(parser) if own is None else self.recipe(own)
        if head == SUM and part.is_sum:  # combined:"chrf+bleu", a sum as a term
            return part
        return Recipe(self.kind, head, cls, parts=_parts([part]), is_sum=head == SUM)

    def _first_text(self, name: str, cls: type) -> str:
        first = dataclasses.fields(cls)[0].name
        if typing.get_type_hints(cls)[first] not in (str, str | None):
            raise InputError(f"{self.kind} {name!r} takes no argument after a colon; "
                             f"give options by name ({first})")
        return first


def _parts(recipes: list[Recipe]) -> dict[str, Recipe]:
    """The recipes by the names of their options."""
    return dict(zip(labels(label_of(part.name) for part in recipes), recipes, strict=True))


@cache  # the metadata of all installed packages are read
def _entry_points(group: str) -> Mapping[str, str]:
    from importlib.metadata import entry_points  # here, because it is slow to import

    return {point.name: point.value for point in entry_points(group=group)}


METRICS = Registry("metric", "minrisk.metrics", {
    "chrf": "minrisk.metrics.chrf:ChrF",
    "bleu": "minrisk.metrics.bleu:BLEU",
    "comet": "minrisk.metrics.comet:Comet",
    "comet-qe": "minrisk.metrics.comet:CometQE",
    "comet-kiwi": "minrisk.metrics.comet.unified:CometKiwi",
    "xcomet": "minrisk.metrics.comet.unified:XComet",
    "bertscore": "minrisk.metrics.bertscore:BertScore",
    "metricx": "minrisk.metrics.metricx:MetricX",
    "metricx-qe": "minrisk.metrics.metricx:MetricXQE",
    "bleurt": "minrisk.metrics.bleurt:Bleurt",
    "ter": "minrisk.metrics.ter:Ter",
    "rouge": "minrisk.metrics.rouge:Rouge",
    "rouge-l": "minrisk.metrics.rouge:RougeL",
    "edit": "minrisk.metrics.edit:Edit",
    "wer": "minrisk.metrics.edit:Wer",
    "cer": "minrisk.metrics.edit:Cer",
    "cider": "minrisk.metrics.cider:Cider",
    "exact-match": "minrisk.metrics.exact_match:ExactMatch",
    "json-match": "minrisk.metrics.json_match:JsonMatch",
    "symbolic": "minrisk.metrics.symbolic:Symbolic",
    "outcomes": "minrisk.metrics.exact_match:Outcomes",
    "embedding": "minrisk.metrics.embedding:Embedding",
    "mqm": "minrisk.metrics.mqm:MQM",
    "judge": "minrisk.metrics.judge:Judge",
    "reward": "minrisk.metrics.reward:Reward",
    "logprob": "minrisk.metrics.given:LogProb",
    "python": "minrisk.metrics.python:Python",
    "command": "minrisk.metrics.command:Command",
    "combined": "minrisk.metrics.combined:Combined",
    "symmetric": "minrisk.metrics.combined:Symmetric",
    "cutoff": "minrisk.metrics.combined:Cutoff",
    "documents": "minrisk.metrics.documents:Documents",
    "cached": "minrisk.metrics.cached:Cached",
}, sums=True, removed={
    "evaluate": "use python:module:function, with a function that calls the script "
                "(docs/guides/metrics.md has an example)",
}, elsewhere={  # metrics of mbrs
    "cometkiwi": "comet-kiwi",
    "cometqe": "comet-qe",
})

STRATEGIES = Registry("strategy", "minrisk.strategies", {
    "standard": "minrisk.strategies.groups:Standard",
    "n-by-s": "minrisk.strategies.groups:NByS",
    "aggregate": "minrisk.strategies.groups:Aggregate",
    "aggregate-to-fine": "minrisk.strategies.cascade:AggregateToFine",
    "coarse-to-fine": "minrisk.strategies.cascade:CoarseToFine",
    "cascade": "minrisk.strategies.cascade:Cascade",
    "prune": "minrisk.strategies.race:Prune",
    "adaptive": "minrisk.strategies.race:Adaptive",
    "centroid": "minrisk.strategies.groups:Centroid",
    "low-rank": "minrisk.strategies.low_rank:LowRank",
    "control-variate": "minrisk.strategies.race:ControlVariate",
    "rerank": "minrisk.strategies.quality:Rerank",
    "quality-then-mbr": "minrisk.strategies.quality:QualityThenMBR",
    "mbr-bon": "minrisk.strategies.quality:MBRBoN",
    "universal-self-consistency":
        "minrisk.strategies.quality:UniversalSelfConsistency",
    "diverse": "minrisk.strategies.sets:Diverse",
    "medoids": "minrisk.strategies.sets:Medoids",
    "cluster": "minrisk.strategies.sets:Cluster",
}, elsewhere={  # decoders of mbrs
    "mbr": "standard",
    "pruning_mbr": "prune",
    "aggregate_mbr": "aggregate",
    "centroid_mbr": "centroid",
    "probabilistic_mbr": "low-rank",
})

SAMPLERS = Registry("sampler", "minrisk.samplers", {
    "hf": "minrisk.samplers.hf:Transformers",
    "openai": "minrisk.samplers.openai:Endpoint",
    "ct2": "minrisk.samplers.ct2:CTranslate2",
})

REGISTRIES = (METRICS, STRATEGIES, SAMPLERS)
