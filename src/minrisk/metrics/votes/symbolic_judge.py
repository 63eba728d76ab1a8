"""A program that compares formulas: it reads a JSON list of two per line and writes 1 or 0.

It is a separate process because computer algebra may not terminate: its timeouts are alarms, which
only the main thread of a process can set, and if an alarm does not help, the process is killed.
"""

from __future__ import annotations

import json
import logging
import sys
from functools import lru_cache
from typing import Any

from math_verify import parse, verify

from minrisk.metrics.votes.math_answers import as_latex

_SECONDS = 2  # timeout of each step
_MAX_FORMULA = 300  # characters


@lru_cache(4096)
def value(formula: str) -> tuple[Any, ...]:
    """The parsed formula, as an expression and a string; empty if it cannot be parsed."""
    if len(formula) > _MAX_FORMULA:
        return ()
    try:
        return tuple(parse(f"${as_latex(formula)}$", parsing_timeout=_SECONDS))
    except Exception:  # the text is not mathematics
        return ()


@lru_cache(1 << 16)
def are_equal(one: str, other: str) -> bool:
    ours, theirs = value(one), value(other)
    if not ours or not theirs:
        return False
    try:  # both directions, because an equation would equal its right-hand side in one of them
        return all(verify([*a], [*b], timeout_seconds=_SECONDS)
                   for a, b in ((ours, theirs), (theirs, ours)))
    except Exception:
        return False


def main() -> None:
    logging.disable()  # nobody reads its log
    for line in sys.stdin:
        print(int(are_equal(*json.loads(line))), flush=True)


if __name__ == "__main__":
    main()
