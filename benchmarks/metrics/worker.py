"""One library in a process of its own: JSON requests in, JSON answers out, a line each.

usage: worker.py minrisk | mbrs

`names` lists its metrics; `run` goes from a list of strings to all utilities, "pairwise" or
"aggregate", with nothing kept from one call to the next. Higher is better in every answer.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from typing import Any, Protocol

ENOUGH = 1.0  # seconds of calls
MOST, FEWEST = 20, 3  # calls, where one of them takes less than that


class Library(Protocol):
    version: str

    def names(self) -> list[str]: ...

    def work(self, metric: str, work: str) -> Callable[[list[str]], list[float]]: ...


VARIANTS = {"rouge": {"rouge-1": {"n": 1}, "rouge-2": {"n": 2}}}


class Minrisk:
    """Each installed metric that needs neither an argument nor a model's files."""

    def __init__(self) -> None:
        import minrisk

        self.version = minrisk.__version__
        self.metrics: dict[str, Any] = {}
        for name in minrisk.registry.METRICS.builtin:
            for variant, options in VARIANTS.get(name, {name: {}}).items():
                self._add(variant, name, options)

    def _add(self, variant: str, name: str, options: dict[str, Any]) -> None:
        import minrisk

        try:
            metric = minrisk.registry.METRICS.make(name, **options)
            metric.features(["whether it works"])
        except minrisk.MinriskError as error:
            print(f"{name} is left out: {error}", file=sys.stderr)
        else:
            self.metrics[variant] = metric

    def names(self) -> list[str]:
        return list(self.metrics)

    def work(self, metric: str, work: str) -> Callable[[list[str]], list[float]]:
        import minrisk
        from minrisk.metric import Aggregates

        chosen = self.metrics[metric]
        if work == "aggregate" and not isinstance(chosen, Aggregates):
            raise LookupError
        strategy = minrisk.make_strategy("standard" if work == "pairwise" else "aggregate", chosen)
        return lambda texts: minrisk.decode(texts, strategy=strategy).utility.tolist()


class Mbrs:
    """The metrics of mbrs that need no model's files, as it sets them up."""

    def __init__(self) -> None:
        from importlib.metadata import version

        from mbrs.metrics import MetricBLEU, MetricChrF, MetricTER

        self.version = version("mbrs")
        self.metrics = {"chrf": MetricChrF(MetricChrF.Config(fastchrf=True)),
                        "bleu": MetricBLEU(MetricBLEU.Config()),
                        "ter": MetricTER(MetricTER.Config())}

    def names(self) -> list[str]:
        return list(self.metrics)

    def work(self, metric: str, work: str) -> Callable[[list[str]], list[float]]:
        from mbrs.decoders import DecoderAggregateMBR, DecoderMBR
        from mbrs.metrics import MetricAggregatable

        chosen = self.metrics[metric]
        if work == "aggregate" and not isinstance(chosen, MetricAggregatable):
            raise LookupError
        kind = DecoderMBR if work == "pairwise" else DecoderAggregateMBR
        decoder = kind(kind.Config(), chosen)
        sign = 1 if chosen.HIGHER_IS_BETTER else -1

        def decode(texts: list[str]) -> list[float]:
            output = decoder.decode(texts, texts, nbest=len(texts))
            utility = dict(zip(output.idx, output.score, strict=True))
            return [sign * float(utility[i]) for i in range(len(texts))]

        return decode


LIBRARIES: dict[str, Callable[[], Library]] = {"minrisk": Minrisk, "mbrs": Mbrs}


def run(work: Callable[[list[str]], list[float]], texts: list[str]) -> dict[str, Any]:
    """The utilities, and the time of each call; a call that is long enough is made once."""
    seconds: list[float] = []
    while True:
        start = time.perf_counter()
        utility = work(texts)
        seconds.append(time.perf_counter() - start)
        if seconds[0] > ENOUGH or len(seconds) == MOST:
            break
        if len(seconds) > FEWEST and sum(seconds) > ENOUGH:
            break
    return {"utility": utility, "seconds": seconds[1:] or seconds}  # the first is a warm-up


def answer(library: Library, request: dict[str, Any]) -> dict[str, Any]:
    if request["do"] == "names":
        return {"names": library.names(), "version": library.version}
    try:
        work = library.work(request["metric"], request["work"])
    except LookupError:
        return {"cannot": True}
    return run(work, request["texts"])


def main() -> None:
    answers, sys.stdout = sys.stdout, sys.stderr  # what a library prints is no answer
    library = LIBRARIES[sys.argv[1]]()
    for line in sys.stdin:
        print(json.dumps(answer(library, json.loads(line))), file=answers, flush=True)


if __name__ == "__main__":
    main()
