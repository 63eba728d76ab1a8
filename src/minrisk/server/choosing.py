"""Choosing among the samples of a request: what is compared, how votes count, how they are ranked.

All of it runs in worker processes, except rankings by a metric with a model, and choices among few
short texts, which take no longer than to send them there.
"""

from __future__ import annotations

import json
import math
import pickle
from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import lru_cache
from itertools import chain
from typing import Any, NamedTuple

from minrisk._core.arrays import finite_or_none
from minrisk._core.batch import Batch
from minrisk._core.calibration import Calibration
from minrisk._core.json_values import canonical
from minrisk._core.lazy import lazy
from minrisk._core.sampler import Sample, columns
from minrisk._core.segment import Ranking, Segment
from minrisk._core.signature import signature
from minrisk._core.strategy import (
    Strategy,
    WeightingStrategy,
    loads_model,
    metrics_of,
    proposes,
)
from minrisk._core.vote import AnswerClasses, answer_of
from minrisk.io.records import segment_among
from minrisk.io.weighting import UNIFORM, Weighting
from minrisk.io.writers import FURTHER_SIGNALS, proposal_fields, uncertainty_fields
from minrisk.metrics.ngram.chrf import ChrF
from minrisk.metrics.votes.exact_match import ExactMatch
from minrisk.metrics.votes.json_match import JsonMatch
from minrisk.openai.responses import Choice
from minrisk.strategies.compose import Compose, schema_problem
from minrisk.strategies.groups import Standard
from minrisk.tasks.decode import MeasureOptions

_END_OF_REASONING = "</think>"  # some servers leave reasoning in the content
_FILTERED = "content_filter"
_COMPARED_FIELDS = ("tool_calls", "function_call", "refusal")  # of a message, with its content
_MAX_METHODS = 64  # ranking methods cached by a process
# bounds of work that is done in the event loop, in a few milliseconds at most
_FEW = 64  # samples
_SHORT = 1 << 17  # characters times orders of n-grams


# what is compared


@dataclass(frozen=True)
class Candidate:
    """The comparable form of an upstream's choice: reasoning removed, JSON in canonical form."""

    sample: Sample  # its text is what is compared
    tools: tuple[str, ...] | None = None  # names of the tools that it calls, if any
    can_win: bool = True  # False if filtered or empty

    @property
    def is_truncated(self) -> bool:
        return self.sample.finish_reason == "length"


class _ToolMatch(JsonMatch):
    """Compares calls of the same tools field by field; equal calls vote for the same answer."""

    is_vote = True


_TOOL_METRIC = _ToolMatch(by="field")


def comparable(choices: Sequence[Choice]) -> list[Choice]:
    """The choices without the fields that are not compared, to send less to another process."""
    return [replace(choice, raw={"message": {name: choice.message[name] for name in _COMPARED_FIELDS
                                             if name in choice.message}}) for choice in choices]


def _has_other_fields(choice: Choice) -> bool:
    """Whether more than its text may be compared."""
    message = choice.message
    return bool(message.get("tool_calls") or message.get("function_call")
                or message.get("refusal"))


def read_candidates(choices: Sequence[Choice], as_json: bool) -> list[Candidate]:
    """The candidate that stands for each choice."""
    return [_candidate(choice, as_json) for choice in choices]


def _candidate(choice: Choice, as_json: bool) -> Candidate:
    message = choice.message
    if choice.finish_reason != _FILTERED and (calls := _calls(message)):
        return Candidate(choice.sample(_as_text(calls)), tuple(call["name"] for call in calls))
    text = choice.text if choice.text and choice.text.strip() else message.get("refusal")
    if choice.finish_reason == _FILTERED or not isinstance(text, str) or not text.strip():
        return Candidate(choice.sample(choice.text or ""), can_win=False)
    text = text.rpartition(_END_OF_REASONING)[2].strip() or text
    return Candidate(choice.sample((canonical(text) if as_json else None) or text))


