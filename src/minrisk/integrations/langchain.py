"""A `Runnable` of LangChain that runs another one many times and returns the consensus.

    from minrisk.integrations.langchain import consensus

    chain = prompt | consensus(model, n=16, metric="chrf") | StrOutputParser()
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from minrisk._core.decoding import METRIC, MetricLike, StrategyLike
from minrisk._core.errors import InputError, needs_extra
from minrisk._core.sampler import check_numbers
from minrisk.integrations.chooser import SAMPLES, Chooser, report, successful

with needs_extra("minrisk.integrations.langchain", "langchain"):
    from langchain_core.messages import BaseMessage
    from langchain_core.runnables import Runnable, RunnableConfig, RunnableLambda


def consensus(runnable: Runnable[Any, Any], n: int = SAMPLES, metric: MetricLike = METRIC,
              strategy: StrategyLike | None = None,
              metric_options: Mapping[str, Any] | None = None,
              **options: Any) -> Runnable[Any, Any]:
    """A runnable that returns the best of n outputs of another one, which are messages or strings.

    A message has the choice, its votes and its confidence as `response_metadata["minrisk"]`. If the
    choice abstains, the output is empty.

    Args:
        runnable: a chat model, a chain that ends with one, or any runnable with such outputs.
        n: number of outputs, of which `max_concurrency` of the config run at a time.
        metric, strategy, metric_options, options: as for `minrisk.decode_corpus`.

    Raises:
        InputError: if a name or an option is wrong; when it runs, if an output has no text.
        Exception: when it runs, that of the first run, if all fail; other failures are a warning.
    """
    check_numbers(n, seed=0)
    choose = Chooser(metric, strategy, metric_options, **options)

    def run(given: Any, config: RunnableConfig) -> Any:
        return _best(choose, runnable.batch([given] * n, config, return_exceptions=True))

    async def arun(given: Any, config: RunnableConfig) -> Any:
        outputs = await runnable.abatch([given] * n, config, return_exceptions=True)
        return await asyncio.to_thread(_best, choose, outputs)

    return RunnableLambda(run, arun, name="consensus")


def _best(choose: Chooser, runs: Sequence[Any]) -> Any:
    outputs = successful(runs)
    found = choose([_text(output) for output in outputs])
    best = outputs[found.ranking.best]
    text = found.text or ""
    if isinstance(best, str):
        return text
    metadata = {**best.response_metadata, "minrisk": report(found)}
    changes = {} if text == best.text else {"content": text}
    return best.model_copy(update={"response_metadata": metadata, **changes})


def _text(output: Any) -> str:
    if isinstance(output, BaseMessage):
        return str(output.text)
    if isinstance(output, str):
        return output
    raise InputError(f"an output is of type {type(output).__name__}; expected messages or strings: "
                     "put consensus() after the model, before a parser of objects")
