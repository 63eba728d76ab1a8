"""The page's data for a segment: its row in the list, and its details."""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from minrisk._core.arrays import Distinct, Floats, Ints, sums
from minrisk._core.errors import InputError, UnusableError
from minrisk._core.lazy import lazy
from minrisk._core.metric import reads_segment
from minrisk._core.pool import Pool
from minrisk._core.sampler import INCOMPLETE
from minrisk._core.segment import Ranking
from minrisk._core.strategy import segment_rng
from minrisk.evaluation.coverage import are_right
from minrisk.evaluation.metric_bias import Origin
from minrisk.io.records import Record
from minrisk.io.writers import proposal_fields
from minrisk.report.records import TRUNCATED, facts_of, request_of, shown_source
from minrisk.strategies.uncertain import Clusters, as_references, clusters
from minrisk.strategies.uncertain import uncertainty as uncertainty_of

CHOICE, SAMPLE, PROBABLE = "choice", "one sample", "most probable"
ANY = "any right"  # a sample that equals a gold answer, if there is one
REFERENCE = "reference"  # the field with one human reference or a list of them
_FURTHER_OUTPUTS = re.compile(r"beam[-_]?\d*|greedy")  # fields with outputs of other decoders
_DIGITS = 5  # significant digits of numbers on the page
MAX_CLUSTERS = 8  # clusters shown with their mass
_MARKED_CLUSTERS = 4  # clusters whose best text is always shown
_MAX_ANSWERS = 10  # answers shown with their votes
_MAX_REFERENCES = 8  # references shown if they are not the samples


@dataclass(frozen=True)
class View:
    """Settings of the page, and further outputs and references for the segments."""

    show: int = 16  # samples shown per segment
    matrix: int = 12  # limit of those that are compared pairwise
    against: Mapping[str, Sequence[str]] = field(default_factory=dict)  # outputs of other systems
    origins: Mapping[str, Origin | None] = field(default_factory=dict)  # how they were made
    references: Sequence[Sequence[str]] = ()  # human references, in lists with a line per segment
    field: str = REFERENCE  # of records, with further human references
    seed: int = 0

    def human(self, record: Record) -> list[str]:
        given = record.fields.get(self.field)
        own = [given] if isinstance(given, str) else given if isinstance(given, list) else []
        lines = [_line(lines, record.index, "the references") for lines in self.references]
        return [text for text in [*own, *lines] if isinstance(text, str)]

    def outputs(self, record: Record) -> dict[str, str]:
        """Outputs of other systems for the same source, by name."""
        fields = {name: text for name, text in record.fields.items()
                  if _FURTHER_OUTPUTS.fullmatch(name) and isinstance(text, str)}
        return fields | {name: _line(lines, record.index, name)
                         for name, lines in self.against.items()}

    def check(self, segments: int) -> None:
        """Raise InputError unless every file has one line per segment."""
        for name, lines in [*self.against.items(),
                            *(("the references", lines) for lines in self.references)]:
            if len(lines) != segments:
                raise InputError(f"{name} has {len(lines)} lines, but there are {segments} "
                                 "segments; expected one line per segment, in the same order")

    def segment(self, record: Record, ranking: Ranking, pool: Pool[Any],
                compares: bool = True,
                averages: bool = True) -> tuple[dict[str, Any], dict[str, Any]]:
        """The row of the list, and the details, as JSON values.

        Pairs are only scored if the strategy compares texts (`compares`). Utilities are mean scores
        if the strategy averages (`averages`), otherwise those of the ranking.
        """
        segment = _SegmentView(self, record, ranking, pool, compares, averages)
        row = segment.row()
        outputs = {name: text for name, (text, _) in row["systems"].items() if name != CHOICE}
        return row, segment.details() | {"human": row["human"], "outputs": outputs}


