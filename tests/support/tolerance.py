"""Floats are compared in units of their own rounding, so that every CPU passes.

Instruction sets, batch shapes and threads add in other orders, and each sum errs by some roundings
of its largest part. A tolerance therefore has a precision and a size, and is no number by itself.
"""

from __future__ import annotations

from typing import Any

import numpy as np

# From 1 to the next number, and how many of them a tolerance has. They were measured on several
# instruction sets: a whole network strays by up to 60 of them in single precision, by 5 in half,
# which adds up in single precision and rounds what it stores.
EPS = {"fp64": 2.0**-52, "fp32": 2.0**-23, "tf32": 2.0**-10, "fp16": 2.0**-10, "bf16": 2.0**-7}
# The smallest number of single precision, in which sums are taken, that keeps its precision; below
# it, roundings are as large as there.
NORMAL = 2.0**-126
ULPS = {"fp64": 256, "fp32": 256, "tf32": 8, "fp16": 16, "bf16": 8}
SINGLE = ULPS["fp32"] * EPS["fp32"]  # for the contract of metrics that compute in it


def assert_close(found: Any, expected: Any, dtype: str = "fp64", *, ulps: float | None = None,
                 scale: float = 0.0) -> None:
    """Apart by so many roundings in `dtype` of the largest expected value, at most.

    `scale` is the size of what was added up, where the results may be smaller: differences of
    large numbers, or scores of texts that have nothing in common.
    """
    ours, theirs = _numbers(found), _numbers(expected)
    size = max(scale, NORMAL,
               float(np.abs(theirs[np.isfinite(theirs)]).max(initial=0.0)))
    roundings = ULPS[dtype] if ulps is None else ulps
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=roundings * EPS[dtype] * size)


def assert_no_worse(found: Any, plain: Any, exact: Any) -> None:
    """The error is at most twice that of a plain computation in the same precision.

    The root of its mean square: the largest error of all is a matter of luck.
    """
    ours, theirs = (np.sqrt(np.mean((_numbers(x) - _numbers(exact)) ** 2)) for x in (found, plain))
    assert ours <= 2 * theirs, (ours, theirs)


def _numbers(values: Any) -> np.ndarray:
    """As float64, also from a tensor on any device."""
    if hasattr(values, "detach"):
        values = values.detach().double().cpu().numpy()
    return np.asarray(values, np.float64)
