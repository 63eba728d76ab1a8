"""Scores of the native core and of its plain twin, side by side."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from minrisk.testing import Case
from tolerance import assert_close


def check_twin(metric: Any, case: Case) -> None:
    """Both give the same numbers, for texts and for averages."""
    native = _everything(metric, case)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("minrisk._core.native.native_core", lambda: None)
        for ours, plain in zip(native, _everything(metric, case), strict=True):
            assert_close(ours, plain, scale=100)


def _everything(metric: Any, case: Case) -> list[np.ndarray]:
    hyps, refs = metric.features(case.hyps), metric.features(case.refs)
    averages = metric.aggregate(refs, case.groups)
    statistics = metric.partial_statistics(hyps, averages, case.groups.mass)
    return [metric.scores(hyps, refs), metric.scores(hyps, averages),
            metric.utility(hyps, averages, case.groups.mass), metric.finalize(hyps, statistics)]
