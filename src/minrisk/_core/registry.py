"""The names of metrics, strategies and samplers, whose modules are imported on first use.

Other packages add names through the entry-point groups `minrisk.metrics`, `minrisk.strategies` and
`minrisk.samplers`. A name such as `chrf*0.5+cached:comet` is parsed to a tree of classes; options
set their fields.

    name      = term {"+" term}
    term      = component ["*" weight]
    component = NAME [":" argument]
    argument  = quoted | component of a wrapper | text
    quoted    = '"' text, in which a quotation mark is doubled, '"'

A text is the value of the component's first field. Unquoted, it extends to the end of the name, and
is rejected if it may also be read as a sum or a weight. The argument of a wrapper is its inner
metric; in quotes, that may be a sum: `cached:"chrf+bleu"`.

Options of an inner metric are prefixed with its name: `chrf__order=4`, on the command line
`--metric.chrf.order 4`; a second metric of the same name is `chrf2`, and a sum is `combined`.
"""

from __future__ import annotations

import dataclasses
import re
import typing
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from typing import Any, Self

from minrisk._core.errors import InputError, Wording, brief, unknown
from minrisk._core.options import Options, check_options, inner_field, labels
from minrisk._core.process import foreign_import

SUM = "combined"  # the component that a sum of names stands for
_HEAD, _HEAD_WITHOUT_SUMS = re.compile(r'[^:+*"]*'), re.compile("[^:]*")
_QUOTED = re.compile(r'"((?:[^"]|"")*)"')
_NUMBER = re.compile(r"-?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?")
_OPERATOR = re.compile(rf"\+(?=[a-zA-Z])|\*(?={_NUMBER.pattern}(?:\+|$))")  # a + or * in a text


@dataclass(frozen=True)
class Recipe:
    """A parsed name: a class, the fields that the name sets, and the recipes of inner metrics."""

    kind: str
    name: str
    cls: type
    given: dict[str, Any] = field(default_factory=dict)
    inner: dict[str, Recipe] = field(default_factory=dict)  # by the prefix of their options
    is_sum: bool = False

    def owners(self, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Self | Recipe]]:
        """This recipe and all inner ones, each with its path of names."""
        yield path, self
        for label, part in self.inner.items():
            yield from part.owners((*path, label))

    def make(self, options: dict[str, Any]) -> Any:
        """An instance; options are the fields of its dataclass and of the inner metrics."""
        own, parts = dict(options), []
        for label, part in self.inner.items():
            start = f"{key(label)}__"  # of the names of its options
            parts.append(part.make({name.removeprefix(start): own.pop(name)
                                    for name in options if name.startswith(start)}))
        named, name = dict(self.given), inner_field(self.cls)
        if name and parts:
            named[name] = tuple(parts) if self.is_sum else parts[0]
        self._check(own, named)
        made = self.cls(**named | own)
        if not isinstance(made, Options):  # `Options` checks its fields in its constructor
            check_options(made)
        return made

    def _check(self, own: dict[str, Any], named: dict[str, Any]) -> None:
        known = {f.name: f for f in dataclasses.fields(self.cls)}
        for option in own:
            if option not in known:
                raise unknown(f"option of {self.kind} {self.name!r}:", option, known)
        for option, f in known.items():
            if option in own or option in named or (f.default, f.default_factory) != (
                    dataclasses.MISSING, dataclasses.MISSING):
                continue
            if "inner" in f.metadata:
                raise InputError(f"{self.kind} {self.name!r} is made of others; "
                                 f"name {f.metadata['help']}")
            raise InputError(Wording("{kind} {name!r} needs the option " + f"{option}=",
                                     kind=self.kind, name=self.name))


def key(label: str) -> str:
    """A name as part of a Python identifier."""
    return label.replace("-", "_")


