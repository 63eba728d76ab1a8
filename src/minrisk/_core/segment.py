"""Plain data: a decoding problem (`Segment`) and its result (`Ranking`)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import astuple, dataclass, fields, replace
from html import escape
from itertools import chain, repeat
from typing import Any

import numpy as np
import numpy.typing as npt

from minrisk._core.arrays import Floats, Ints, sums
from minrisk._core.errors import InputError, brief
from minrisk._core.options import Bounds, checked

TIE = 1e-9  # relative to the largest utility: smaller differences are ties
_MAX_SHOWN = 60  # characters of a text in messages
_TABLE_ROWS = 5  # hypotheses in the HTML table of a ranking
MAX_SAMPLES = 1 << 20  # of a segment: a count of k becomes k references


@dataclass(frozen=True, eq=False, init=False)
class Segment:
    """A decoding problem: the hypotheses of one source, and the weighted references.

    >>> segment = Segment(["a", "b"], counts=[2, 1])
    >>> segment.references
    ('a', 'a', 'b')
    """

    hypotheses: tuple[str, ...]
    references: tuple[str, ...]  # unless given, the hypotheses, each repeated by its count
    weights: Floats  # (R,), sums to 1
    source: str | None
    index: int  # position in the input; seeds the segment's random stream
    counts: Ints  # (H,) number of equal samples that each hypothesis stands for
    own: Ints | None  # (H,) each hypothesis' first place among the references, if they are the same
    rows: Ints | None  # (H,) positions in the given list, if only some hypotheses are left
    logprobs: Floats | None  # (H,) log-probabilities of the hypotheses, if they are known
    lengths: Floats | None  # (H,) their lengths in tokens, if they are known
    outcomes: Segment | None  # the same problem with the outcome of each hypothesis as its text

    def __init__(
        self,
        hypotheses: Sequence[str],
        references: Sequence[str] | None = None,
        source: str | None = None,
        weights: npt.ArrayLike | None = None,
        index: int = 0,
        counts: npt.ArrayLike | None = None,
        logprobs: npt.ArrayLike | None = None,
        lengths: npt.ArrayLike | None = None,
        outcomes: Sequence[str | None] | None = None,
    ) -> None:
        """Check the arguments and fill in the defaults.

        Args:
            hypotheses: the texts that may be chosen.
            references: the texts they are scored against; the hypotheses themselves unless given.
            source: the source text, for metrics that need it.
            weights: one per reference, which need not sum to 1; equal unless given. A weight is of
                one sample: a hypothesis with a count of k is k references of that weight.
            index: the segment's position in the input, which seeds its random stream.
            counts: number of equal samples that each hypothesis stands for; 1 unless given.
            logprobs: log-probability of each hypothesis, for the metric `logprob`; no weight.
            lengths: length of each hypothesis in tokens, for the same.
            outcomes: what each hypothesis printed or returned when it was executed, for metrics
                that compare outcomes; given references are outcomes too. None is no outcome.

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
            _check_total(times)
            refs = tuple(chain.from_iterable(map(repeat, hyps, times.tolist())))
            mass = normalised(np.repeat(mass, times), len(refs))
        fields = {
            "hypotheses": hyps,
            "references": refs,
            "weights": mass,
            "source": source,
            "index": checked("index", index, int, Bounds(ge=0)),
            "counts": times,
            "own": np.cumsum(times) - times if references is None else None,
            "rows": None,
            "logprobs": None if logprobs is None else _logprobs(logprobs, len(hyps)),
            "lengths": None if lengths is None else _numbers(lengths, len(hyps), "lengths",
                                                             "hypothesis"),
            "outcomes": None if outcomes is None else Segment(
                _checked_outcomes(outcomes, len(hyps)), references, source, weights, index, counts),
        }
        for name, value in fields.items():
            object.__setattr__(self, name, value)

    def keep(self, rows: Ints) -> Segment:
        """The same problem with only these hypotheses."""
        kept = object.__new__(Segment)
        fields = vars(self) | {
            "hypotheses": tuple(map(self.hypotheses.__getitem__, rows.tolist())),
            "counts": self.counts[rows],
            "own": None if self.own is None else self.own[rows],
            "rows": rows if self.rows is None else self.rows[rows],
            "logprobs": None if self.logprobs is None else self.logprobs[rows],
            "lengths": None if self.lengths is None else self.lengths[rows],
            "outcomes": None if self.outcomes is None else self.outcomes.keep(rows),
        }
        for name, value in fields.items():
            object.__setattr__(kept, name, value)
        return kept

    def at(self, index: int) -> Segment:
        """The same problem at another place in the input."""
        moved = object.__new__(Segment)
        outcomes = None if self.outcomes is None else self.outcomes.at(index)
        for name, value in (vars(self) | {"index": index, "outcomes": outcomes}).items():
            object.__setattr__(moved, name, value)
        return moved

    def describe(self, row: int) -> str:
        """A hypothesis for messages: its position in the given list and its beginning."""
        place = row if self.rows is None else self.rows[row]
        return f"hypothesis {place} ({shortened(self.hypotheses[row])})"


