"""The choice among the samples of a request: what of them is compared, their votes and ranking.

It is computed in worker processes, but for rankings by a model.
"""

from __future__ import annotations

import json
import pickle
from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, NamedTuple

from minrisk._core.arrays import finite_or_none
from minrisk._core.batch import Batch
from minrisk._core.calibration import Calibration
from minrisk._core.lazy import lazy
from minrisk._core.metric import AnyMetric
from minrisk._core.sampler import Sample, columns
from minrisk._core.segment import Ranking, Segment
from minrisk._core.signature import signature
from minrisk._core.strategy import Strategy, loads_model
from minrisk._core.vote import AnswerClasses, answer_of
from minrisk.io.records import UNIFORM, Weighting, segment_among
from minrisk.io.writers import uncertainty_fields
from minrisk.metrics.votes.json_match import JsonMatch, canonical
from minrisk.openai.responses import Choice
from minrisk.strategies.groups import Standard
from minrisk.tasks.decode import MeasureOptions

_END_OF_REASONING = "</think>"  # some servers leave it in the content
_FILTERED = "content_filter"
_COMPARED_FIELDS = ("tool_calls", "function_call", "refusal")  # of a message, beside its content
_MAX_METHODS = 64  # that a worker process remembers


# what is compared


@dataclass(frozen=True)
class Candidate:
    """A choice of the upstream as it is compared: without reasoning, JSON by its values, tool calls
    by their names.
    """

    sample: Sample  # whose text stands for the choice
    tools: tuple[str, ...] | None = None  # the names of the tools that it calls, if it calls any
    can_win: bool = True  # neither filtered nor empty

    @property
    def is_truncated(self) -> bool:
        return self.sample.finish_reason == "length"


class _ToolMatch(JsonMatch):
    """Compares calls of the same tools field by field, and counts equal calls as votes."""

    is_vote = True


_TOOL_METRIC = _ToolMatch(by="field")


def comparable(choices: Sequence[Choice]) -> list[Choice]:
    """What of choices is compared, to be sent to another process."""
    return [Choice(_compared_fields(choice.raw), choice.text, choice.finish_reason,
                   choice.reasoning, choice.logprob, choice.length) for choice in choices]


def _compared_fields(raw: Mapping[str, Any]) -> dict[str, Any]:
    message = raw.get("message")
    if not isinstance(message, dict):
        return {}
    return {"message": {name: message[name] for name in _COMPARED_FIELDS if name in message}}


def read_candidates(choices: Sequence[Choice], as_json: bool) -> list[Candidate]:
    """Every choice as it is compared."""
    return [_candidate(choice, as_json) for choice in choices]


def _candidate(choice: Choice, as_json: bool) -> Candidate:
    message = choice.raw.get("message")
    message = message if isinstance(message, dict) else {}
    calls = _calls(message)
    if calls and choice.finish_reason != _FILTERED:
        return Candidate(choice.sample(_as_text(calls)), tuple(call["name"] for call in calls))
    text = choice.text if choice.text and choice.text.strip() else message.get("refusal")
    if choice.finish_reason == _FILTERED or not isinstance(text, str) or not text.strip():
        return Candidate(choice.sample(choice.text or ""), can_win=False)
    text = text.rpartition(_END_OF_REASONING)[2].strip() or text
    return Candidate(choice.sample((canonical(text) if as_json else None) or text))


def _calls(message: dict[str, Any]) -> list[dict[str, Any]]:
    """Names and arguments of the called tools, in either form of the protocol."""
    found = message.get("tool_calls")
    functions = [call.get("function") or call.get("custom") for call in found
                 if isinstance(call, dict)] if isinstance(found, list) else []
    functions = functions or [message.get("function_call")]
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
    """The places of the candidates to compare: texts, or calls of one sequence of tools, whatever
    is more frequent, without truncated ones where there are others; none if none can win.
    """
    able = [place for place, one in enumerate(candidates) if one.can_win]
    finished = [place for place in able if not (prefer_finished and candidates[place].is_truncated)]
    found = finished or able
    if found:
        calls = _most_frequent([candidates[place].tools is not None for place in found])
        found = [place for place in found if (candidates[place].tools is not None) == calls]
        tools = _most_frequent([candidates[place].tools for place in found])
        found = [place for place in found if candidates[place].tools == tools]
    return found


def _most_frequent(values: Sequence[Any]) -> Any:
    """The most frequent value; the first of several."""
    return Counter(values).most_common(1)[0][0]


# rankings