@dataclass
class NameParser:
    """A recursive-descent parser's position in a name, and the tokens that it reads."""

    name: str
    kind: str  # for messages
    sums: bool = True  # whether + and * are operators
    at: int = 0

    @property
    def ended(self) -> bool:
        return self.at == len(self.name)

    def take(self, sign: str) -> bool:
        """Consume this sign if it comes next; return whether it did."""
        matches = self.name.startswith(sign, self.at)
        self.at += len(sign) if matches else 0
        return matches

    def head(self) -> str:
        """The name of a component."""
        return self._matched(_HEAD if self.sums else _HEAD_WITHOUT_SUMS)

    def quoted(self) -> str | None:
        """The text in quotation marks; None if there are none."""
        if not self.name.startswith('"', self.at):
            return None
        start = self.at
        text = self._matched(_QUOTED)
        if not text or not (self.ended or (self.sums and self.name[self.at] in "+*")):
            self.at = start
            raise self._error("a quotation mark begins an argument, and another one ends it",
                              quoted(self.name[start:]))
        return text[1:-1].replace('""', '"')

    def text(self) -> str:
        """The text of an argument; a text that may contain an operator must be quoted."""
        own = self.quoted()
        if own is not None:
            return own
        text = self.name[self.at:]
        sign = _OPERATOR.search(text) if self.sums else None
        if sign:
            first, rest = text[:sign.start()], text[sign.start():]
            raise self._error(f"the argument {text!r} has a {sign[0]} that may be part of it or "
                              "not", quoted(text), f"{quoted(first)}{rest}")
        self.at = len(self.name)
        return text

    def weight(self) -> float:
        """The number after a *; it must be the end of the term."""
        start = self.at
        number = self._matched(_NUMBER)
        if not number or not (self.ended or self.name[self.at] == "+"):
            wrong = self.name[start:].partition("+")[0]
            raise InputError(f"{self.name!r}: expected a number as weight, got {wrong!r}")
        return float(number)

    def end(self) -> None:
        if not self.ended:
            raise InputError(f"{self.kind} {self.name!r}: found {self.name[self.at:]!r} after a "
                             "complete name; join names with +, and put arguments in quotes")

    def _matched(self, pattern: re.Pattern[str]) -> str:
        match = pattern.match(self.name, self.at)
        text = match[0] if match else ""
        self.at += len(text)
        return text

    def _error(self, problem: str, *arguments: str) -> InputError:
        head = self.name[:self.at]
        forms = " or ".join(f"{head}{argument}" for argument in arguments)
        return InputError(f"{self.kind} {self.name!r}: {problem}; write {forms}")


def quoted(argument: str) -> str:
    """An argument in quotation marks, escaped for use in a name."""
    return '"' + argument.replace('"', '""') + '"'


def inside(name: str) -> str:
    """The name of an inner metric as the argument of its wrapper, quoted if it is a sum."""
    return quoted(name) if is_sum(name) else name


def is_sum(name: str) -> bool:
    """Whether the name is a sum, or has a weight."""
    return any(sign in _QUOTED.sub("", name) for sign in "+*")


def label_of(name: str) -> str:
    """The prefix of the options of a metric with this name inside another metric."""
    return SUM if is_sum(name) else name.partition(":")[0]


