"""Checked arguments of a segment: texts, counts, lengths, and the weights of references."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from typing import Any

import numpy as np
import numpy.typing as npt

from minrisk._core.arrays import Floats, Ints, numbered, sums
from minrisk._core.errors import InputError, brief

MAX_SAMPLES = 1 << 20  # per segment, because a count of k becomes k references
_MAX_LOGPROB = 0.01  # not 0, because rounding errors add up over the tokens of a text


def normalised(weights: npt.ArrayLike | None, count: int) -> Floats:
    """Weights that sum to 1; uniform if none are given."""
    if weights is None:
        return np.full(count, 1.0 / count)
    given = checked_weights(weights, count)
    largest = given.max()
    if largest == 0:
        raise InputError("weights are all zero; at least one must be positive")
    scaled = given / largest  # prevents overflow of the sum
    result: Floats = scaled / scaled.sum()
    return result


def checked_weights(weights: npt.ArrayLike, count: int) -> Floats:
    """(R,) finite, non-negative weights, not normalised."""
    given = checked_numbers(weights, count, "weights")
    _check_each(np.isfinite(given) & (given >= 0), given, "weights must be finite and not negative")
    return given


def weights_from_logprobs(logprobs: npt.ArrayLike, texts: Sequence[str] | None = None,
                          counts: npt.ArrayLike | None = None, *,
                          lengths: npt.ArrayLike | None = None,
                          temperature: float = 1.0) -> Floats:
    """Return weights for model-based MBR: the weight of a distinct text is its probability.

    The number of samples of a text does not count on top of its probability, so equal texts share
    the weight of the most probable one. Pass the result as `weights`, together with the same texts
    and counts; weights times counts sum to 1.

    Args:
        logprobs: the log-probability of each text under the model; not above 0.
        texts: the references; without them, all are assumed to be distinct.
        counts: number of equal samples that each text stands for [default: 1].
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
    given = checked_logprobs(logprobs, None if texts is None else len(texts))
    check_not_positive(given)
    copies = (np.ones(given.size) if counts is None
              else checked_counts(counts, given.size).astype(np.float64))
    inverse, likeliest = _distinct_texts(texts, given)
    with np.errstate(over="ignore"):  # -inf is a probability of 0
        logs = (given if lengths is None else given / _divisors(lengths, given.size))[likeliest]
        if not np.isfinite(logs.max()):
            raise InputError("logprobs divided by lengths must be numbers that a double can hold; "
                             f"found {logs.max()}")
        probability = normalised(np.exp((logs - logs.max()) / temperature), logs.size)
    weights: Floats = (probability / sums(inverse, copies, logs.size))[inverse]
    return weights


def weights_from_confidences(confidences: npt.ArrayLike, counts: npt.ArrayLike | None = None, *,
                             temperature: float = 1.0, keep: float = 1.0) -> Floats:
    """Weights of samples by how confident the model was of them: exp(confidence / temperature).

    Unlike those of log-probabilities, they apply to each of several equal samples. Weights times
    counts sum to 1.

    Args:
        confidences: of each text, on any scale; higher is surer.
        counts: number of equal samples that each text stands for [default: 1].
        temperature: divisor of the confidences.
        keep: share of the samples, the surest ones, that have a weight; the others have none.

    >>> weights_from_confidences([-1.0, -2.0, -3.0], [1, 1, 2], keep=0.5).round(2).tolist()
    [0.73, 0.27, 0.0]
    """
    given = checked_numbers(confidences, None, "confidences", "sample")
    copies = (np.ones(given.size) if counts is None
              else checked_counts(counts, given.size).astype(np.float64))
    wrong = np.flatnonzero(~np.isfinite(given))
    if wrong.size:
        raise InputError(f"confidences must be finite numbers; found {given[wrong[0]]} as number "
                         f"{wrong[0] + 1}: leave out that sample, or use other weights")
    order = np.argsort(-given, kind="stable")
    kept = np.empty(given.size)
    left = np.ceil(keep * copies.sum() - 1e-9) - np.cumsum(copies[order])
    kept[order] = np.clip(left / copies[order] + 1, 0, 1)  # of equal samples, perhaps some
    with np.errstate(under="ignore"):
        masses = kept * np.exp((given - given.max()) / temperature)
    weights: Floats = masses / (masses @ copies)
    return weights


def _distinct_texts(texts: Sequence[str] | None, logprobs: Floats) -> tuple[Ints, Ints]:
    """The position of each text among the distinct ones, and the most probable row of each."""
    if texts is None:
        return np.arange(logprobs.size), np.arange(logprobs.size)
    known: dict[str, int] = {}
    inverse = numbered(checked_texts(texts, "references"), known)
    by_text = np.lexsort((-logprobs, inverse))
    return inverse, by_text[np.searchsorted(inverse[by_text], np.arange(len(known)))]


