"""A solver and an epochs reducer of Inspect that keep the consensus of many samples.

    inspect eval arc.py --solver minrisk/consensus -S n=16 -S metric=exact-match

Inspect finds them through the entry point `inspect_ai`.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from minrisk._core.decoding import METRIC, StrategyLike
from minrisk._core.errors import InputError, needs_extra
from minrisk._core.sampler import check_numbers
from minrisk.integrations.chooser import SAMPLES, Chooser, report

with needs_extra("minrisk.integrations.inspect_ai", "inspect-ai"):
    from anyio import to_thread
    from inspect_ai.scorer import Score, ScoreReducer, score_reducer
    from inspect_ai.solver import Generate, Solver, TaskState, fork, generate, solver


@solver
def consensus(n: int = SAMPLES, metric: str = METRIC, strategy: StrategyLike | None = None,
              metric_options: Mapping[str, Any] | None = None, sampled: Solver | None = None,
              **options: Any) -> Solver:
    """Run a solver on n copies of a sample, and continue with the best of their outputs.

    The metadata of the sample has the choice, its votes and its confidence as `minrisk`. If the
    choice abstains, the output is empty.

    Args:
        n: number of copies.
        metric, strategy, metric_options, options: as for `minrisk.decode_corpus`.
        sampled: the solver; default: `generate()`, without Inspect's cache.

    Raises:
        InputError: if a name or an option is wrong.
    """
    check_numbers(n, seed=0)
    choose = Chooser(metric, strategy, metric_options, **options)
    each = sampled or generate(cache=False)

    async def solve(state: TaskState, generate: Generate) -> TaskState:
        states = await fork(state, [each] * n)
        texts = [one.output.completion for one in states]
        found = await to_thread.run_sync(partial(choose, texts, state.input_text))
        best = states[found.ranking.best]
        if found.text != best.output.completion:  # it abstains, or the answer is composed
            best.output.completion = best.output.message.content = found.text or ""
            best.messages[-1:] = [best.output.message]
        # its store is that of the copy: what follows writes to that of the sample
        state.messages, state.output, state.completed = best.messages, best.output, best.completed
        state.metadata["minrisk"] = report(found)
        return state

    return solve


@score_reducer(name="minrisk/consensus")
def consensus_of_epochs(metric: str = METRIC, strategy: StrategyLike | None = None,
                        metric_options: Mapping[str, Any] | None = None,
                        **options: Any) -> ScoreReducer:
    """Reduce the scores of all epochs to the score of the epoch with the best answer.

    The metadata of the score has the choice, its votes and its confidence as `minrisk`. If the
    choice abstains, the score is unscored (NaN).

    Args:
        metric, strategy, metric_options, options: as for `minrisk.decode_corpus`.

    Raises:
        InputError: if a name or an option is wrong; when it reduces, if no score has an answer.
    """
    choose = Chooser(metric, strategy, metric_options, **options)

    def reduce(scores: list[Score]) -> Score:
        if all(score.answer is None for score in scores):
            raise InputError("no score has an answer to compare; expected a scorer that records "
                             "`answer`, as match(), includes() and model_graded_qa() do")
        found = choose([score.answer or "" for score in scores])
        best = scores[found.ranking.best]
        changes = {"value": float("nan")} if found.abstained else {}
        return best.model_copy(update={
            "metadata": {**(best.metadata or {}), "minrisk": report(found)}, **changes})

    return reduce