@dataclass(frozen=True)
class Confidence:
    """The confidence of a ranking in its first hypothesis, as the `Confident` strategy adds it.

    Args:
        margin: difference of utility from the next different hypothesis (or answer); NaN if that
            has no utility.
        probability: probability that another sample of references would choose the same; NaN if
            the metric finds no answer in the chosen hypothesis.

    >>> Confidence(margin=2.5, probability=0.9).probability
    0.9
    """

    margin: float
    probability: float


@dataclass(frozen=True)
class Uncertainty:
    """How far the samples of a segment disagree, over clusters of texts that mean nearly the same.

    >>> Uncertainty(entropy=0.69, largest=0.5, utility=70.0, clusters=2).largest
    0.5
    """

    entropy: float  # of the clusters' mass, in nats: its exponential is a number of meanings
    largest: float  # mass of the largest cluster
    utility: float  # mean pairwise utility: what a sample at random is worth
    clusters: int


@dataclass(frozen=True, eq=False, repr=False)
class Ranking:
    """All hypotheses, best first, with their utilities in input order.

    `minrisk.decode` adds the hypotheses, so that `text` is the chosen one, and the signature that
    says how the ranking was made.

    >>> ranking = Ranking(np.array([1, 0]), np.array([3.5, 4.0]), hypotheses=("a", "b"))
    >>> ranking.best, ranking.text
    (1, 'b')
    >>> ranking
    Ranking(text='b', index=1, utility=4, runner_up='a' (3.5), of 2)
    """

    order: Ints  # (H,)
    utility: Floats  # (H,), NaN for hypotheses that a later stage did not score
    pairs: int = 0  # evaluated by the metric
    confidence: Confidence | None = None  # of the `Confident` strategy
    uncertainty: Uncertainty | None = None  # of the `Uncertain` strategy
    hypotheses: tuple[str, ...] | None = None
    signature: str | None = None

    @classmethod
    def of(cls, utility: Floats, pairs: int = 0) -> Ranking:
        """The ranking by utility; ties, also those that only rounding breaks, keep sample order."""
        order = np.argsort(-utility, kind="stable")
        return cls(order[np.lexsort((order, _ranks(utility[order])))], utility, pairs)

    @property
    def best(self) -> int:
        return int(self.order[0])

    @property
    def text(self) -> str:
        """The chosen hypothesis.

        Raises:
            InputError: if the ranking has no texts, like those that `Strategy.rank` returns.
        """
        if self.hypotheses is None:
            raise InputError("this ranking has no texts; look up hypotheses[ranking.best], or "
                             "decode with minrisk.decode, whose rankings have them")
        return self.hypotheses[self.best]

    def __eq__(self, other: object) -> bool:
        """Whether all fields are equal; NaN equals NaN."""
        if not isinstance(other, Ranking):
            return NotImplemented
        return all(_equal(getattr(self, f.name), getattr(other, f.name)) for f in fields(self))

    def __repr__(self) -> str:
        shown = [f"index={self.best}", f"utility={self.utility[self.best]:.6g}"]
        if self.hypotheses is not None:
            shown.insert(0, f"text={shortened(self.text)}")
        second = self._runner_up()
        if second is not None:
            name = second if self.hypotheses is None else shortened(self.hypotheses[second])
            shown.append(f"runner_up={name} ({self.utility[second]:.6g})")
        return f"Ranking({', '.join(shown)}, of {self.order.size})"

    def _repr_html_(self) -> str:
        """The best few as a table, for notebooks."""
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
            others = [row for row in others if self.hypotheses[row] != self.text]
        return next(iter(others), None)

    def refine(self, kept: Ints, finer: Ranking) -> Ranking:
        """The ranking with these rows first, by the order and utilities of a later stage."""
        utility = np.full_like(self.utility, np.nan)
        utility[kept] = finer.utility
        first = self.first(kept[finer.order])
        return replace(first, utility=utility, pairs=self.pairs + finer.pairs)

    def first(self, rows: Ints) -> Ranking:
        """The same ranking with these hypotheses first, in this order."""
        rest = self.order[~np.isin(self.order, rows)]
        return replace(self, order=np.concatenate([rows, rest]))

    def repeat(self, place: Ints) -> Ranking:
        """Expand a ranking of distinct hypotheses: `place` is the row of each one among them."""
        rank = np.empty_like(self.order)
        rank[self.order] = _ranks(self.utility[self.order])
        order = np.argsort(rank[place], kind="stable")
        return replace(self, order=order, utility=self.utility[place])


