"""Plain data: a decoding problem (`Segment`), its result (`Ranking`), and references in parts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass, field, fields, replace
from itertools import chain, repeat
from typing import Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from minrisk._core.arrays import Floats, Ints
from minrisk._core.errors import InputError, Wording
from minrisk._core.options import Bounds, checked
from minrisk._core.token_confidence import CONFIDENCES
from minrisk._core.weights import (
    check_total,
    checked_counts,
    checked_logprobs,
    checked_models,
    checked_numbers,
    checked_outcomes,
    checked_texts,
    checked_weights,
    normalised,
)

TIE = 1e-9  # relative to the largest utility: smaller differences are ties
_NOT_NEGATIVE = Bounds(ge=0)
_MAX_SHOWN = 60  # characters of a text in messages
_TABLE_ROWS = 5  # hypotheses in the HTML table of a ranking


@dataclass(frozen=True, eq=False, init=False)
class Segment:
    """A decoding problem: the hypotheses of one source, and the weighted references.

    >>> segment = Segment(["a", "b"], counts=[2, 1])
    >>> segment.references
    ('a', 'a', 'b')
    """

    hypotheses: tuple[str, ...]
    references: tuple[str, ...]  # default: the hypotheses, each repeated by its count
    weights: Floats  # (R,), sums to 1
    source: str | None
    position: int  # in the input; seeds the segment's random stream
    counts: Ints  # (H,) number of equal samples that each hypothesis stands for
    self_columns: Ints | None  # (H,) first column of each one as a reference; None if those differ
    rows: Ints | None  # (H,) positions in the original list, if only some hypotheses are left
    logprobs: Floats | None  # (H,) log-probabilities of the hypotheses, if known
    lengths: Floats | None  # (H,) lengths of the hypotheses in tokens, if known
    outcomes: Segment | None  # the same problem with the outcome of each hypothesis as its text
    models: tuple[str | None, ...] | None  # (R,) of the references, if they are of several
    confidences: Mapping[str, Floats]  # (H,) each, what tokens say of the hypotheses, by column

    def __init__(
        self,
        hypotheses: Sequence[str],
        references: Sequence[str] | None = None,
        source: str | None = None,
        weights: npt.ArrayLike | None = None,
        position: int = 0,
        counts: npt.ArrayLike | None = None,
        logprobs: npt.ArrayLike | None = None,
        lengths: npt.ArrayLike | None = None,
        outcomes: Sequence[str | None] | None = None,
        models: Sequence[str | None] | None = None,
        confidences: Mapping[str, npt.ArrayLike] | None = None,
    ) -> None:
        """Check the arguments and fill in the defaults.

        Args:
            hypotheses: the texts that may be chosen.
            references: the texts they are scored against [default: the hypotheses themselves].
            source: the source text, for metrics that need it.
            weights: one per reference, which need not sum to 1 [default: equal]. A weight applies
                to one sample: a hypothesis with a count of k is k references of that weight.
            position: the segment's position in the input, which seeds its random stream.
            counts: number of equal samples that each hypothesis stands for [default: 1].
            logprobs: log-probability of each hypothesis, for the metric `logprob`; not a weight.
            lengths: length of each hypothesis in tokens, for the metric `logprob`.
            outcomes: what each hypothesis printed or returned when it was executed, for metrics
                that compare outcomes; given references are then outcomes too. None: no outcome.
            models: name of the model of each hypothesis, if they are samples of several.
            confidences: "lowest_logprobs", "tail_logprobs" or "certainties" of the hypotheses, as
                samplers report them.

        Raises:
            InputError: if a list is empty, has the wrong length or holds values of another type.
        """
        if source is not None and not isinstance(source, str):
            raise InputError(f"source must be a string; found {type(source).__name__}")
        hyps = checked_texts(hypotheses, "hypotheses")
        refs = hyps if references is None else checked_texts(references, "references")
        mass = normalised(weights, len(refs))
        times = (np.ones(len(hyps), np.intp) if counts is None
                 else checked_counts(counts, len(hyps)))
        if counts is not None and references is None:
            check_total(times)
            refs = tuple(chain.from_iterable(map(repeat, hyps, times.tolist())))
            mass = normalised(np.repeat(mass, times), len(refs))
        fields = {
            "hypotheses": hyps,
            "references": refs,
            "weights": mass,
            "source": source,
            "position": checked("position", position, int, _NOT_NEGATIVE),
            "counts": times,
            "self_columns": times.cumsum() - times if references is None else None,
            "rows": None,
            "logprobs": None if logprobs is None else checked_logprobs(
                logprobs, len(hyps), "hypothesis"),
            "lengths": None if lengths is None else checked_numbers(
                lengths, len(hyps), "lengths", "hypothesis"),
            "outcomes": None if outcomes is None else Segment(
                checked_outcomes(outcomes, len(hyps)), references, source, weights, position,
                counts),
            "models": None if models is None or references is not None else tuple(
                np.repeat(np.array(checked_models(models, len(hyps)), object), times).tolist()),
            "confidences": {name: checked_numbers(values, len(hyps), name, "hypothesis")
                            for name, values in (confidences or {}).items()},
        }
        if unknown := fields["confidences"].keys() - CONFIDENCES.values():
            raise InputError(f"confidences are {', '.join(CONFIDENCES.values())}; found "
                             f"{min(unknown)}")
        vars(self).update(fields)

    def keep(self, rows: Ints) -> Segment:
        """The same problem with only these hypotheses."""
        return self._with(
            hypotheses=tuple(map(self.hypotheses.__getitem__, rows.tolist())),
            counts=self.counts[rows],
            self_columns=None if self.self_columns is None else self.self_columns[rows],
            rows=rows if self.rows is None else self.rows[rows],
            logprobs=None if self.logprobs is None else self.logprobs[rows],
            lengths=None if self.lengths is None else self.lengths[rows],
            outcomes=None if self.outcomes is None else self.outcomes.keep(rows),
            confidences={name: values[rows] for name, values in self.confidences.items()},
        )

    def at(self, position: int) -> Segment:
        """The same problem at another position in the input."""
        return self._with(
            position=position,
            outcomes=None if self.outcomes is None else self.outcomes.at(position))

    def weighted(self, weights: Floats) -> Segment:
        """The same problem with other weights (R,) of the references."""
        return self._with(
            weights=normalised(weights, len(self.references)),
            outcomes=None if self.outcomes is None else self.outcomes.weighted(weights))

    def among(self, rows: Ints) -> Segment:
        """The same problem, with `rows` as positions of the hypotheses in the original list."""
        return self._with(rows=rows)

    def _with(self, **changes: Any) -> Segment:
        segment = object.__new__(Segment)
        vars(segment).update(vars(self) | changes)
        return segment

    def describe(self, row: int) -> str:
        """A hypothesis for messages: its position in the original list and its beginning."""
        index = row if self.rows is None else self.rows[row]
        return f"hypothesis {index} ({shortened(self.hypotheses[row])})"


@dataclass(frozen=True)
class Confidence:
    """The confidence of a ranking in its first hypothesis, as the `Confident` strategy adds it.

    Args:
        margin: difference in utility from the next different hypothesis (or answer); NaN if that
            has no utility.
        probability: probability that the choice has the highest expected utility of these
            hypotheses in the limit of many references; in a vote, that no other answer is as
            probable. NaN if there is a `reason`.
        share: in a vote, the share of all samples that give this answer.
        interval: in a vote, the 95% interval of the probability of this answer.
        reason: why there is no probability.
        gain: utility of the choice minus that of a random sample.
        logprob: mean log-probability of a token of the choice, or of the samples with its answer.
        cocoa: -logprob times the disagreement of the references with the choice, from 0 to 1
            (Vashurin et al. 2025): large where the choice is uncertain.
        disagreement: of samples of several models, from 0 to 1: one minus the mean agreement of
            samples of different models, as a share of that of samples of the same model.
        lowest_logprob: mean log-probability of the least confident group of consecutive tokens, as
            a mean over the samples of `logprob`; those that follow likewise.
        tail_logprob: of the last tokens.
        certainty: self-certainty (Kang et al. 2025).
        calibrated: probability that the choice is right, by a calibration.

    >>> Confidence(margin=2.5, probability=0.9).probability
    0.9
    """

    margin: float
    probability: float
    share: float | None = None
    interval: tuple[float, float] | None = None
    reason: str | None = None
    gain: float | None = None
    logprob: float | None = None
    cocoa: float | None = None
    disagreement: float | None = None
    lowest_logprob: float | None = None
    tail_logprob: float | None = None
    certainty: float | None = None
    calibrated: float | None = None


@dataclass(frozen=True)
class Uncertainty:
    """The disagreement of the samples of a segment, over semantic clusters.

    If the metric compares answers, a sample without an answer is in no cluster.

    >>> Uncertainty(entropy=0.69, largest=0.5, utility=70.0, clusters=2).largest
    0.5
    """

    entropy: float  # of the cluster masses, in nats; exp(entropy) is the effective number
    largest: float  # mass of the largest cluster, as a share of all samples
    utility: float  # mean pairwise utility, the expected utility of a random sample
    clusters: int
    unanswered: float = 0.0  # share of the samples without an answer


@dataclass(frozen=True)
class Proposal:
    """An answer that is not one of the samples: a strategy composed it, or a model wrote it.

    It is the answer if it is kept, which needs an expected utility of at least that of the best
    sample; otherwise the best sample is.

    Args:
        text: the text; None if there is none.
        utility: its expected score over the references, by the metric that ranks the samples; NaN
            if there is no text.
        best: the utility of the best sample.
        reason: why the best sample is the answer instead; None if the text is kept.
        shares: the share of the samples that agree with each field of the text, by its path.

    >>> Proposal("{}", utility=0.7, best=0.6).is_kept
    True
    """

    text: str | None
    utility: float
    best: float
    reason: str | None = None
    shares: Mapping[str, float] = field(default_factory=dict)

    @property
    def is_kept(self) -> bool:
        return self.reason is None


@dataclass(frozen=True, eq=False, repr=False)
class Ranking:
    """All hypotheses, best first, with their utilities in input order.

    `minrisk.decode` adds the hypotheses, so that `text` is the chosen one, and the signature, which
    records how the ranking was computed.

    >>> ranking = Ranking(np.array([1, 0]), np.array([3.5, 4.0]), hypotheses=("a", "b"))
    >>> ranking.best, ranking.text
    (1, 'b')
    >>> ranking
    Ranking(text='b', index=1, utility=4, runner_up='a' (3.5), of 2)
    """

    order: Ints  # (H,)
    utility: Floats  # (H,), NaN for hypotheses that a later stage did not score
    pairs: int = 0  # number of pairs that the metric evaluated
    confidence: Confidence | None = None  # added by the `Confident` strategy
    uncertainty: Uncertainty | None = None  # added by the `Uncertain` strategy
    proposal: Proposal | None = None  # an answer that is no hypothesis; all else is about these
    abstained: bool = False  # True if the samples disagree too much, or err too often
    hypotheses: tuple[str, ...] | None = None
    signature: str | None = None

    @classmethod
    def from_utility(cls, utility: Floats, pairs: int = 0) -> Ranking:
        """The ranking by utility; ties, including those within rounding error, keep sample order.
        """
        order = np.argsort(-utility, kind="stable")
        return cls(order[np.lexsort((order, _ranks(utility[order])))], utility, pairs)

    @property
    def best(self) -> int:
        return int(self.order[0])

    @property
    def proposed(self) -> Proposal | None:
        """The proposal, if it is the answer."""
        return self.proposal if self.proposal is not None and self.proposal.is_kept else None

    @property
    def text(self) -> str:
        """The answer: the chosen hypothesis, or the proposal if it is kept.

        Raises:
            InputError: if the ranking abstained, or has no texts, like those that `Strategy.rank`
                returns.
        """
        if self.abstained:
            raise InputError("this ranking abstained, because the samples disagree too much or "
                             "the choice is too uncertain; hypotheses[ranking.best] is the best "
                             "of them")
        if self.hypotheses is None:
            raise InputError("this ranking has no texts; use hypotheses[ranking.best], or "
                             "rankings of minrisk.decode, which have texts")
        proposed = self.proposed
        return self.hypotheses[self.best] if proposed is None else str(proposed.text)

    def __eq__(self, other: object) -> bool:
        """Whether all fields are equal; NaN equals NaN."""
        if not isinstance(other, Ranking):
            return NotImplemented
        return all(_equal(getattr(self, f.name), getattr(other, f.name)) for f in fields(self))

    def __repr__(self) -> str:
        proposed = self.proposed
        utility = self.utility[self.best] if proposed is None else proposed.utility
        shown = [f"index={None if proposed else self.best}", f"utility={utility:.6g}"]
        if self.abstained:
            shown.insert(0, "abstained=True")
        elif self.hypotheses is not None:
            shown.insert(0, f"text={shortened(self.text)}")
        second = self._runner_up()
        if second is not None:
            name = second if self.hypotheses is None else shortened(self.hypotheses[second])
            shown.append(f"runner_up={name} ({self.utility[second]:.6g})")
        return f"Ranking({', '.join(shown)}, of {self.order.size})"

    def _repr_html_(self) -> str:
        """The best few as a table, for notebooks."""
        from html import escape  # few processes need it

        rows = "".join(f"<tr><td>{rank}</td><td>{row}</td><td>{self.utility[row]:.6g}</td>"
                       f"<td>{escape('' if self.hypotheses is None else self.hypotheses[row])}</td>"
                       "</tr>" for rank, row in enumerate(self.order[:_TABLE_ROWS].tolist(), 1))
        return ("<table><thead><tr><th>rank</th><th>index</th><th>utility</th><th>text</th></tr>"
                f"</thead><tbody>{rows}</tbody></table><p>{self.order.size} hypotheses; "
                f"<code>{escape(self.signature or '')}</code></p>")

    def _runner_up(self) -> int | None:
        """The next hypothesis; with texts, the next one that differs from the first."""
        others = self.order[1:].tolist()
        if self.hypotheses is not None:
            best = self.hypotheses[self.best]
            others = [row for row in others if self.hypotheses[row] != best]
        return next(iter(others), None)

    def abstain_below(self, share: float | None) -> Ranking:
        """The ranking, abstained if its largest cluster has less than this share."""
        uncertainty = self.uncertainty
        if share is None or uncertainty is None or uncertainty.largest >= share:
            return self
        return replace(self, abstained=True)

    def refine(self, kept: Ints, finer: Ranking) -> Ranking:
        """The ranking with these rows first, in the order and with the utilities of a later stage,
        whose proposal it has.
        """
        utility = np.full_like(self.utility, np.nan)
        utility[kept] = finer.utility
        first = self.first(kept[finer.order])
        return replace(first, utility=utility, pairs=self.pairs + finer.pairs,
                       proposal=finer.proposal)

    def first(self, rows: Ints) -> Ranking:
        """The same ranking with these hypotheses first, in this order."""
        rest = self.order[~np.isin(self.order, rows)]
        return replace(self, order=np.concatenate([rows, rest]))

    def repeat(self, inverse: Ints) -> Ranking:
        """Expand a ranking of distinct hypotheses; `inverse` has the row of each hypothesis in it.
        """
        rank = np.empty_like(self.order)
        rank[self.order] = _ranks(self.utility[self.order])
        order = np.argsort(rank[inverse], kind="stable")
        return replace(self, order=order, utility=self.utility[inverse])


def _equal(one: Any, other: Any) -> bool:
    if isinstance(one, np.ndarray) and isinstance(other, np.ndarray):
        return np.array_equal(one, other, equal_nan=True)
    if isinstance(one, Confidence | Uncertainty | Proposal) and type(one) is type(other):
        return all(map(_equal, astuple(one), astuple(other)))
    return bool(one == other) or (one != one and other != other)  # NaN


def _ranks(utility: Floats) -> Ints:
    """(H,) ranks of utilities in descending order; ties share a rank."""
    scale = np.abs(utility[np.isfinite(utility)]).max(initial=0)
    # `not <=` instead of `>`, so that NaN is not a tie
    apart = ~(utility[:-1] - utility[1:] <= TIE * scale)
    return np.concatenate([[0], np.cumsum(apart)])


def shortened(text: str) -> str:
    """The quoted text, or its beginning if it is long, for messages."""
    return repr(text if len(text) <= _MAX_SHOWN else f"{text[:_MAX_SHOWN]}...")


BLOCK = 1 << 13  # references in memory at a time


@dataclass(frozen=True, eq=False)
class References:
    """A part of the references of a segment, with weights or counts.

    The weights of all parts must be on the same scale; for `decode_parts` they need not sum to 1.

    Args:
        texts: the references.
        weights: one per text [default: 1].
        counts: number of equal references that each text stands for [default: 1].
        name: their name in messages.

    Raises:
        InputError: when they are used, if the lists differ in length or hold invalid values.

    >>> References(["a", "b"], weights=[1, 3], counts=[2, 1]).mass().tolist()
    [2.0, 3.0]
    """

    texts: Sequence[str]
    weights: npt.ArrayLike | None = None
    counts: npt.ArrayLike | None = None  # a text with a count of k is k equal references
    name: str = "references"  # for messages

    def blocks(self) -> Iterator[References]:
        """The references, checked, in blocks that fit into memory."""
        try:
            texts = checked_texts(self.texts, "references")
            weights = None if self.weights is None else checked_weights(self.weights, len(texts))
            counts = None if self.counts is None else checked_counts(self.counts, len(texts))
        except InputError as error:
            raise InputError(Wording("{name}: {error}", name=self.name, error=error)) from None
        for start in range(0, len(texts), BLOCK):
            rows = slice(start, start + BLOCK)
            yield References(texts[rows], None if weights is None else weights[rows],
                             None if counts is None else counts[rows], self.name)

    def mass(self) -> Floats:
        """(R,) weight times count of each reference, not normalised."""
        mass: Floats = np.ones(len(self.texts))
        for given in (self.weights, self.counts):
            mass = mass if given is None else mass * np.asarray(given, np.float64)
        return mass


@runtime_checkable
class ReferencePart(Protocol):
    """A part of the references of a segment that can be pickled; a worker reads it."""

    @property
    def name(self) -> str: ...

    def blocks(self) -> Iterable[References]: ...
