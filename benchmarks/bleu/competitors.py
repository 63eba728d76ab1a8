"""Who takes part, each in a process of its own, by the rules of chrF's benchmark beside this one.

usage: competitors.py minrisk | chrf | sacrebleu
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "chrf"))

import worker
from worker import SPOT, Answer, Work


def minrisk_works(metric: str) -> dict[str, Work]:
    import minrisk

    def rank(texts: list[str], strategy: str) -> Answer:
        ranking = minrisk.decode(texts, metric=metric, strategy=strategy)
        return ranking.utility, ranking.best

    return {
        "exact": lambda texts: rank(texts, "standard"),
        "aggregate": lambda texts: rank(texts, "aggregate"),
    }


def sacrebleu_works() -> dict[str, Work]:
    from sacrebleu.metrics.bleu import BLEU

    def spot(texts: list[str]) -> Answer:
        bleu = BLEU(effective_order=True)
        utility = [sum(bleu.sentence_score(hyp, [ref]).score for ref in texts) / len(texts)
                   for hyp in texts[:SPOT]]
        return utility, utility.index(max(utility))

    return {"spot": spot}


worker.COMPETITORS = {
    "minrisk": lambda: minrisk_works("bleu"),
    "chrf": lambda: minrisk_works("chrf"),
    "sacrebleu": sacrebleu_works,
}

if __name__ == "__main__":
    worker.main()