def _calls(message: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Names and arguments of called tools, from `tool_calls` or the older `function_call`."""
    tool_calls, function_call = message.get("tool_calls"), message.get("function_call")
    if tool_calls is None and function_call is None:
        return []
    functions = [call.get("function") or call.get("custom") for call in tool_calls
                 if isinstance(call, dict)] if isinstance(tool_calls, list) else []
    functions = functions or [function_call]
    return [{"name": str(one.get("name")), "arguments": one.get("arguments", one.get("input"))}
            for one in functions if isinstance(one, dict)]


def _as_text(calls: list[dict[str, Any]]) -> str:
    parts = []
    for call in calls:
        given = call["arguments"]
        given = given if isinstance(given, str) else json.dumps(given)
        parts.append(f'{{"name":{json.dumps(call["name"])},'
                     f'"arguments":{canonical(given) or json.dumps(given)}}}')
    return canonical(parts[0] if len(parts) == 1 else f"[{','.join(parts)}]") or ""


def _majority(candidates: Sequence[Candidate], prefer_finished: bool) -> list[int]:
    """Indices of the candidates to compare; empty if none can win.

    Texts are not compared with tool calls, nor calls of different tools with each other: the most
    frequent kind is kept. Truncated candidates are dropped if others remain.
    """
    able = [index for index, one in enumerate(candidates) if one.can_win]
    finished = [index for index in able if not (prefer_finished and candidates[index].is_truncated)]
    indices = finished or able
    if indices:
        calls = _most_frequent([candidates[index].tools is not None for index in indices])
        indices = [index for index in indices if (candidates[index].tools is not None) == calls]
        tools = _most_frequent([candidates[index].tools for index in indices])
        indices = [index for index in indices if candidates[index].tools == tools]
    return indices


def _most_frequent(values: Sequence[Any]) -> Any:
    """The most frequent value; the first of those with equal counts."""
    return Counter(values).most_common(1)[0][0]


# rankings


class RankedSegment(NamedTuple):
    """A ranking, further output fields, and the usage of LLM judges."""

    ranking: Ranking
    details: Mapping[str, Any]  # for a vote: the answer and the vote counts
    judge_usage: Mapping[str, int]  # requests and tokens

    @property
    def fields(self) -> dict[str, Any]:
        """Output fields: details, confidence and uncertainty if measured, and usage of judges."""
        ranking, fields = self.ranking, dict(self.details)
        if (confidence := ranking.confidence) is not None:
            fields["confidence"] = shown(confidence.probability)
            if confidence.share is not None and confidence.interval is not None:
                fields |= {"share": shown(confidence.share),
                           "interval": [shown(end) for end in confidence.interval]}
            signals = ((name, getattr(confidence, name)) for name in ("margin", *FURTHER_SIGNALS))
            fields |= {name: value for name, found in signals
                       if found is not None and (value := shown(found)) is not None}
            if confidence.reason is not None:
                fields["no_confidence"] = confidence.reason
        if ranking.uncertainty is not None:
            fields["uncertainty"] = uncertainty_fields(ranking.uncertainty)
        if ranking.proposal is not None:
            fields["proposal"] = proposal_fields(ranking.proposal, ranking.abstained)
        if self.judge_usage:
            fields["judge_usage"] = dict(self.judge_usage)
        return fields


def ranked(strategy: Strategy, segments: Sequence[Segment]) -> list[RankedSegment]:
    """The rankings of segments, without the usage of judges."""
    batch = Batch(segments)
    rankings = strategy.rank(batch)
    return [RankedSegment(ranking, pool.details(ranking), {})
            for ranking, pool in zip(rankings, batch.pools(strategy.metric), strict=True)]


def shown(number: float) -> float | None:
    """A number for the output, to 12 significant digits; None if it is not finite."""
    return finite_or_none(float(f"{number:.12g}"))


# choices


@dataclass(frozen=True)
class RankingMethod:
    """How samples are ranked: settings of the operator, and the strategy that applies."""

    strategy: Strategy | None  # None: the metric has a model and runs in the server's process
    is_vote: bool
    prefer_finished: bool = True  # ignore samples truncated at the token limit if others remain
    weighting: Weighting = UNIFORM
    confidence: bool | None = None  # None: only where it needs no model
    measures: MeasureOptions = field(default_factory=MeasureOptions)
    calibration: Calibration | None = None  # fitted for this strategy; None: not calibrated
    schema: str | None = None  # JSON schema of a request, for answers that are composed

    @lazy
    def measured(self) -> Strategy:
        """The strategy, wrapped to measure confidence and uncertainty."""
        strategy = self.strategy
        assert strategy is not None
        if isinstance(strategy, Compose) and self.schema is not None:
            strategy = replace(strategy, schema=self.schema)
        confidence = not loads_model(strategy) if self.confidence is None else self.confidence
        return self.measures.wrap(strategy, confidence, calibration=self.calibration)

    @lazy
    def _signatures(self) -> dict[Weighting, str]:
        return {}

    @lazy
    def needs_segment(self) -> bool:
        return self.strategy is not None and any(
            metric.needs_segment for metric in metrics_of(self.strategy))

    @lazy
    def counts_votes(self) -> bool:
        """Whether it is a majority vote, which may stop early; only of the standard strategy, and
        without weights, which depend on all samples.
        """
        return (self.strategy is not None and self.strategy.name == "standard"
                and self.weighting == UNIFORM
                and not isinstance(self.strategy, WeightingStrategy)
                and self.find_answer is not None)

    @lazy
    def find_answer(self) -> Callable[[str], str | None] | None:
        """A function that extracts the answer of a text; None if it is no vote."""
        return None if self.strategy is None else answer_of(self.strategy.metric)

    def signature(self, weighting: Weighting) -> str:
        if weighting not in self._signatures:
            self._signatures[weighting] = signature(self.strategy, weights=weighting)
        return self._signatures[weighting]

    @lazy
    def without_model(self) -> RankingMethod:
        """The method for a worker process, which does not rank with models."""
        is_light = self.strategy is None or not loads_model(self.strategy)
        return self if is_light else replace(self, strategy=None)

    def is_quick(self, choices: Sequence[Choice], as_json: bool) -> bool:
        """Whether choosing among these takes a few milliseconds, whatever they contain.

        That is so for few and short texts without tool calls, by metrics that take linear time.
        Patterns of operators may take exponential time.
        """
        size = sum(len(choice.text or "") for choice in choices)
        return (len(choices) <= _FEW and self._time_per_character * size <= _SHORT
                and not as_json and not any(map(_has_other_fields, choices)))

    @lazy
    def _time_per_character(self) -> float:
        """Number of n-grams, or infinity for methods that do not take linear time."""
        metric = None if self.strategy is None else self.strategy.metric
        if type(self.strategy) is not Standard:
            return math.inf
        if type(metric) is ChrF:
            return metric.order + metric.word_order
        return 1 if type(metric) is ExactMatch and not metric.pattern else math.inf

    def __reduce__(self) -> tuple[Any, ...]:
        return _method, (self._content,)

    @lazy
    def _content(self) -> bytes:
        return pickle.dumps([getattr(self, f.name) for f in fields(self)],
                            pickle.HIGHEST_PROTOCOL)


@lru_cache(_MAX_METHODS)
def _method(content: bytes) -> RankingMethod:
    """A method; cached, because most requests use the same one."""
    return RankingMethod(*pickle.loads(content))


@dataclass(frozen=True)
class Question:
    """The properties of a request on which the comparison of its samples depends."""

    as_json: bool = False
    source: str | None = None
    is_list: bool = False  # the client requests more than one choice
    is_recorded: bool = False  # the samples are needed for a record
    schema: Any = None  # JSON schema of the answer; None: it may be anything


@dataclass(frozen=True)
class Chosen:
    """The result of choosing; candidates are given by index."""

    order: list[int]  # those that can win, best first
    compared: list[int]  # those that were ranked, in input order
    fields: Mapping[str, Any]  # for the `minrisk` object of the answer
    disagreement: str | None  # why the server abstains; None if it answers
    strategy: Strategy | None  # used instead of the requested one
    samples: list[Sample] = field(default_factory=list)  # of all candidates; only for a record
    text: str | None = None  # the answer, if it is a proposal and not a candidate


@dataclass(frozen=True)
class Comparison:
    """The samples of a request, ready to be ranked."""

    candidates: list[Candidate]  # all
    compared: list[int]
    segment: Segment
    weighting: Weighting  # uniform if the upstream returned no log-probabilities

    def chosen(self, found: RankedSegment, method: RankingMethod, question: Question,
               strategy: Strategy | None = None) -> Chosen:
        order = self._order(found.ranking, method, question)
        compared = set(order)
        order += [index for index, one in enumerate(self.candidates)
                  if one.can_win and index not in compared]
        ranking = found.ranking.abstain_below(method.measures.abstain)
        proposed = ranking.proposed
        utility = ranking.utility[ranking.best] if proposed is None else proposed.utility
        fields = {"distinct": len(self.segment.hypotheses),
                  "signature": method.signature(self.weighting),
                  "utility": shown(utility), **found._replace(ranking=ranking).fields}
        return Chosen(order, self.compared, fields,
                      _disagreement(found.ranking) if ranking.abstained else None,
                      strategy, [one.sample for one in self.candidates]
                      if question.is_recorded else [],
                      None if proposed is None else proposed.text)

    def _order(self, ranking: Ranking, method: RankingMethod, question: Question) -> list[int]:
        """One sample of each distinct text, best first; then the duplicates, in the same order.

        If a vote returns several choices, texts with equal answers count as duplicates, and texts
        without an answer come last.
        """
        texts = self.segment.hypotheses
        rank = {texts[row]: index for index, row in enumerate(ranking.order.tolist())}
        strategy = method.strategy
        find = (answer_of(strategy.metric) if question.is_list and strategy is not None
                and not loads_model(strategy) else None)
        answers: dict[str, Hashable] = {text: text if find is None else find(text)
                                        for text in texts}
        rounds: list[list[int]] = []  # the first sample of each answer, the second of each, ...
        unanswered, seen = [], dict.fromkeys(answers.values(), 0)
        for _, index in sorted((rank[self.candidates[index].sample.text], index)
                               for index in self.compared):
            answer = answers[self.candidates[index].sample.text]
            if answer is None:
                unanswered.append(index)
                continue
            if seen[answer] == len(rounds):
                rounds.append([])
            rounds[seen[answer]].append(index)
            seen[answer] += 1
        return [*chain.from_iterable(rounds), *unanswered]


def _disagreement(ranking: Ranking) -> str:
    if ranking.abstained:  # because of max_error
        assert ranking.confidence is not None
        return (f"The answer is too uncertain: it is right with a probability of "
                f"{ranking.confidence.calibrated:.0%}.")
    assert ranking.uncertainty is not None
    return ("The samples disagree: the largest cluster of similar ones has "
            f"{ranking.uncertainty.largest:.0%} of them.")


def choose(candidates: Sequence[Candidate], choices: Sequence[Choice], method: RankingMethod,
           question: Question) -> Chosen | Comparison | None:
    """Choose among candidates that were read before and further choices; None if none can win.

    Tool calls are always compared by their fields. Otherwise, a method without a strategy returns
    the comparison, to be ranked elsewhere.
    """
    candidates = [*candidates, *read_candidates(choices, question.as_json)]
    compared = _majority(candidates, method.prefer_finished)
    if not compared:
        return None
    other: Strategy | None = None
    calls_tools = candidates[compared[0]].tools is not None
    if calls_tools and (method.strategy is None or proposes(method.strategy)
                        or method.strategy.metric.name != _TOOL_METRIC.name):
        other = Standard(_TOOL_METRIC)
        method = replace(method, strategy=other, is_vote=True, calibration=None)
    elif isinstance(composed := method.strategy, Compose) and question.schema is not None:
        method = replace(method, schema=json.dumps(question.schema))
        if schema_problem(question.schema) is not None:  # a composed answer could not be checked
            other = Standard(composed.metric)
            method = replace(method, strategy=other, calibration=None)
    comparison = _comparison(candidates, compared, method, question.source)
    if method.strategy is None:
        return comparison
    [ranking] = ranked(method.measured, [comparison.segment])
    return comparison.chosen(ranking, method, question, other)


def _comparison(candidates: list[Candidate], compared: list[int], method: RankingMethod,
                source: str | None) -> Comparison:
    """What `minrisk decode` would read from a record of these samples.

    Weights are uniform if log-probabilities are missing. In a vote, samples that are not compared
    count as votes for no answer.
    """
    samples, among = [candidates[index].sample for index in compared], set(compared)
    others = [one.sample for index, one in enumerate(candidates)
              if method.is_vote and index not in among]
    weighting = method.weighting
    if weighting.column is not None:
        weighting = weighting.or_uniform(columns([*samples, *others]))
    return Comparison(candidates, compared, segment_among(samples, others, source, weighting),
                      weighting)


# votes


@dataclass(frozen=True)
class Votes:
    """The votes of some samples; `classes` has the first answer that equals each."""

    answers: list[Hashable] = field(default_factory=list)  # None: no answer
    candidates: list[Candidate] = field(default_factory=list)
    classes: dict[str, str] = field(default_factory=dict)


def votes(method: RankingMethod, choices: Sequence[Choice], as_json: bool,
          classes: dict[str, str]) -> Votes:
    """The votes of further samples of a request; `classes` is from the samples before."""
    find = method.find_answer
    assert find is not None
    if isinstance(find, AnswerClasses):
        find = find.among(classes)
    candidates = read_candidates(choices, as_json)
    return Votes([_vote(one, find, method.prefer_finished) for one in candidates], candidates,
                 classes)


def _vote(one: Candidate, find: Callable[[str], str | None], prefer_finished: bool) -> Hashable:
    if not one.can_win or (one.is_truncated and prefer_finished):
        return None
    return find(one.sample.text) if one.tools is None else (one.tools, one.sample.text)
