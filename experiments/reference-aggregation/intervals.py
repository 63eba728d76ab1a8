"""95% confidence intervals, and tests of claims with them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from statistics import NormalDist
from typing import Any

Interval = tuple[float, float]
_Z = NormalDist().inv_cdf(0.975)
_SIX = 6  # of so many or more, the range holds the median in 95% of cases: 1 - 2 / 2**6


def of_share(found: Sequence[bool]) -> Interval:
    """Wilson's, which has a width also where all segments or none are right."""
    count, share = len(found), sum(found) / len(found)
    whole = 1 + _Z**2 / count
    middle = (share + _Z**2 / (2 * count)) / whole
    width = _Z * math.sqrt(share * (1 - share) / count + (_Z / (2 * count))**2) / whole
    return max(0.0, middle - width), min(1.0, middle + width)


def of_difference(found: Sequence[bool], rivals: Sequence[bool]) -> Interval:
    """Of two shares of the same segments (Bonett & Price 2012); it has a width likewise.

    Only segments on which the two differ count, and one more is added in favour of each.
    """
    pairs, count = list(zip(found, rivals, strict=True)), len(found) + 2
    won, lost = ((sum(own == side != rival for own, rival in pairs) + 1) / count
                 for side in (True, False))
    width = _Z * math.sqrt((won + lost - (won - lost)**2) / count)
    return max(-1.0, won - lost - width), min(1.0, won - lost + width)


def of_ratio(above: Sequence[float], below: Sequence[float]) -> Interval:
    """The range of the segments' own ratios; of few segments nothing is known."""
    ratios = [one / other for one, other in zip(above, below, strict=True)]
    return (min(ratios), max(ratios)) if len(ratios) >= _SIX else (0.0, math.inf)


def of_row(row: Mapping[str, Any]) -> Interval:
    """Of the difference of a score, which was resampled when it was measured."""
    return row["difference_low"], row["difference_high"]


def exceeds(interval: Interval, bound: float = 0.0) -> bool | None:
    """Whether a number is greater; None where it could be either."""
    low, high = interval
    return True if low > bound else False if high < bound else None


def within(interval: Interval, margin: float) -> bool | None:
    """Whether a number is nearer to zero than that."""
    low, high = interval
    return every([exceeds((-high, -low), -margin), exceeds((low, high), -margin)])


def every(parts: Iterable[bool | None]) -> bool | None:
    """Yes if all are, no if one is not, else undecided."""
    found = list(parts)
    return False if False in found else None if None in found else True
