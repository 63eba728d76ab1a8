"""Any function of hypothesis and reference as a metric: `minrisk.decode(metric=function)`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

from minrisk._core.arrays import Floats
from minrisk._core.errors import InputError
from minrisk._core.metric import Metric
from minrisk._core.options import option
from minrisk.metrics._base import Objects, objects
from minrisk.metrics._pairwise import Pairs, as_scores


@dataclass(frozen=True)
class Function(Metric[Objects]):
    """a Python function that scores a hypothesis against a reference; higher is better"""

    loads_model: ClassVar[bool] = True  # it may, for all we know

    function: Callable[[str, str], float] = option(help="score of a pair", affects_results=False)

    @property
    def name(self) -> str:
        return str(getattr(self.function, "__name__", type(self.function).__name__))

    def features(self, texts: Any) -> Objects:
        return objects(texts)

    def scores(self, hyps: Objects, refs: Objects, source: object = None) -> Floats:
        """(H, R) the function's score of every pair."""
        try:
            found = [self.function(hyp, ref) for hyp, ref in Pairs.of(hyps, refs, None)]
        except InputError:
            raise
        except Exception as error:  # user code may fail in any way
            raise InputError(f"metric {self.name!r} failed: {type(error).__name__}: "
                             f"{error}") from error
        scores = as_scores(found, len(hyps) * len(refs), self.name, error=False)
        return scores.reshape(len(hyps), len(refs))