def checked_logprobs(logprobs: npt.ArrayLike, count: int | None,
                     of: str = "reference") -> Floats:
    given = checked_numbers(logprobs, count, "logprobs", of)
    wrong = np.flatnonzero(~(given < np.inf))
    if wrong.size or not np.any(np.isfinite(given)):
        shown = f"{given[wrong[0]]} as number {wrong[0] + 1}" if wrong.size else "none that is"
        raise InputError("logprobs must be numbers below infinity, at least one of them finite; "
                         f"found {shown}")
    return given


def check_not_positive(logprobs: Floats) -> None:
    """Raise an error for positive values, such as losses, which would reverse the weights."""
    _check_each(~(logprobs > _MAX_LOGPROB), logprobs, "logprobs must not be above 0",
                "; negate losses, take the logarithm of probabilities, give other scores as "
                "weights, or leave them out")


def _divisors(lengths: npt.ArrayLike, count: int) -> Floats:
    given = checked_numbers(lengths, count, "lengths")
    _check_each((given > 0) & np.isfinite(given), given, "lengths must be positive")
    return given


def checked_counts(counts: npt.ArrayLike, count: int) -> Ints:
    given = checked_numbers(counts, count, "counts", "sample")
    _check_each((given >= 1) & (given == np.floor(given)), given,
                "counts must be integers of at least 1")
    if not given.sum() < np.iinfo(np.intp).max:
        raise InputError(f"counts add up to {given.sum():g}, which is too large")
    return given.astype(np.intp)


def checked_outcomes(outcomes: Sequence[str | None], count: int) -> tuple[str, ...]:
    """(H,) the outcomes, with an empty string for None."""
    is_list = isinstance(outcomes, Sequence) and not isinstance(outcomes, str)
    given = ["" if outcome is None else outcome for outcome in outcomes] if is_list else outcomes
    texts = checked_texts(given, "outcomes")
    if len(texts) != count:
        raise InputError(f"expected {count} outcomes (one per hypothesis), got {len(texts)}")
    return texts


def checked_models(models: Sequence[str | None], count: int) -> list[str | None]:
    """(H,) the names of models."""
    is_list = isinstance(models, Sequence) and not isinstance(models, str)
    given = list(models) if is_list else []
    if len(given) != count or not all(isinstance(name, str | None) for name in given):
        raise InputError(f"models must be a list of {count} names (one per hypothesis); got "
                         f"{brief(models)}")
    return given


def check_total(counts: Ints) -> None:
    if counts.sum() > MAX_SAMPLES:
        raise InputError(f"counts add up to {counts.sum():,} samples of one segment; the maximum "
                         f"is {MAX_SAMPLES:,}: give weights instead")


def checked_numbers(values: npt.ArrayLike, count: int | None, name: str,
                    of: str = "reference") -> Floats:
    """(count,) the values as an array; messages say "one per `of`"."""
    try:
        given = np.asarray(values)
        array = given.astype(np.float64)
    except (TypeError, ValueError, OverflowError):
        raise InputError(f"{name} must be a list of numbers, one per {of}, that a double can hold; "
                         f"got {brief(values)}") from None
    if given.dtype.kind not in "biufO":
        raise InputError(f"{name} must be a list of numbers; found {given.dtype.name}")
    if array.ndim != 1 or (count is not None and array.size != count):
        wanted = "a list of" if count is None else str(count)
        raise InputError(f"expected {wanted} {name} (one per {of}), got {_shape(array)}")
    return array


def _check_each(is_valid: npt.NDArray[np.bool_], given: Floats, wanted: str,
                advice: str = "") -> None:
    """Raise an error for the first number that is not valid."""
    for place in np.flatnonzero(~is_valid).tolist():
        raise InputError(f"{wanted}; found {given[place]:g} as number {place + 1}{advice}")


def _shape(array: Floats) -> str:
    if array.ndim == 1:
        return str(array.size)
    return "a scalar" if array.ndim == 0 else f"a table of {' x '.join(map(str, array.shape))}"


def checked_texts(texts: Sequence[Any], name: str) -> tuple[str, ...]:
    if isinstance(texts, str):
        raise InputError(f"{name} must be a list of strings, not one string")
    if not isinstance(texts, Iterable) or isinstance(texts, Set | Mapping):
        raise InputError(f"{name} must be a list of strings; found {type(texts).__name__}")
    # iterating over an Arrow column gives scalars, not strings
    result = tuple(texts.to_pylist() if hasattr(texts, "to_pylist") else texts)
    if not result:
        raise InputError(f"zero {name}; at least one is needed")
    for text in result:
        if not isinstance(text, str):
            raise InputError(f"{name} must be strings; found {type(text).__name__}: {brief(text)}")
    return tuple(map(str, result))  # plain strings, not np.str_