class _SegmentView:
    """Computes the data of one segment; hypotheses are deduplicated and numbered by rank."""

    def __init__(self, view: View, record: Record, ranking: Ranking, pool: Pool[Any],
                 compares: bool, averages: bool) -> None:
        self._view = view
        self._record = record
        self._ranking = ranking
        self._pool = pool
        self._compares, self._averages = compares, averages
        self._clusters: Clusters = clusters(ranking, pool, compares=compares)
        self._texts: list[str] = [pool.segment.hypotheses[row]
                                  for row in self._clusters.rows.tolist()]
        rows = pool.hyp_rows[self._clusters.rows]  # of distinct texts, or outcomes if compared
        self._counts: list[int] = sums(pool.hyp_rows, pool.segment.counts.astype(np.float64),
                                       len(pool.texts))[rows].astype(np.intp).tolist()
        self._facts = facts_of(record)
        self._logprobs = None if self._facts.logprobs is None else _largest(
            pool.hyp_rows, self._facts.logprobs, len(pool.texts))[rows].tolist()
        self._answers = self._extracted_answers(pool.texts[rows])

    def row(self) -> dict[str, Any]:
        ranking = self._ranking
        uncertainty = uncertainty_of(ranking, self._pool, self._clusters)
        confidence = ranking.confidence
        proposed = ranking.proposed
        return {
            "id": self._record.id,
            "source": shown_source(self._pool.segment.source, self._record.fields),
            "text": self._choice,
            "count": 0 if proposed else self._counts[0],
            "utility": number(proposed.utility if proposed else ranking.utility[ranking.best]),
            "margin": number(confidence.margin if confidence else self._margin()),
            "confidence": number(confidence.probability if confidence else math.nan),
            "entropy": number(uncertainty.entropy),
            "largest": number(uncertainty.largest),
            "mean": number(uncertainty.utility),
            "clusters": uncertainty.clusters,
            "distinct": len(self._texts),
            "samples": int(self._pool.segment.counts.sum())
            + sum(other.count for other in self._facts.others),
            "truncated": self._truncated(),
            "answer": self._answers[0] if self._answers else None,
            "unanswered": number(uncertainty.unanswered),
            "request": request_of(self._record.fields),
            "systems": self._systems(),
            "human": self._view.human(self._record),
        }

    def details(self) -> dict[str, Any]:
        shown = self._shown()
        compared = self._compared(shown)
        grouped = self._clusters
        details: dict[str, Any] = {
            "texts": [self._texts[i] for i in shown],
            "ranks": shown,
            "counts": [self._counts[i] for i in shown],
            "utilities": numbers(self._ranking.utility[grouped.rows[shown]]),
            "labels": grouped.labels[shown].tolist(),
            "clusters": self._masses(),
            "compared": compared,
            "matrix": self._matrix(grouped.rows[[shown[n] for n in compared]]) if compared else [],
        }
        if self._logprobs is not None:
            details["logprobs"] = [number(self._logprobs[i]) for i in shown]
        if self._answers is not None:
            details["answers"] = [self._answers[i] for i in shown]
            details["votes"] = self._votes()
        if self._pool.segment.models is not None:
            models = self._models(self._pool.segment.models)
            details["models"] = [dict(models[self._texts[i]]) for i in shown]
        reasons = self._finish_reasons()
        if any(reasons):
            details["finish"] = [reasons[i] for i in shown]
        if self._ranking.proposal is not None:
            details["proposal"] = _rounded(proposal_fields(self._ranking.proposal))
        if self._facts.others:
            details["others"] = [[other.text, other.count, other.finish_reason]
                                 for other in self._facts.others[:self._view.show]]
        return details | self._support(shown)

    def _models(self, models: Sequence[str | None]) -> dict[str, Counter[str]]:
        """For each text, how many samples of each model have it."""
        found: dict[str, Counter[str]] = defaultdict(Counter)
        for text, model in zip(self._pool.segment.references, models, strict=True):
            if model is not None:
                found[text][model] += 1
        return found

    def _extracted_answers(self, features: Any) -> list[str | None] | None:
        """The answer of each distinct text, in a vote."""
        metric = self._pool.metric
        return metric.answers(features) if metric.is_vote else None

    def _votes(self) -> list[list[Any]]:
        """The most frequent answers, each with its share of the votes and its number of samples."""
        assert self._answers is not None
        labels = self._clusters.labels
        known = np.flatnonzero(labels >= 0)
        if not known.size:
            return []
        first = known[Distinct.from_labels(labels[known], labels.size).first]
        columns, mass = self._references
        # tool calls are compared field by field; a score of 1 means equal calls, thus a vote
        shares = (self._pool.keep(self._clusters.rows[first]).scores(columns) == 1) @ mass
        counts = np.bincount(labels[known], np.array(self._counts)[known])
        return [[self._answers[first[n]], number(shares[n]), int(counts[n])]
                for n in np.argsort(-shares, kind="stable")[:_MAX_ANSWERS].tolist()]

    def _truncated(self) -> int:
        """The number of truncated samples, including those that are not candidates."""
        own = zip(self._facts.finish_reasons or (), self._pool.segment.counts.tolist(),
                  strict=False)
        others = ((other.finish_reason, other.count) for other in self._facts.others)
        return sum(count for reason, count in [*own, *others] if reason == TRUNCATED)

    def _finish_reasons(self) -> list[str | None]:
        """For each distinct text, why a sample with it is incomplete; None if none is."""
        by_row = {row: reason for row, reason in zip(
            self._pool.hyp_rows.tolist(), self._facts.finish_reasons or (), strict=False)
             if reason in INCOMPLETE}
        rows = self._pool.hyp_rows[self._clusters.rows].tolist()
        return [by_row.get(row) for row in rows]

    def _shown(self) -> list[int]:
        """Ranks of the shown hypotheses: the marked ones, and then the best."""
        room = min(self._view.show, len(self._texts))
        marked = self._marked()[:room - 1]
        best = [i for i in range(len(self._texts)) if i not in marked][:room - len(marked)]
        return sorted([*best, *marked])

    def _marked(self) -> list[int]:
        """Ranks of the worst, the most probable, and the best of the largest clusters."""
        labels = self._clusters.labels.tolist()
        firsts = [labels.index(n) for n, *_ in self._masses()[:_MARKED_CLUSTERS]]
        ranks = [len(self._texts) - 1, self._most_probable(), *firsts]
        return [i for i in dict.fromkeys(ranks) if i]  # drops None and 0, the choice

    def _compared(self, shown: list[int]) -> list[int]:
        """Places among the shown of those to compare pairwise: the choice, the marked, the best.

        Empty if texts are not compared.
        """
        if not self._compares:
            return []
        room = min(self._view.matrix, len(shown))
        marked = [shown.index(i) for i in self._marked() if i in shown][:room - 1]
        best = [n for n in range(len(shown)) if n not in marked][:room - len(marked)]
        return sorted([*best, *marked])

    def _most_probable(self) -> int | None:
        return None if self._logprobs is None else int(np.argmax(self._logprobs))

    def _masses(self) -> list[list[Any]]:
        """The largest clusters: number, mass, and count of distinct texts of each."""
        mass, labels = self._clusters.mass, self._clusters.labels
        sizes = np.bincount(labels[labels >= 0], minlength=mass.size)
        largest = np.argsort(-mass, kind="stable")[:MAX_CLUSTERS]
        return [[int(n), number(mass[n]), int(sizes[n])] for n in largest]

    def _matrix(self, rows: Ints) -> list[float | None]:
        """(M * M,) scores of hypotheses against hypotheses, row by row."""
        pool = as_references(self._pool.keep(rows))
        assert pool.segment.self_columns is not None
        return numbers(pool.scores(pool.segment.self_columns).ravel())

    def _support(self, shown: list[int]) -> dict[str, Any]:
        """Which references or samples support the choice, if texts are compared."""
        if not self._compares:
            return {}
        segment, (columns, mass) = self._pool.segment, self._references
        scores = self._scores[0]
        if segment.self_columns is None:
            best = np.argsort(-mass * scores, kind="stable")[:_MAX_REFERENCES]
            return {"references": [[segment.references[columns[i]], number(mass[i]),
                                    number(scores[i])] for i in best]}
        by_text = dict(zip(self._pool.ref_rows[columns].tolist(), range(columns.size), strict=True))
        rows = self._pool.hyp_rows[self._clusters.rows]
        place = np.array([by_text.get(row, -1) for row in rows.tolist()])
        known = place >= 0
        grouped = known & (self._clusters.labels >= 0)
        part = sums(self._clusters.labels[grouped], (mass * scores)[place[grouped]],
                    self._clusters.mass.size)  # contributions to the choice's utility, by cluster
        return {"support": [number(scores[place[i]]) if known[i] else None for i in shown],
                "parts": [number(part[n]) for n, *_ in self._masses()]}

    @property
    def _choice(self) -> str:
        """The answer: the best sample, or a proposal that is kept."""
        proposed = self._ranking.proposed
        return self._texts[0] if proposed is None else str(proposed.text)

    @lazy
    def _outputs(self) -> dict[str, str]:
        """The choice, and the outputs that it is compared with."""
        texts = {CHOICE: self._choice, SAMPLE: self._at_random()}
        probable = self._most_probable()
        if probable is not None:
            texts[PROBABLE] = self._texts[probable]
        golds = self._view.human(self._record)
        if golds and self._pool.metric.is_vote and self._judges_texts:
            right = are_right(self._pool.metric, self._texts, golds)
            texts[ANY] = self._texts[int(np.argmax(right))]  # the choice if none is right
        return texts | self._view.outputs(self._record)

    @lazy
    def _references(self) -> tuple[Ints, Floats]:
        """The first index of each distinct reference, and its mass."""
        return self._pool.distinct_references()

    @lazy
    def _scores(self) -> Floats:
        """(outputs, references) exact scores, including pairs that the strategy skipped.

        NaN for outputs that are not hypotheses, if the metric needs more than their texts.
        """
        pool, metric, texts = self._pool, self._pool.metric, [*self._outputs.values()]
        refs = pool.references(pool.ref_rows[self._references[0]])
        rows = dict(zip(pool.segment.hypotheses, pool.hyp_rows.tolist(), strict=True))
        scores = np.full((len(texts), len(refs)), np.nan)
        known = [i for i, text in enumerate(texts) if text in rows]
        features = pool.texts[np.array([rows[texts[i]] for i in known], np.intp)]
        scores[known] = metric.scores(features, refs, pool.source)
        others = [i for i, text in enumerate(texts) if text not in rows]
        if others and self._judges_texts:
            features = metric.features([texts[i] for i in others])
            scores[others] = metric.scores(features, refs, pool.source)
        return scores

    @property
    def _judges_texts(self) -> bool:
        """Whether the metric needs nothing of a hypothesis but its text."""
        return not (reads_segment(self._pool.metric) or self._pool.metric.compares_outcomes)

    def _qualities(self) -> Floats:
        """(outputs,) quality: the ranking's for hypotheses, the metric's for other outputs.

        NaN for other outputs if the metric needs references or more than texts.
        """
        metric, texts = self._pool.metric, [*self._outputs.values()]
        known = dict(zip(self._pool.segment.hypotheses, self._ranking.utility, strict=True))
        others = [text for text in texts if not math.isfinite(known.get(text, math.nan))]
        if others and metric.ignores_references and self._judges_texts:
            qualities = metric.quality(metric.features(others), self._pool.source)
            known |= zip(others, qualities, strict=True)
        return np.array([known.get(text, math.nan) for text in texts])

    def _margin(self) -> float:
        """The lead in utility over the next distinct text."""
        best = self._ranking.utility[self._clusters.rows[:2]]
        return float(best[0] - best[1]) if best.size > 1 else math.nan

    def _systems(self) -> dict[str, list[Any]]:
        """Each output with its expected utility, or its quality."""
        utilities = numbers(self._scores @ self._references[1] if self._averages
                            else self._qualities())
        return {name: [text, utility] for (name, text), utility
                in zip(self._outputs.items(), utilities, strict=True)}

    def _at_random(self) -> str:
        counts = np.array(self._counts, np.float64)
        rng = segment_rng(self._view.seed, self._pool.segment)
        chosen = int(rng.choice(counts.size, p=counts / counts.sum()))
        return self._texts[chosen]