def _equal(one: Any, other: Any) -> bool:
    if isinstance(one, np.ndarray) and isinstance(other, np.ndarray):
        return np.array_equal(one, other, equal_nan=True)
    if isinstance(one, Confidence | Uncertainty) and type(one) is type(other):
        return np.array_equal(astuple(one), astuple(other), equal_nan=True)
    return bool(one == other)


def _ranks(utility: Floats) -> Ints:
    """(H,) ranks of utilities in descending order; ties share a rank."""
    scale = np.abs(utility[np.isfinite(utility)]).max(initial=0)
    # negated, so that an unknown utility (NaN) is no tie
    apart = ~(utility[:-1] - utility[1:] <= TIE * scale)
    return np.concatenate([[0], np.cumsum(apart)])


def normalised(weights: npt.ArrayLike | None, count: int) -> Floats:
    """Weights that sum to 1; uniform if none are given."""
    if weights is None:
        return np.full(count, 1.0 / count)
    given = checked_weights(weights, count)
    largest = given.max()
    if largest == 0:
        raise InputError("weights are all zero; at least one must be positive")
    scaled = given / largest  # so that huge weights do not add up to infinity
    result: Floats = scaled / scaled.sum()
    return result


def checked_weights(weights: npt.ArrayLike, count: int) -> Floats:
    """(R,) finite, non-negative weights, not normalised."""
    given = _numbers(weights, count, "weights")
    wrong = np.flatnonzero(~(np.isfinite(given) & (given >= 0)))
    if wrong.size:
        raise InputError(f"weights must be finite and not negative; found {given[wrong[0]]} "
                         f"as number {wrong[0] + 1}")
    return given


def weights_from_logprobs(logprobs: npt.ArrayLike, texts: Sequence[str] | None = None,
                          counts: npt.ArrayLike | None = None, *,
                          lengths: npt.ArrayLike | None = None,
                          temperature: float = 1.0) -> Floats:
    """Reference weights for model-based MBR: the weight of a distinct text is its probability.

    The number of samples of a text does not count on top of its probability, so equal texts share
    the weight of the most probable one. Pass the result as `weights`, with the same texts and
    counts; weights times counts sum to 1.

    Args:
        logprobs: the log-probability of each text under the model.
        texts: the references; without them, all are taken to be distinct.
        counts: number of equal samples that each text stands for; 1 unless given.
        lengths: divisors of the log-probabilities; lengths in tokens give the mean
            log-probability of a token.
        temperature: divisor of the log-probabilities; above 1, weights become more uniform.

    Returns:
        (N,) one weight per given text.

    Raises:
        InputError: if the lists differ in length, or a value is not valid.

    >>> texts = ["a", "b", "a"]
    >>> weights_from_logprobs(np.log([0.6, 0.2, 0.6]), texts).round(3).tolist()
    [0.375, 0.25, 0.375]
    """
    if not 0 < temperature < np.inf:
        raise InputError(f"temperature must be a number above 0; got {temperature}")
    given = _logprobs(logprobs, None if texts is None else len(texts))
    copies = (np.ones(given.size) if counts is None
              else checked_counts(counts, given.size).astype(np.float64))
    place, likeliest = _distinct_texts(texts, given)
    with np.errstate(over="ignore"):  # overflow to -inf is the probability 0
        logs = (given if lengths is None else given / _lengths(lengths, given.size))[likeliest]
        if not np.isfinite(logs.max()):
            raise InputError("logprobs divided by lengths must be numbers that a double can hold; "
                             f"found {logs.max()}")
        probability = normalised(np.exp((logs - logs.max()) / temperature), logs.size)
    weights: Floats = (probability / sums(place, copies, logs.size))[place]
    return weights


