"""Number formats of the page and the claims."""

from __future__ import annotations

from typing import Any

from intervals import Interval, of_row


def digits(score: float) -> int:
    """Decimal places: two for scores up to 100, four for scores up to 1."""
    return 2 if abs(score) >= 10 else 4


def number(score: float) -> str:
    return f"{score:.{digits(score)}f}"


def with_interval(value: float, interval: Interval, form: str = ".3f") -> str:
    low, high = interval
    return f"{value:{form}} ({low:{form}} to {high:{form}})"


def difference(row: dict[str, Any], score: float) -> str:
    """With its interval, in the digits of such a score."""
    return with_interval(row["difference"], of_row(row), f"+.{digits(score)}f")
