"""A program that compares formulas: a JSON list of two of them a line in, 1 or 0 out.

It is a process of its own because computer algebra may take for ever: its limits are alarms, which
only the main thread of a process can set, and what no alarm can stop is killed from outside.
"""

from __future__ import annotations

import json
import logging
import sys
from functools import lru_cache
from typing import Any

from math_verify import parse, verify

from minrisk.metrics.votes.math_answers import as_latex

_SECONDS = 2  # for each step
_MAX_FORMULA = 300  # characters


@lru_cache(4096)
def value(formula: str) -> tuple[Any, ...]:
    """What a formula means, as an expression and a text; nothing where it cannot be parsed."""
    if len(formula) > _MAX_FORMULA:
        return ()
    try:
        return tuple(parse(f"${as_latex(formula)}$", parsing_timeout=_SECONDS))
    except Exception:  # of texts that are no mathematics
        return ()


@lru_cache(1 << 16)
def are_equal(one: str, other: str) -> bool:
    ours, theirs = value(one), value(other)
    if not ours or not theirs:
        return False
    try:  # it treats the first as the truth, and would let an equation equal its right-hand side
        return all(verify([*a], [*b], timeout_seconds=_SECONDS)
                   for a, b in ((ours, theirs), (theirs, ours)))
    except Exception:
        return False


def main() -> None:
    logging.disable()  # nobody reads what it logs
    for line in sys.stdin:
        print(int(are_equal(*json.loads(line))), flush=True)


if __name__ == "__main__":
    main()
