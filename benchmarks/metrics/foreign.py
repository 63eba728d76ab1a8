"""Somebody else's metric, as a function and as a program: what the way to it costs."""

from __future__ import annotations

import json
import sys


def overlap(hypothesis: str, reference: str) -> float:
    return len({*hypothesis} & {*reference}) / (len({*hypothesis} | {*reference}) or 1)


if __name__ == "__main__":
    for line in sys.stdin:
        print(overlap(**json.loads(line)), flush=True)