class RankedSegment(NamedTuple):
    """A ranking, what else the output says of it, and the usage of judges."""

    ranking: Ranking
    details: Mapping[str, Any]  # of a vote, the answer and the votes
    judge_usage: Mapping[str, int]  # requests and tokens

    @property
    def fields(self) -> dict[str, Any]:
        """The answer and its votes, if the metric votes; confidence and uncertainty, if measured;
        the usage of judges, if there were some.
        """
        ranking, found = self.ranking, dict(self.details)
        if (confidence := ranking.confidence) is not None:
            found["confidence"] = shown(confidence.probability)
            if confidence.share is not None and confidence.interval is not None:
                found |= {"share": shown(confidence.share),
                          "interval": [shown(end) for end in confidence.interval]}
            if confidence.calibrated is not None:
                found["calibrated"] = shown(confidence.calibrated)
            if confidence.reason is not None:
                found["no_confidence"] = confidence.reason
        if ranking.uncertainty is not None:
            found["uncertainty"] = uncertainty_fields(ranking.uncertainty)
        if self.judge_usage:
            found["judge_usage"] = dict(self.judge_usage)
        return found


def ranked(strategy: Strategy, segments: Sequence[Segment]) -> list[RankedSegment]:
    """The rankings of segments, without the usage of judges."""
    batch = Batch(segments)
    rankings = strategy.rank(batch)
    return [RankedSegment(ranking, pool.details(ranking), {})
            for ranking, pool in zip(rankings, batch.pools(strategy.metric), strict=True)]


def shown(number: float) -> float | None:
    """A number without the digits that are rounding; None where it is none."""
    return finite_or_none(float(f"{number:.12g}"))


# choices


@dataclass(frozen=True)
class RankingMethod:
    """How samples are ranked, by the operator or a client."""

    strategy: Strategy | None  # None: a model ranks them, elsewhere
    is_vote: bool
    prefer_finished: bool = True  # over samples truncated at the limit of tokens
    weighting: Weighting = UNIFORM
    confidence: bool | None = None  # None: only where it needs no model
    measures: MeasureOptions = field(default_factory=MeasureOptions)
    calibration: Calibration | None = None  # that of the strategy, if there is one

    @lazy
    def measured(self) -> Strategy:
        """The strategy, with what is measured of its choices."""
        assert self.strategy is not None
        confidence = (not loads_model(self.strategy) if self.confidence is None
                      else self.confidence)
        return self.measures.wrap(self.strategy, confidence, calibration=self.calibration)

    @lazy
    def _signatures(self) -> dict[Weighting, str]:
        return {}

    def signature(self, weighting: Weighting) -> str:
        if weighting not in self._signatures:
            self._signatures[weighting] = signature(self.strategy, weights=weighting)
        return self._signatures[weighting]


@dataclass(frozen=True)
class Question:
    """What a request says of the comparison of its samples."""

    as_json: bool = False
    source: str | None = None
    is_list: bool = False  # the client wants more than one of them
    is_recorded: bool = False


@dataclass(frozen=True)
class Chosen:
    """The choices of a request by their places, best first, and what is said of the choice."""

    order: list[int]  # without those that cannot win
    compared: list[int]  # in input order
    fields: Mapping[str, Any]  # of the answer
    disagreement: str | None  # the reason why there is no answer, if the operator wants one
    strategy: Strategy | None  # in the place of the one that was requested
    samples: list[Sample] = field(default_factory=list)  # all, as they are compared; for a record


@dataclass(frozen=True)
class Comparison:
    """The samples of a request, which are to be ranked."""

    candidates: list[Candidate]  # of all choices
    compared: list[int]
    segment: Segment
    weighting: Weighting  # by counts where the upstream gave no log-probabilities

    def chosen(self, found: RankedSegment, method: RankingMethod, question: Question,
               strategy: Strategy | None = None) -> Chosen:
        order = self._order(found.ranking, method, question)
        compared = set(order)
        order += [place for place, one in enumerate(self.candidates)
                  if one.can_win and place not in compared]
        ranking = found.ranking
        fields = {"distinct": len(self.segment.hypotheses),
                  "signature": method.signature(self.weighting),
                  "utility": shown(ranking.utility[ranking.best]), **found.fields}
        abstains = ranking.abstain_below(method.measures.abstain).abstained
        return Chosen(order, self.compared, fields, _disagreement(ranking) if abstains else None,
                      strategy, [one.sample for one in self.candidates]
                      if question.is_recorded else [])

    def _order(self, ranking: Ranking, method: RankingMethod, question: Question) -> list[int]:
        """One sample of each distinct text, best first; then the copies, in the same order.

        In a list of a vote, texts with equal answers are copies, and those without one are last.
        """
        texts = self.segment.hypotheses
        rank = {texts[row]: place for place, row in enumerate(ranking.order.tolist())}
        strategy = method.strategy
        find = (answer_of(strategy.metric) if question.is_list and strategy is not None
                and not loads_model(strategy) else None)
        answers: dict[str, Hashable] = {} if find is None else {text: find(text) for text in texts}
        seen: Counter[Hashable] = Counter()
        copies = []
        for place in sorted(self.compared, key=lambda own: rank[self._text(own)]):
            answer = answers.get(self._text(place), self._text(place))
            copies.append((len(self.compared) if answer is None else seen[answer], place))
            seen[answer] += 1
        return [place for _, place in sorted(copies, key=lambda pair: pair[0])]

    def _text(self, place: int) -> str:
        return self.candidates[place].sample.text