def failed_row(record: Record) -> dict[str, Any]:
    return {"id": record.id, "error": record.message}


def number(value: float) -> float | None:
    """The value, rounded; None for NaN and infinity, which JSON cannot express."""
    if not math.isfinite(value):
        return None
    rounded = float(f"{value:.{_DIGITS}g}")
    return int(rounded) if rounded == int(rounded) else rounded


def _rounded(fields: dict[str, Any]) -> dict[str, Any]:
    """What is known of a proposal, with rounded numbers."""
    shares = {path: number(share) for path, share in fields.get("shares", {}).items()}
    return fields | {name: number(fields[name]) for name in ("utility", "best_utility")
                     if fields[name] is not None} | ({"shares": shares} if shares else {})


def numbers(values: Floats) -> list[float | None]:
    return [number(value) for value in values.tolist()]


def _largest(labels: Ints, values: Sequence[float], size: int) -> Floats:
    """(size,) the largest of the values with each label."""
    largest = np.full(size, -math.inf)
    np.maximum.at(largest, labels, values)
    return largest


def _line(lines: Sequence[str], index: int, name: str) -> str:
    if index >= len(lines):
        raise UnusableError(f"{name} has {len(lines)} lines, but there are more segments; expected "
                            "one line per segment, in the same order")
    return lines[index]
