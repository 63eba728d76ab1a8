"""What is computed of the samples of a request in worker processes: candidates, votes, the choice.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from minrisk._core.batch import Batch
from minrisk._core.metric import AnyMetric
from minrisk._core.sampler import Sample, columns
from minrisk._core.segment import Ranking, Segment
from minrisk._core.strategy import Strategy, loads_model
from minrisk._core.vote import AnswerClasses, answer_of
from minrisk.io.records import UNIFORM, Weighting, segment_among
from minrisk.openai.responses import Choice
from minrisk.server.candidates import TOOL_METRIC, Candidate, pool_of, read_candidates
from minrisk.strategies.groups import Standard
from minrisk.tasks.decode import MeasureOptions

_COMPARED_FIELDS = ("tool_calls", "function_call", "refusal")  # of a message, beside its content


@dataclass(frozen=True)
class ComparisonOptions:
    """How the samples of a request are compared."""

    as_json: bool = False
    prefer_finished: bool = True  # over candidates truncated at the limit of tokens
    source: str | None = None
    is_list: bool = False  # the client wants more than one of them
    weighting: Weighting = UNIFORM
    confidence: bool | None = None  # None: only where it needs no model
    measures: MeasureOptions = field(default_factory=MeasureOptions)

    def measured(self, strategy: Strategy) -> Strategy:
        """The strategy, with what is measured of its choices."""
        confidence = not loads_model(strategy) if self.confidence is None else self.confidence
        return self.measures.wrap(strategy, confidence)


class RankedSegment(NamedTuple):
    """A ranking, what else the output says of it, and the usage of judges."""

    ranking: Ranking
    details: Mapping[str, Any]  # of a vote, the answer and the votes
    judge_usage: Mapping[str, int]  # requests and tokens


def ranked(strategy: Strategy, segments: Sequence[Segment]) -> list[RankedSegment]:
    """The rankings of segments, without the usage of judges."""
    batch = Batch(segments)
    rankings = strategy.rank(batch)
    return [RankedSegment(ranking, pool.details(ranking), {})
            for ranking, pool in zip(rankings, batch.pools(strategy.metric), strict=True)]


@dataclass(frozen=True)
class Chosen:
    """The candidates of a request; best first once they are ranked, which a model does elsewhere.
    """

    compared: list[Candidate]  # in input order
    others: list[Candidate]
    segment: Segment
    weighting: Weighting  # by counts where the upstream gave no log-probabilities
    strategy: Strategy | None = None  # that of the request unless given
    ranked: RankedSegment | None = None
    answers: Mapping[str, Hashable] = field(default_factory=dict)  # of texts, for a list of a vote

    def in_order(self, ranking: Ranking) -> list[Candidate]:
        """One candidate of each distinct text, best first; then the copies, in the same order.

        In a list of a vote, texts with equal answers are copies, and those without one are last.
        """
        rank = {self.segment.hypotheses[row]: place
                for place, row in enumerate(ranking.order.tolist())}
        seen: Counter[Hashable] = Counter()
        copies = []
        for candidate in sorted(self.compared, key=lambda candidate: rank[candidate.text]):
            answer = self.answers.get(candidate.text, candidate.text)
            copies.append((len(self.compared) if answer is None else seen[answer], candidate))
            seen[answer] += 1
        found = sorted(copies, key=lambda pair: pair[0])
        return [candidate for _, candidate in found] + self.others

    def of(self, choices: Sequence[Choice]) -> Chosen:
        """The same, with these choices in the place of what was compared of them."""
        def given(candidate: Candidate) -> Candidate:
            return replace(candidate, choice=choices[candidate.choice.raw["index"]])

        return replace(self, compared=list(map(given, self.compared)),
                       others=list(map(given, self.others)))


def comparable(choices: Sequence[Choice]) -> list[Choice]:
    """What of choices is compared, and their places, to be sent to another process."""
    return [replace(choice, raw=_compared_fields(choice.raw) | {"index": place})
            for place, choice in enumerate(choices)]


def _compared_fields(raw: Mapping[str, Any]) -> dict[str, Any]:
    message = raw.get("message")
    if not isinstance(message, dict):
        return {}
    return {"message": {name: message[name] for name in _COMPARED_FIELDS if name in message}}


def choose(choices: Sequence[Choice], strategy: Strategy | None, comparison: ComparisonOptions,
           is_vote: bool) -> Chosen | None:
    """The ranked candidates; None if there are none. Without a strategy, they are not ranked,
    unless they call tools, which are always compared in the same way.
    """
    candidates = read_candidates(choices, comparison.as_json)
    if not candidates:
        return None
    pool = pool_of(candidates, comparison.prefer_finished)
    if pool.calls_tools and (strategy is None or strategy.metric.name != TOOL_METRIC.name):
        strategy, is_vote = Standard(TOOL_METRIC), True
    segment, weighting = _segment(pool.compared, choices if is_vote else (), comparison)
    found = Chosen(pool.compared, pool.others, segment, weighting, strategy)
    if strategy is None:
        return found
    [ranking] = ranked(comparison.measured(strategy), [segment])
    find = answer_of(strategy.metric) if comparison.is_list else None
    answers = {} if find is None else {text: find(text) for text in segment.hypotheses}
    return replace(found, ranked=ranking, answers=answers)


def _segment(compared: Sequence[Candidate], voting: Sequence[Choice],
             comparison: ComparisonOptions) -> tuple[Segment, Weighting]:
    """As `minrisk decode` would read it from a record of these samples, and how they weigh: by
    their counts where the upstream gave no log-probabilities.

    Of the voting choices, those that are not compared vote for none.
    """
    known = {id(candidate.choice) for candidate in compared}
    samples = [candidate.sample for candidate in compared]
    others = [Sample("", logprob=choice.logprob, length=choice.length)
              for choice in voting if id(choice) not in known]
    weighting = comparison.weighting.or_uniform(columns([*samples, *others]))
    return segment_among(samples, others, comparison.source, weighting), weighting


@dataclass(frozen=True)
class Votes:
    """The answers of samples that were counted, and the class of each text if answers have no
    canonical form.
    """

    answers: list[Hashable] = field(default_factory=list)
    classes: dict[str, str | None] = field(default_factory=dict)


def votes(metric: AnyMetric, choices: Sequence[Choice], comparison: ComparisonOptions,
          classes: dict[str, str | None]) -> Votes:
    """The answers of further samples of a request; None where there is none."""
    find = answer_of(metric)
    assert find is not None
    if isinstance(find, AnswerClasses):
        find.classes = classes
    found: list[Hashable] = []
    for candidate in read_candidates(choices, comparison.as_json):
        if candidate.is_truncated and comparison.prefer_finished:
            found.append(None)
        elif candidate.tools is not None:
            found.append((candidate.tools, candidate.text))
        else:
            found.append(find(candidate.text))
    return Votes(found, classes)