@dataclass(frozen=True)
class Registry:
    """Names of one kind of component, built in or from plug-ins, and the classes behind them."""

    kind: str  # "metric", "strategy" or "sampler", for messages
    group: str  # of entry points
    builtin: dict[str, str] = field(default_factory=dict)  # name -> "module:class"
    sums: bool = False  # whether names may be added
    removed: dict[str, str] = field(default_factory=dict)  # former name -> what to use instead
    elsewhere: dict[str, str] = field(default_factory=dict)  # name in other tools -> our name

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
            cls: type = getattr(import_module(module), attribute)
        if not dataclasses.is_dataclass(cls):
            raise InputError(f"{self.kind} {name!r} must be a dataclass; got {cls!r}")
        return cls

    def installed(self) -> Iterator[tuple[str, type]]:
        """All names and the classes behind them, except for broken plug-ins."""
        for name in self.names():
            try:
                yield name, self.get(name)
            except Exception:  # importing a plug-in may raise anything
                continue

    def recipe(self, name: str) -> Recipe:
        """Parse a name, which may have an argument or be a sum of names."""
        if not isinstance(name, str):
            raise InputError(f"expected the name of a {self.kind}; got {brief(name)}")
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
        return Recipe(self.kind, name, self.get(SUM), {"weights": tuple(weights)}, _by_label(terms),
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
        return Recipe(self.kind, head, cls, inner=_by_label([part]), is_sum=head == SUM)

    def _first_text(self, name: str, cls: type) -> str:
        first = dataclasses.fields(cls)[0].name
        if typing.get_type_hints(cls)[first] not in (str, str | None):
            raise InputError(f"{self.kind} {name!r} takes no argument after a colon; "
                             f"give options by name ({first})")
        return first


def _by_label(recipes: list[Recipe]) -> dict[str, Recipe]:
    """The recipes by the prefix of their options."""
    return dict(zip(labels(label_of(part.name) for part in recipes), recipes, strict=True))


@cache  # slow: reads the metadata of all installed packages
def _entry_points(group: str) -> Mapping[str, str]:
    from importlib.metadata import entry_points  # slow to import

    return {point.name: point.value for point in entry_points(group=group)}


METRICS = Registry("metric", "minrisk.metrics", {
    "chrf": "minrisk.metrics.ngram.chrf:ChrF",
    "bleu": "minrisk.metrics.ngram.bleu:BLEU",
    "comet": "minrisk.metrics.comet:Comet",
    "comet-qe": "minrisk.metrics.comet:CometQE",
    "comet-kiwi": "minrisk.metrics.comet:CometKiwi",
    "xcomet": "minrisk.metrics.comet:XComet",
    "bertscore": "minrisk.metrics.neural.bertscore:BertScore",
    "metricx": "minrisk.metrics.neural.metricx:MetricX",
    "metricx-qe": "minrisk.metrics.neural.metricx:MetricXQE",
    "bleurt": "minrisk.metrics.neural.bleurt:Bleurt",
    "ter": "minrisk.metrics.ter:Ter",
    "rouge": "minrisk.metrics.ngram.rouge:Rouge",
    "rouge-l": "minrisk.metrics.ngram.rouge:RougeL",
    "edit": "minrisk.metrics.edit:Edit",
    "wer": "minrisk.metrics.edit:Wer",
    "cer": "minrisk.metrics.edit:Cer",
    "cider": "minrisk.metrics.cider:Cider",
    "exact-match": "minrisk.metrics.votes.exact_match:ExactMatch",
    "json-match": "minrisk.metrics.votes.json_match:JsonMatch",
    "symbolic": "minrisk.metrics.votes.symbolic:Symbolic",
    "outcomes": "minrisk.metrics.votes.exact_match:Outcomes",
    "embedding": "minrisk.metrics.embedding:Embedding",
    "mqm": "minrisk.metrics.neural.mqm:MQM",
    "judge": "minrisk.metrics.judge:Judge",
    "reward": "minrisk.metrics.neural.reward:Reward",
    "logprob": "minrisk.metrics.given:LogProb",
    "python": "minrisk.metrics.user_code.python:Python",
    "command": "minrisk.metrics.user_code.command:Command",
    "combined": "minrisk.metrics.wrappers.combined:Combined",
    "symmetric": "minrisk.metrics.wrappers.combined:Symmetric",
    "cutoff": "minrisk.metrics.wrappers.combined:Cutoff",
    "documents": "minrisk.metrics.wrappers.documents:Documents",
    "cached": "minrisk.metrics.wrappers.cached:Cached",
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
    "universal-self-consistency": "minrisk.strategies.quality:UniversalSelfConsistency",
    "fuse": "minrisk.strategies.quality:Fuse",
    "compose": "minrisk.strategies.compose:Compose",
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