def _disagreement(ranking: Ranking) -> str:
    if ranking.abstained:  # by a calibration
        assert ranking.confidence is not None
        return (f"The answer is too uncertain: it is right with a probability of "
                f"{ranking.confidence.calibrated:.0%}.")
    assert ranking.uncertainty is not None
    return ("The samples disagree: the largest cluster of similar ones has "
            f"{ranking.uncertainty.largest:.0%} of them.")


@lru_cache(_MAX_METHODS)
def _unpickled(content: bytes) -> RankingMethod:
    """A method, which is the same for most requests."""
    method: RankingMethod = pickle.loads(content)
    return method


def choose(candidates: Sequence[Candidate], choices: Sequence[Choice], pickled: bytes,
           question: Question) -> Chosen | Comparison | None:
    """The choice among candidates that were read already, and further choices; None if none can
    win. Without a strategy, they are not ranked, unless they call tools, which are always compared
    in the same way.
    """
    candidates = [*candidates, *read_candidates(choices, question.as_json)]
    method = _unpickled(pickled)
    compared = _majority(candidates, method.prefer_finished)
    if not compared:
        return None
    other: Strategy | None = None
    calls_tools = candidates[compared[0]].tools is not None
    if calls_tools and (method.strategy is None
                        or method.strategy.metric.name != _TOOL_METRIC.name):
        other = Standard(_TOOL_METRIC)
        method = replace(method, strategy=other, is_vote=True, calibration=None)
    found = _comparison(candidates, compared, method, question.source)
    if method.strategy is None:
        return found
    [ranking] = ranked(method.measured, [found.segment])
    return found.chosen(ranking, method, question, other)


def _comparison(candidates: list[Candidate], compared: list[int], method: RankingMethod,
                source: str | None) -> Comparison:
    """As `minrisk decode` would read it from a record of these samples: they weigh by their counts
    where the upstream gave no log-probabilities.

    Of a vote, the samples that are not compared vote for none.
    """
    samples, among = [candidates[place].sample for place in compared], set(compared)
    others = [Sample("", logprob=one.sample.logprob, length=one.sample.length)
              for place, one in enumerate(candidates)
              if method.is_vote and place not in among]
    weighting = method.weighting
    if weighting.by_logprobs:
        weighting = weighting.or_uniform(columns([*samples, *others]))
    return Comparison(candidates, compared, segment_among(samples, others, source, weighting),
                      weighting)


# votes


@dataclass(frozen=True)
class Votes:
    """The answers of some samples of a request, the samples, and the class of each text so far if
    answers have no canonical form.
    """

    answers: list[Hashable] = field(default_factory=list)  # None where there is none
    candidates: list[Candidate] = field(default_factory=list)
    classes: dict[str, str | None] = field(default_factory=dict)


def votes(metric: AnyMetric, choices: Sequence[Choice], as_json: bool, prefer_finished: bool,
          classes: dict[str, str | None]) -> Votes:
    """The votes of further samples of a request."""
    find = answer_of(metric)
    assert find is not None
    if isinstance(find, AnswerClasses):
        find.classes = classes
    candidates = read_candidates(choices, as_json)
    return Votes([_vote(one, find, prefer_finished) for one in candidates], candidates, classes)


def _vote(one: Candidate, find: Callable[[str], str | None], prefer_finished: bool) -> Hashable:
    if not one.can_win or (one.is_truncated and prefer_finished):
        return None
    return find(one.sample.text) if one.tools is None else (one.tools, one.sample.text)
