"""One competitor in a process of its own: JSON requests in, JSON answers out, a line each.

usage: worker.py minrisk | fastchrf | mbrs

A library is imported by its own worker only. `work` is "exact" or "aggregate": from a list of
strings to all utilities and the choice, with nothing kept from one call to the next.
"""

from __future__ import annotations

import json
import resource
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

Answer = tuple[Iterable[float], int]  # the utility of each text, and the choice
Work = Callable[[list[str]], Answer]
SPOT = 8  # hypotheses of a spot check


def minrisk_works() -> dict[str, Work]:
    import minrisk

    def rank(texts: list[str], strategy: str) -> Answer:
        ranking = minrisk.decode(texts, metric="chrf", strategy=strategy)
        return ranking.utility, ranking.best

    return {
        "exact": lambda texts: rank(texts, "standard"),
        "aggregate": lambda texts: rank(texts, "aggregate"),
    }


def fastchrf_works() -> dict[str, Work]:
    import fastchrf
    import numpy as np

    def pairwise(hyps: list[str], refs: list[str]) -> Answer:
        utility = np.asarray(fastchrf.pairwise_chrf([hyps], [refs])[0]).mean(axis=1)
        return utility, int(utility.argmax())

    def aggregate(texts: list[str]) -> Answer:
        utility = np.asarray(fastchrf.aggregate_chrf([texts], [texts])[0])
        return utility, int(utility.argmax())

    return {
        "exact": lambda texts: pairwise(texts, texts),
        "spot": lambda texts: pairwise(texts[:SPOT], texts),
        "aggregate": aggregate,
    }


def mbrs_works() -> dict[str, Work]:
    from mbrs.decoders import DecoderAggregateMBR, DecoderMBR
    from mbrs.metrics import MetricChrF

    metric = MetricChrF(MetricChrF.Config(fastchrf=True))

    def decode(decoder: Any, texts: list[str]) -> Answer:
        output = decoder.decode(texts, texts, nbest=len(texts))
        utility = dict(zip(output.idx, output.score, strict=True))
        return [float(utility[i]) for i in range(len(texts))], int(output.idx[0])

    exact = DecoderMBR(DecoderMBR.Config(), metric)
    aggregate = DecoderAggregateMBR(DecoderAggregateMBR.Config(), metric)
    return {
        "exact": lambda texts: decode(exact, texts),
        "aggregate": lambda texts: decode(aggregate, texts),
    }


COMPETITORS = {"minrisk": minrisk_works, "fastchrf": fastchrf_works, "mbrs": mbrs_works}


def memory() -> tuple[int, int]:
    """Bytes in memory now, and at most so far.

    Linux counts the parent's peak into `ru_maxrss` of a new process, but not into VmHWM.
    """
    status = Path("/proc/self/status")
    if not status.exists():
        unit = 1 if sys.platform == "darwin" else 1024
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
        return peak, peak
    fields = dict(line.split(":", 1) for line in status.read_text().splitlines())
    now, peak = (int(fields[name].split()[0]) * 1024 for name in ("VmRSS", "VmHWM"))
    return now, peak


class Worker:
    """Remembers the texts between requests, and nothing else."""

    def __init__(self, name: str) -> None:
        self.works = COMPETITORS[name]()
        self.texts: list[str] = []

    def set(self, texts: list[str]) -> dict[str, Any]:
        self.texts = texts
        return {}

    def answer(self, work: str) -> dict[str, Any]:
        """What is compared before anything is timed."""
        before, _ = memory()
        start = time.perf_counter()
        utility, best = self.works[work](self.texts)
        seconds = time.perf_counter() - start
        return {"utility": [float(u) for u in utility], "best": best, "seconds": seconds,
                "extra_bytes": memory()[1] - before}

    def time(self, work: str, warmup: int, calls: int) -> dict[str, Any]:
        run = self.works[work]
        for _ in range(warmup):
            run(self.texts)
        seconds = []
        for _ in range(calls):
            start = time.perf_counter()
            run(self.texts)
            seconds.append(time.perf_counter() - start)
        return {"seconds": seconds}


def main() -> None:
    worker = Worker(sys.argv[1])
    for line in sys.stdin:
        request = json.loads(line)
        answer = getattr(worker, request.pop("do"))(**request)
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