def _distinct_texts(texts: Sequence[str] | None, logprobs: Floats) -> tuple[Ints, Ints]:
    """The position of each text among the distinct ones, and the most probable row of each."""
    if texts is None:
        return np.arange(logprobs.size), np.arange(logprobs.size)
    known: dict[str, int] = {}
    place = np.array([known.setdefault(text, len(known))
                      for text in checked_texts(texts, "references")], dtype=np.intp)
    by_text = np.lexsort((-logprobs, place))
    return place, by_text[np.searchsorted(place[by_text], np.arange(len(known)))]


def _logprobs(logprobs: npt.ArrayLike, count: int | None) -> Floats:
    given = _numbers(logprobs, count, "logprobs")
    wrong = np.flatnonzero(~(given < np.inf))
    if wrong.size or not np.any(np.isfinite(given)):
        found = f"{given[wrong[0]]} as number {wrong[0] + 1}" if wrong.size else "none that is"
        raise InputError("logprobs must be numbers below infinity, and one at least finite; "
                         f"found {found}")
    return given


def _lengths(lengths: npt.ArrayLike, count: int) -> Floats:
    given = _numbers(lengths, count, "lengths")
    wrong = np.flatnonzero(~((given > 0) & np.isfinite(given)))
    if wrong.size:
        raise InputError(f"lengths must be positive; found {given[wrong[0]]} "
                         f"as number {wrong[0] + 1}")
    return given


def checked_counts(counts: npt.ArrayLike, count: int) -> Ints:
    given = _numbers(counts, count, "counts", "sample")
    wrong = np.flatnonzero(~((given >= 1) & (given == np.floor(given))))
    if wrong.size:
        raise InputError(f"counts must be integers of at least 1; found {given[wrong[0]]:g} "
                         f"as number {wrong[0] + 1}")
    if not given.sum() < np.iinfo(np.intp).max:
        raise InputError(f"counts add up to {given.sum():g}, which is too large")
    return given.astype(np.intp)


def _checked_outcomes(outcomes: Sequence[str | None], count: int) -> tuple[str, ...]:
    """(H,) the outcomes; no outcome is an empty one."""
    is_list = isinstance(outcomes, Sequence) and not isinstance(outcomes, str)
    given = ["" if outcome is None else outcome for outcome in outcomes] if is_list else outcomes
    found = checked_texts(given, "outcomes")
    if len(found) != count:
        raise InputError(f"expected {count} outcomes (one per hypothesis), got {len(found)}")
    return found


def _check_total(counts: Ints) -> None:
    if counts.sum() > MAX_SAMPLES:
        raise InputError(f"counts add up to {counts.sum():,} samples of one segment; the maximum "
                         f"is {MAX_SAMPLES:,}: give weights instead")


def _numbers(values: npt.ArrayLike, count: int | None, name: str,
             of: str = "reference") -> Floats:
    try:
        given = np.asarray(values)
        array = given.astype(np.float64)
    except (TypeError, ValueError, OverflowError):
        raise InputError(f"{name} must be a list of numbers that a double can hold") from None
    if given.dtype.kind not in "biufO":
        raise InputError(f"{name} must be a list of numbers; found {given.dtype.name}")
    if array.ndim != 1 or (count is not None and array.size != count):
        wanted = "a list of" if count is None else str(count)
        raise InputError(f"expected {wanted} {name} (one per {of}), got {_shape(array)}")
    return array


def _shape(array: Floats) -> str:
    if array.ndim == 1:
        return str(array.size)
    return "a scalar" if array.ndim == 0 else f"a table of {' x '.join(map(str, array.shape))}"


def shortened(text: str) -> str:
    """A text for messages, quoted; only the beginning of a long one."""
    return repr(text if len(text) <= _MAX_SHOWN else f"{text[:_MAX_SHOWN]}...")


def checked_texts(texts: Sequence[Any], name: str) -> tuple[str, ...]:
    if isinstance(texts, str):
        raise InputError(f"{name} must be a list of strings, not one string")
    if not isinstance(texts, Iterable) or isinstance(texts, Set | Mapping):
        raise InputError(f"{name} must be a list of strings; found {type(texts).__name__}")
    result = tuple(texts)
    if not result:
        raise InputError(f"zero {name}; at least one is needed")
    for text in result:
        if not isinstance(text, str):
            raise InputError(f"{name} must be strings; found {type(text).__name__}: {brief(text)}")
    return result
