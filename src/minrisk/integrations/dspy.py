"""A module of DSPy that runs another one many times and keeps the consensus.

    from minrisk.integrations.dspy import Consensus

    answer = Consensus(dspy.ChainOfThought("question -> answer"), n=16, metric="chrf")
    answer(question="Why is the sky blue?").answer

`dspy.majority` counts equal answers; by a metric of similarity, open questions have a consensus,
too.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from minrisk._core.decoding import METRIC, MetricLike, StrategyLike
from minrisk._core.errors import InputError, UnusableError, needs_extra, unknown
from minrisk._core.sampler import check_numbers
from minrisk.integrations.chooser import SAMPLES, Chooser, report, successful

with needs_extra("minrisk.integrations.dspy", "dspy"):
    import dspy
    from pydantic import TypeAdapter
    from pydantic_core import to_json

_Run = tuple[Any, list[Any]]  # a prediction, and its trace


class Consensus(dspy.Module):
    """Runs a module n times, each with a rollout of its own, and keeps the best prediction.

    Predictions are compared by one output field; values that are not strings, as JSON. The
    prediction has the field `minrisk` with the choice, its votes and its confidence; if the choice
    abstains, the output field is None.

    Args:
        module: a module with one language model, or that of `dspy.configure`.
        n: number of predictions.
        field: the output field to compare [default: the last].
        temperature: temperature of the samples.
        metric, strategy, metric_options, options: as for `minrisk.decode_corpus`.

    Raises:
        InputError: if a name or an option is wrong.
    """

    def __init__(self, module: dspy.Module, n: int = SAMPLES, field: str | None = None,
                 temperature: float = 1.0, metric: MetricLike = METRIC,
                 strategy: StrategyLike | None = None,
                 metric_options: Mapping[str, Any] | None = None, **options: Any) -> None:
        super().__init__()
        self.module = module
        check_numbers(n, seed=0)
        self.n = n
        self.field = field
        self.temperature = temperature
        self.choose = Chooser(metric, strategy, metric_options, **options)

    def forward(self, **inputs: Any) -> Any:
        run = dspy.Parallel(num_threads=self.n, disable_progress_bar=True)
        return self._best(run([(_run, (module, inputs)) for module in self._rollouts()]))

    async def aforward(self, **inputs: Any) -> Any:
        runs = await asyncio.gather(*(_arun(module, inputs) for module in self._rollouts()),
                                    return_exceptions=True)
        return await asyncio.to_thread(self._best, successful(runs))

    def _rollouts(self) -> list[Any]:
        """Copies of the module, which DSPy's cache tells apart by their rollout."""
        model = self.module.get_lm() or dspy.settings.lm
        if model is None:
            raise InputError("DSPy has no language model; call dspy.configure(lm=dspy.LM(...))")
        first = model.kwargs.get("rollout_id") or 0
        modules = [self.module.deepcopy() for _ in range(self.n)]
        for number, module in enumerate(modules, first + 1):
            module.set_lm(model.copy(rollout_id=number, temperature=self.temperature))
        return modules

    def _best(self, runs: Sequence[_Run | None]) -> Any:
        able = [run for run in runs if run is not None]  # others failed, and DSPy has logged why
        if not able:
            raise UnusableError("all runs of the module failed; see DSPy's log")
        field = self.field or list(able[0][0].keys())[-1]
        if any(field not in prediction for prediction, _ in able):
            raise unknown("field of the predictions", field, able[0][0].keys())
        values = [prediction[field] for prediction, _ in able]
        texts = [value if isinstance(value, str) else to_json(value).decode() for value in values]
        found = self.choose(texts)
        best = found.ranking.best
        prediction, trace = able[best]
        if found.text != texts[best]:  # it abstains, or the answer is composed
            prediction[field] = _value(found.text, values[best])
        prediction["minrisk"] = report(found)
        if dspy.settings.trace is not None:
            dspy.settings.trace.extend(trace)
        return prediction


def _run(module: Any, inputs: Mapping[str, Any]) -> _Run:
    with dspy.context(trace=[]):
        return module(**inputs), list(dspy.settings.trace)


async def _arun(module: Any, inputs: Mapping[str, Any]) -> _Run:
    with dspy.context(trace=[]):
        return await module.acall(**inputs), list(dspy.settings.trace)


def _value(text: str | None, like: Any) -> Any:
    """A text as a value of the field's type."""
    return text if text is None or isinstance(like, str) else TypeAdapter(
        type(like)).validate_json(text)
