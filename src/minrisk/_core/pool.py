"""A segment bound to a metric: strategies choose groups or rows.

The identity behind every strategy is implemented here:

    U(h) = sum over groups g of  mass(g) * score(h, aggregate(g))

With a group for each reference, or for each of some, that is `Pool.utility`; with others,
`Pool.utility_of_averages`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Generic

import numpy as np

from minrisk._core.arrays import Distinct, Floats, Ints, Points, finite_rows, numbered, sums
from minrisk._core.errors import InputError
from minrisk._core.groups import Groups, mass_of
from minrisk._core.lazy import lazy
from minrisk._core.metric import F, Metric, PartialStatistics, Surrogate
from minrisk._core.segment import TIE, Proposal, Ranking, Segment, shortened

_MAX_SCORES_PER_BLOCK = 1 << 22  # scores in memory when a score matrix is processed in blocks
_FEW_SCORES = 1 << 12  # of all pairs of a segment, which are cached because confidence reads them
_MAX_REPORTED_ANSWERS = 10  # answers in the `votes` of an output


class Tally:
    """A counter of evaluated pairs."""

    pairs: int = 0


class ScoreMatrix:
    """A cache of all scores of a segment, which `Pool.keep_scores` fills."""

    def __init__(self) -> None:
        self._matrix: Floats | None = None  # (H, R), H and R counting distinct texts
        self._sides: tuple[Ints, Ints] | None = None  # the rows of `Pool.texts` that it is of
        # (texts,) the place of each of these rows in the matrix, once it is asked for
        self._places: tuple[Ints, Ints] | None = None
        self._texts = 0

    def fill(self, hyps: Ints, refs: Ints, matrix: Floats, texts: int) -> None:
        """Cache the scores of these rows of `Pool.texts`, which has so many."""
        self._matrix, self._sides, self._places, self._texts = matrix, (hyps, refs), None, texts

    def at(self, hyps: Ints, refs: Ints) -> Floats | None:
        """The scores of these rows of `Pool.texts`; None if one of them is not cached."""
        if self._matrix is None or self._sides is None:
            return None
        if self._places is None:
            ours, theirs = self._sides
            self._places = _places(ours, self._texts), _places(theirs, self._texts)
        rows, columns = self._places[0][hyps], self._places[1][refs]
        if rows.min(initial=0) < 0 or columns.min(initial=0) < 0:
            return None
        return self._matrix[rows[:, None], columns]


def _places(rows: Ints, count: int) -> Ints:
    """(count,) the place of each row among some; -1 if it is none of them."""
    places = np.full(count, -1)
    places[rows] = np.arange(rows.size)
    return places


@dataclass(frozen=True, eq=False)
class Pool(Generic[F]):
    """A segment with its features by one metric; equal texts share a row and are scored once.

    Pools are made by `bind`. Strategies read utilities and scores from them.

    Args:
        segment: the segment.
        metric: the metric.
        texts: features of the distinct texts.
        hyp_rows: (H,) row of each hypothesis in `texts`.
        ref_rows: (R,) row of each reference in `texts`.
        source: features of the source, if the metric needs it.
        tally: counter of the evaluated pairs.
        matrix: cache of all scores, which `keep_scores` fills.

    >>> import minrisk
    >>> (pool,) = minrisk.bind(minrisk.ChrF(), [minrisk.Segment(["a", "b", "a"])])
    >>> pool.utility().round(1).tolist(), pool.tally.pairs
    ([66.7, 33.3, 66.7], 4)
    """

    segment: Segment
    metric: Metric[F]
    texts: F
    hyp_rows: Ints
    ref_rows: Ints
    source: F | None
    tally: Tally = field(default_factory=Tally)
    matrix: ScoreMatrix = field(default_factory=ScoreMatrix)

    def ranking(self, utility: Floats) -> Ranking:
        """The ranking by these utilities, with the number of pairs evaluated so far."""
        return Ranking.from_utility(utility, self.tally.pairs)

    def with_proposal(self, ranking: Ranking, text: str | None, reason: str | None = None,
                      shares: Mapping[str, float] | None = None,
                      judged: str | None = None) -> Ranking:
        """The ranking with an answer that need not be a hypothesis (`Proposal`).

        It is kept if its utility is at least that of the best hypothesis.

        Args:
            ranking: the ranking of the hypotheses by their utilities in this pool.
            text: the proposed answer; None if there is none.
            reason: why it cannot be the answer, if that is known already.
            shares: the share of the samples that agree with each field of it.
            judged: the answer whose utility decides; default: `text`.
        """
        best = float(ranking.utility[ranking.best])
        if text is None:
            reason, utility = reason or "there is no proposal", np.nan
        else:
            utility = self.utility_of(text)
        if reason is None and text == self.segment.hypotheses[ranking.best]:
            reason = "the proposal is the best sample"
        decisive = utility if judged is None or reason else self.utility_of(judged)
        if reason is None and not decisive >= best - TIE * abs(best):
            reason = "its expected utility is lower than that of the best sample"
        return replace(ranking, pairs=self.tally.pairs,
                       proposal=Proposal(text, utility, best, reason, shares or {}))

    def keep(self, rows: Ints) -> Pool[F]:
        """The pool with only these hypotheses; features and tally are shared."""
        return replace(self, segment=self.segment.keep(rows), hyp_rows=self.hyp_rows[rows])

    def among_hypotheses(self) -> Pool[F]:
        """The pool with each hypothesis as a reference, with the same features."""
        segment = Segment(self.segment.hypotheses, position=self.segment.position)
        # scores against given references may differ (`Metric.as_given`), so they are not shared
        is_own = self.segment.self_columns is not None
        return replace(self, segment=segment, ref_rows=self.hyp_rows,
                       matrix=self.matrix if is_own else ScoreMatrix())

    def distinct_hypotheses(self) -> tuple[Pool[F], Ints]:
        """The pool with distinct hypotheses only, and the position of each one among them."""
        first = self._hyps.first
        by_place = np.argsort(first)  # keep sample order, which breaks ties
        return self.keep(first[by_place]), np.argsort(by_place)[self._hyps.inverse]

    def utility(self, columns: Ints | None = None, leave_self_out: bool = False) -> Floats:
        """(H,) expected score over these references, or over all."""
        weights = self.segment.weights
        mass = mass_of(weights if columns is None else weights[columns])
        if columns is not None:
            mass = sums(columns, mass, weights.size)
        if leave_self_out and self.segment.self_columns is not None:
            return self._utility_without_self(mass, self.segment.self_columns)
        return self._utility(mass)  # with given references, there is no self to leave out

    def utility_of(self, text: str) -> float:
        """The expected score over all references of a text that is not a hypothesis."""
        per_row = sums(self.ref_rows, self.segment.weights, len(self.texts))
        used = np.flatnonzero(per_row)
        self.tally.pairs += used.size
        value = float(self.metric.utility(self.metric.features([text]), self.references(used),
                                          per_row[used], self.source)[0])
        if not np.isfinite(value):
            raise InputError(f"metric {self.metric.name!r} scored {value} for {shortened(text)} "
                             "and all references; expected finite numbers")
        return value

    def utility_of_averages(self, groups: Groups) -> Floats:
        """(H,) expected score over the groups, each of which stands for its average reference."""
        if groups.sizes.max() == 1:  # the average of one reference is that reference
            return self._utility(groups.mass[groups.labels])
        refs = self.metric.aggregate(self.references(self.ref_rows), groups)
        self._count(len(groups))
        utility = self.metric.utility(self._hyp_texts, refs, groups.mass, self.source)
        return self._of_all(utility, refs, lambda group: f"average {group} of references")

    def answer_labels(self) -> Ints:
        """(H,) an integer label per hypothesis; equal texts, or equal answers, share a label.

        The label is negative if the metric finds no answer in the text.
        """
        answers = self.metric.answers(self._hyp_texts)
        if answers is None:
            return self.hyp_rows
        return numbered(answers, {None: -1})[self._hyps.inverse]

    def details(self, ranking: Ranking) -> dict[str, Any]:
        """Further fields of the output: those of the metric and, if it is or contains a vote, the
        chosen answer and the votes for the most frequent answers.
        """
        fields = self.metric.details(self.segment, ranking)
        for metric, texts in self.metric.votes_among(self.texts):
            fields |= replace(self, metric=metric, texts=texts)._votes(ranking)
        return fields

    def _votes(self, ranking: Ranking) -> dict[str, Any]:
        """The chosen answer, and for each answer the share of references that give it."""
        columns, mass = self.distinct_references()
        answers = self._answers(self.texts[self.hyp_rows])
        theirs = self._answers(self.references(self.ref_rows[columns]))
        votes = {answer: 0.0 for answer in answers if answer is not None}
        for answer, share in zip(theirs, mass.tolist(), strict=True):
            if answer in votes:
                votes[answer] += share
        most = sorted(votes.items(), key=lambda vote: -vote[1])[:_MAX_REPORTED_ANSWERS]
        answer, proposed = answers[ranking.best], ranking.proposed
        if proposed is not None:
            [answer] = self._answers(self.metric.features([str(proposed.text)]))
        return {"answer": answer, "votes": dict(most)}

    def _answers(self, texts: F) -> list[str | None]:
        return self.metric.answers(texts) or [None] * len(texts)

    def references(self, rows: Ints) -> F:
        """The features of these rows of `texts`, used as references."""
        refs = self.texts[rows]
        is_own = self.segment.self_columns is not None
        return refs if is_own else self.metric.as_given(refs)

    def distinct_references(self) -> tuple[Ints, Floats]:
        """The first column of each distinct reference with weight, and the weight of all copies."""
        mass = self._ref_mass
        return self._refs.first[mass > 0], mass[mass > 0]

    def scores(self, columns: Ints | None = None) -> Floats:
        """(H, columns) scores against these references, or (H, R) against all."""
        others = (self._refs if columns is None
                  else Distinct.from_labels(self.ref_rows[columns], len(self.texts)))
        self._count(others.labels.size)
        matrix = self.matrix.at(self._hyps.labels, others.labels)
        if matrix is None:
            matrix = self._distinct_scores(others.labels)
        return matrix[self._hyps.inverse[:, None], others.inverse]

    def keep_scores(self) -> Floats:
        """(H, R) all scores, cached for later calls and for pools derived from this one."""
        hyps, refs = self._hyps.labels, self._refs.labels
        if self.matrix.at(hyps, refs) is None:
            self.matrix.fill(hyps, refs, self._distinct_scores(refs), len(self.texts))
        return self.scores()

    def _distinct_scores(self, rows: Ints) -> Floats:
        """(D, rows) scores of the distinct hypotheses against these rows of `texts`."""
        is_same = (self.segment.self_columns is not None
                   and np.array_equal(self._hyps.labels, rows))
        refs = self._hyp_texts if is_same else self.references(rows)
        return self._finite(self.metric.scores(self._hyp_texts, refs, self.source), refs,
                            lambda column: self._reference(rows[column]))

    @property
    def _are_scores_few(self) -> bool:
        """Whether scoring all pairs takes no longer than to sum them up, and little memory."""
        metric = self.metric
        return (self._hyps.labels.size * self._refs.labels.size <= _FEW_SCORES and not (
            metric.loads_model or metric.compares_hypotheses or metric.is_vote))

    def summed_scores(self, refs: F, weights: Floats) -> Floats:
        """(H,) weighted sums of scores against other references; sums over parts add up."""
        self._count(len(refs))
        totals = self.metric.utility(self._hyp_texts, refs, weights, self.source)
        return self._of_all(totals, refs, lambda row: f"reference {row} of this part")

    def partial_statistics(self, refs: F, weights: Floats) -> PartialStatistics:
        """The partial statistics of other references, for the score against their average."""
        return self.metric.partial_statistics(self._hyp_texts, refs, weights)

    def finalize(self, statistics: PartialStatistics) -> Floats:
        """(H,) scores against the average of the references that the statistics summarise."""
        self._count(1)
        scores = self.metric.finalize(self._hyp_texts, statistics, self.source)
        return self._of_all(scores, None, "the average of all references")

    def quality(self) -> Floats:
        """(H,) quality estimates from the source alone; each counts as one pair."""
        self._count(1)
        estimates = self.metric.quality(self._hyp_texts, self.source)
        return self._of_all(estimates, None, "the source")

    def choice(self) -> Floats:
        """(H,) 1 for the hypothesis that the metric chooses and its copies, 0 for the others.

        Counts as one pair for each distinct hypothesis.
        """
        self._count(1)
        inverse, size = self._hyps.inverse, self._hyps.labels.size
        chosen = self.metric.choose(self._hyp_texts, self._hyp_counts, self.source)
        if not 0 <= chosen < size:
            raise InputError(f"metric {self.metric.name!r} chose {chosen} among {size} "
                             "hypotheses; expected the row of one")
        result: Floats = (inverse == chosen).astype(np.float64)
        return result

    def fusion(self) -> str | None:
        """A text that the metric writes from all hypotheses; None if it could not finish it.

        Counts as one pair for each distinct hypothesis.
        """
        self._count(1)
        return self.metric.fuse(self._hyp_texts, self._hyp_counts, self.source)

    def surrogate_mean(self) -> Floats:
        """(H,) the mean of the metric's surrogate over all references.

        Counts as one pair for each hypothesis, like the score of an aggregate.
        """
        self._count(1)
        return self._of_all(self._surrogate.mean, None, "all references (surrogate)")

    def surrogate_values(self) -> Floats:
        """(H, R) values of the metric's surrogate; they do not count as pairs."""
        refs = self.references(self._refs.labels)
        values = self._finite(self._surrogate.at(refs), refs,
                              lambda row: f"reference {row} (surrogate)")
        return values[np.ix_(self._hyps.inverse, self._refs.inverse)]

    def vectors(self) -> Points:
        """(R, D) embeddings of the references."""
        points = self.metric.vectors(self.texts[self._refs.labels])
        for row in self._refs.labels[~finite_rows(points)]:
            raise InputError(f"metric {self.metric.name!r} returned a vector that is not finite "
                             f"for {self._reference(row)}; check its model and its precision")
        return points[self._refs.inverse]

    @lazy
    def _hyps(self) -> Distinct:
        """The distinct hypotheses, by their rows."""
        return Distinct.from_labels(self.hyp_rows, len(self.texts))

    @lazy
    def _refs(self) -> Distinct:
        """The distinct references, by their rows."""
        return Distinct.from_labels(self.ref_rows, len(self.texts))

    @property
    def _hyp_counts(self) -> Ints:
        """The number of samples of each distinct hypothesis."""
        return np.bincount(self._hyps.inverse, self.segment.counts,
                           self._hyps.labels.size).astype(np.intp)

    @property
    def _hyp_texts(self) -> F:
        """The features of the distinct hypotheses."""
        return self.texts[self._hyps.labels]

    @property
    def _ref_mass(self) -> Floats:
        """The weight of all copies of each distinct reference."""
        return sums(self._refs.inverse, self.segment.weights, self._refs.labels.size)

    @lazy
    def _surrogate(self) -> Surrogate[F]:
        refs = self.references(self._refs.labels)
        return self.metric.surrogate(self._hyp_texts, refs, self._ref_mass, self.source)

    def _count(self, references: int) -> None:
        """Count the pairs of all distinct hypotheses with so many references."""
        self.tally.pairs += self._hyps.labels.size * references

    def _of_all(self, values: Floats, refs: F | None, name: Callable[[int], str] | str) -> Floats:
        """(H,) the values of the distinct hypotheses, checked, for each hypothesis."""
        return self._finite(values, refs, name)[self._hyps.inverse]

    def _finite(self, values: Floats, refs: F | None, name: Callable[[int], str] | str) -> Floats:
        """Scores of the distinct hypotheses, (D,) or (D, columns), checked to be finite.

        A NaN or an infinity is an error, because it would rank the hypotheses wrongly.
        """
        if np.isfinite(values).all():
            return values
        row, *column = np.argwhere(~np.isfinite(values))[0].tolist()
        value = values[(row, *column)]
        if refs is not None and not column:
            value, column = self._first_not_finite(row, refs, value)
        other = name if isinstance(name, str) else name(*column) if column else "all references"
        first = int(self._hyps.first[row])
        raise InputError(f"metric {self.metric.name!r} scored {value} for "
                         f"{self.segment.describe(first)} and {other}; expected finite numbers: "
                         "check its model, its precision (dtype) and its cache")

    def _first_not_finite(self, row: int, refs: F, total: float) -> tuple[float, list[int]]:
        """The score that made a sum over references non-finite, and its column, if there is one."""
        scores = self.metric.scores(self._hyp_texts[np.array([row])], refs, self.source)[0]
        column = np.flatnonzero(~np.isfinite(scores))[:1].tolist()
        return (scores[column[0]] if column else total), column

    def _reference(self, row: int) -> str:
        """The position and the beginning of a reference, for messages."""
        column = int(np.flatnonzero(self.ref_rows == row)[0])
        return f"reference {column} ({shortened(self.segment.references[column])})"

    def _utility(self, mass: Floats) -> Floats:
        """(H,) utilities from the mass of each reference; duplicates are scored once."""
        per_row = sums(self.ref_rows, mass, len(self.texts))
        used = np.flatnonzero(per_row)
        self._count(used.size)
        matrix = self.matrix.at(self._hyps.labels, used)
        if matrix is None and used.size == self._refs.labels.size and self._are_scores_few:
            matrix = self._distinct_scores(used)
            self.matrix.fill(self._hyps.labels, used, matrix, len(self.texts))
        if matrix is not None:
            # not a product of matrices, whose rounding depends on the CPU
            result: Floats = (matrix * per_row[used]).sum(axis=1)[self._hyps.inverse]
            return result
        hyps = self._hyp_texts
        is_same = (self.segment.self_columns is not None
                   and np.array_equal(self._hyps.labels, used))
        refs = hyps if is_same else self.references(used)
        utility = self.metric.utility(hyps, refs, per_row[used], self.source)
        return self._of_all(utility, refs, lambda column: self._reference(used[column]))

    def _utility_without_self(self, mass: Floats, self_columns: Ints) -> Floats:
        """(H,) utilities over all references except the hypothesis itself (by position).

        The self-score is left out of the sum rather than subtracted: if the hypothesis itself has
        nearly all of the mass, the subtraction would cancel the digits of the others. Without
        another reference, the utility is NaN, which ranks last.
        """
        size = max(1, _MAX_SCORES_PER_BLOCK // mass.size)
        rows = np.arange(len(self.hyp_rows))
        return np.concatenate([
            self.keep(block)._block_without_self(mass, self_columns[block])
            for block in np.split(rows, range(size, rows.size, size))
        ])

    def _block_without_self(self, mass: Floats, self_columns: Ints) -> Floats:
        others = np.tile(mass, (self_columns.size, 1))  # (h, R)
        others[np.arange(self_columns.size), self_columns] = 0
        total = others.sum(axis=1)
        summed = (self.scores() * others).sum(axis=1)
        result: Floats = np.divide(summed, total, out=np.full_like(total, np.nan), where=total > 0)
        return result
