"""A program that compares mathematical answers: a JSON list of two texts a line in, 1 or 0 out.

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

_SECONDS = 2  # for each step
_MAX_ANSWER = 300  # characters; a longer one is no short answer


@lru_cache(4096)
def answer(text: str) -> tuple[Any, ...]:
    """What a text answers, as expressions; nothing where it answers nothing."""
    try:
        found = tuple(parse(text, parsing_timeout=_SECONDS))
    except Exception:  # of texts that are no mathematics
        return ()
    return () if any(isinstance(own, str) and len(own) > _MAX_ANSWER for own in found) else found


def are_equal(one: str, other: str) -> bool:
    ours, theirs = answer(one), answer(other)
    if not ours or not theirs:
        return False
    if ours[-1] == theirs[-1]:  # as they are written
        return True
    try:  # it treats the first as the truth, and its rules for either side differ
        return any(verify([*a], [*b], timeout_seconds=_SECONDS)
                   for a, b in ((ours, theirs), (theirs, ours)))
    except Exception:
        return False


def main() -> None:
    logging.disable()  # nobody reads what it logs
    for line in sys.stdin:
        print(int(are_equal(*json.loads(line))), flush=True)


if __name__ == "__main__":
    main()
