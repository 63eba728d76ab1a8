"""How answers are chosen among the samples, and how good an answer to a task is."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

import minrisk
from minrisk._core.registry import STRATEGIES

Fields = dict[str, Any]

# a number or words in the last box, without the \text{} that models put around words
NUMBER = r"\\boxed\{[^}]*?(-?\d[\d,]*(?:\.\d+)?)[^}\d]*\}"
WORDS = r"\\boxed\{(?:\\text\w*\{)?\s*([^{}]*?)\s*\}"
SUMMARY_WORDS = 30  # that a summary may have; facts after these do not count

_WORDS_TASKS = ("knights_knaves", "zebra_puzzles")


def kind_of(task: str) -> str:
    """How the answers to a task are compared: as numbers, words, JSON, or by the facts in a text.
    """
    if task in _WORDS_TASKS:
        return "words"
    return {"extraction": "json", "summary": "facts"}.get(task, "number")


def vote(kind: str) -> Any:
    """The metric of a plain majority vote."""
    if kind == "json":
        return minrisk.JsonMatch()
    if kind == "words":
        return minrisk.ExactMatch(WORDS, lowercase=True)
    return minrisk.ExactMatch(NUMBER, numbers=True)


class Method(NamedTuple):
    """Options of `minrisk.decode_corpus`, the kinds of tasks that it is for, and what it needs."""

    options: Callable[[str], Fields]  # by kind
    kinds: Sequence[str] = ("number", "words", "json", "facts")
    needs: Sequence[str] = ()  # columns of the samples


_VOTES = ("number", "words", "json")


def _vote(kind: str, **options: Any) -> Fields:
    return {"metric": vote(kind), **options}


def _metric(kind: str, name: str, **options: Any) -> Fields:
    return {"metric": minrisk.make_metric(name, **options)}


def _weighted(weights: str, *needs: str, **options: Any) -> Method:
    return Method(partial(_vote, weights=weights, **options), _VOTES, needs)


METHODS: dict[str, Method] = {
    "most probable": Method(lambda kind: {"strategy": "rerank", "metric": "logprob"},
                            needs=["logprobs"]),
    "majority": Method(_vote, _VOTES),
    "vote by mean logprob (CISC)": _weighted("mean-logprob", "logprobs", weights_temperature=0.1),
    "vote by lowest group (DeepConf)": _weighted("lowest-logprob", "lowest_logprobs"),
    "vote by tail (DeepConf)": _weighted("tail-logprob", "tail_logprobs"),
    "vote of the surer half (DeepConf)": _weighted("lowest-logprob", "lowest_logprobs",
                                                   keep_confident=0.5),
    "vote by self-certainty": _weighted("certainty", "certainties"),
    "symbolic": Method(partial(_metric, name="symbolic"), ["number"]),
    "json-match by field": Method(partial(_metric, name="json-match", by="field"), ["json"]),
    **({"compose": Method(lambda kind: {"strategy": "compose", "metric": minrisk.JsonMatch()},
                          ["json"])} if "compose" in STRATEGIES.names() else {}),
    "MBR by chrF": Method(partial(_metric, name="chrf")),
    "MBR by embedding": Method(partial(_metric, name="cached:embedding")),
}


def _judge(strategy: str, judge: minrisk.Judge, kind: str, **options: Any) -> Fields:
    return {"strategy": strategy, "metric": judge, **options}


def served_methods(judge: minrisk.Judge, subset: int) -> dict[str, Method]:
    """Methods that ask the model of a server."""
    return {
        "MBR by judge": Method(partial(_judge, "n-by-s", judge, subset=subset)),
        "universal self-consistency": Method(partial(_judge, "universal-self-consistency", judge)),
        **({"fuse": Method(lambda kind: {
            "strategy": "fuse", "writer": judge,
            "metric": "chrf" if kind == "facts" else vote(kind)})}
           if "fuse" in STRATEGIES.names() else {}),
    }


def without_server(kind: str) -> str:
    """The method that methods of a server are compared with."""
    return "MBR by embedding" if kind == "facts" else "majority"


def qualities(kind: str, texts: Sequence[str], gold: Any) -> list[float]:
    """How good each text is, from 0 to 1: right or wrong, or for summaries the share of facts."""
    if kind == "facts":
        return [coverage(text, gold) for text in texts]
    metric = minrisk.make_metric("symbolic") if kind == "number" else vote(kind)
    boxed = gold if kind == "json" else rf"\boxed{{{gold}}}"
    return minrisk.score(texts, [boxed] * len(texts), metric=metric).sentences.tolist()


def coverage(text: str, facts: Sequence[Sequence[str]]) -> float:
    """The share of facts in the first words of a summary; each has several spellings.

    >>> coverage("Fire in Leeds: 40 left", [["fire", "burn"], ["Leeds"], ["41"], ["cable"]])
    0.5
    """
    start = " ".join(text.split()[:SUMMARY_WORDS]).lower()
    found = [any(re.search(rf"\b{re.escape(spelling.lower())}", start) for spelling in spellings)
             for spellings in facts]
    return float(np.mean(found))


def can_run(method: Method, kind: str, record: Mapping[str, Any]) -> bool:
    return kind in method.kinds and all(name in record for name in method.needs)
