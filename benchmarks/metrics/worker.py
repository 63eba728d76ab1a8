"""One library in a process of its own: JSON requests in, JSON answers out, a line each.

usage: worker.py minrisk | mbrs | originals, in the folder that models.py wrote

`names` lists its metrics; `run` goes from a list of strings to all utilities, "pairwise" or
"aggregate", with nothing kept from one call to the next. Higher is better in every answer.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Protocol
from unicodedata import category

os.environ.update(HF_HUB_OFFLINE="1", TOKENIZERS_PARALLELISM="false")

ENOUGH = 0.5  # seconds of calls
MOST, FEWEST = 20, 3  # calls, where one of them takes less than that
LAYER = 2  # of the encoder that BERTScore compares


class Library(Protocol):
    version: str

    def names(self) -> list[str]: ...

    def work(self, metric: str, work: str) -> Callable[[list[str]], list[float]]: ...


FOREIGN = Path(__file__).resolve().with_name("foreign.py")
VARIANTS: dict[str, dict[str, dict[str, Any]]] = {  # options of names that need some
    "rouge": {"rouge-1": {"n": 1}, "rouge-2": {"n": 2}},
    "comet": {"comet": {"aggregation": "mean"}},  # as mbrs averages
    "bertscore": {"bertscore": {"layer": LAYER}},
    "python": {"python": {"function": "foreign:overlap"}},
    "command": {"command": {"command": f"{sys.executable} -I {FOREIGN}"}},
    "cutoff": {"cutoff:edit": {"threshold": 0.5}},
}
WRAPPERS = {"combined": "chrf+bleu", "symmetric": "symmetric:edit", "cached": "cached:edit",
            "cutoff": "cutoff:edit", "documents": "documents:edit"}
LEFT_OUT = {"outcomes"}  # which is exact-match on another field


class Minrisk:
    """Each installed metric; those with a model find it under its published name."""

    def __init__(self) -> None:
        import minrisk
        from minrisk._core.registry import METRICS

        self.version = minrisk.__version__
        self.metrics: dict[str, Any] = {}
        for name in METRICS.builtin:
            if name in LEFT_OUT:
                continue
            made = WRAPPERS.get(name, name)
            for variant, options in VARIANTS.get(name, {made: {}}).items():
                self._add(variant, made, options)

    def _add(self, variant: str, name: str, options: dict[str, Any]) -> None:
        import minrisk
        from minrisk._core.registry import METRICS

        try:
            metric = METRICS.make(name, **options)
            metric.features(["whether it works"])
        except minrisk.MinriskError as error:
            print(f"{name} is left out: {error}", file=sys.stderr)
        else:
            self.metrics[variant] = metric

    def names(self) -> list[str]:
        return list(self.metrics)

    def work(self, metric: str, work: str) -> Callable[[list[str]], list[float]]:
        import minrisk
        from minrisk.plugins import Ability

        chosen = self.metrics[metric]
        if work == "aggregate" and (Ability.AVERAGES not in chosen.abilities
                                    or Ability.QUALITY in chosen.abilities):
            raise LookupError
        strategy = minrisk.make_strategy("standard" if work == "pairwise" else "aggregate", chosen)
        return lambda texts: minrisk.decode(
            texts, source=texts[0], strategy=strategy).utility.tolist()


class Mbrs:
    """The metrics of mbrs, as it sets them up; models on the hub are files of this folder."""

    def __init__(self) -> None:
        from importlib.metadata import version

        from mbrs import metrics

        self.version = version("mbrs")
        for module in (metrics.comet, metrics.cometkiwi, metrics.xcomet):
            module.download_model = lambda name: str(Path(name, "checkpoints", "model.ckpt"))
        kinds: dict[str, tuple[Any, dict[str, Any]]] = {
            "chrf": (metrics.MetricChrF, {"fastchrf": True}),
            "bleu": (metrics.MetricBLEU, {}),
            "ter": (metrics.MetricTER, {}),
            "comet": (metrics.MetricCOMET, {}),
            "comet-kiwi": (metrics.MetricCOMETkiwi, {}),
            "xcomet": (metrics.MetricXCOMET, {}),
            "bertscore": (metrics.MetricBERTScore, {
                "model_type": "google-bert/bert-base-multilingual-cased", "num_layers": LAYER}),
            "metricx": (metrics.MetricMetricX, {"model": "google/metricx-24-hybrid-large-v2p6"}),
            "bleurt": (metrics.MetricBLEURT, {"model": "lucadiliello/BLEURT-20"}),
        }
        self.metrics = {name: kind(kind.Config(**options))
                        for name, (kind, options) in kinds.items()}

    def names(self) -> list[str]:
        return list(self.metrics)

    def work(self, metric: str, work: str) -> Callable[[list[str]], list[float]]:
        from mbrs.metrics import MetricAggregatable, MetricReferenceless

        from mbrs import decoders

        chosen = self.metrics[metric]
        if work == "aggregate" and not isinstance(chosen, MetricAggregatable):
            raise LookupError
        rerank = isinstance(chosen, MetricReferenceless)
        kind = (decoders.DecoderRerank if rerank else decoders.DecoderMBR if work == "pairwise"
                else decoders.DecoderAggregateMBR)
        decoder = kind(kind.Config(), chosen)
        sign = 1 if chosen.HIGHER_IS_BETTER else -1

        def decode(texts: list[str]) -> list[float]:
            evidence = () if rerank else (texts,)
            output = decoder.decode(texts, *evidence, source=texts[0], nbest=len(texts))
            utility = dict(zip(output.idx, output.score, strict=True))
            return [sign * float(utility[i]) for i in range(len(texts))]

        return decode


class Originals:
    """The package that defines each metric, called for every pair as its users do."""

    packages: ClassVar[dict[str, str]] = {
        "chrf": "fastchrf", "bleu": "sacrebleu", "ter": "sacrebleu", "rouge-1": "rouge-score",
        "rouge-2": "rouge-score", "rouge-l": "rouge-score", "cider": "pycocoevalcap",
        "wer": "jiwer", "bertscore": "bert-score"}

    def __init__(self) -> None:
        from importlib.metadata import version

        self.version = ", ".join(f"{name} {version(name)}"
                                 for name in dict.fromkeys(self.packages.values()))

    def names(self) -> list[str]:
        return list(self.packages)

    def work(self, metric: str, work: str) -> Callable[[list[str]], list[float]]:
        if work == "aggregate" and metric != "chrf":
            raise LookupError
        return {"chrf": self._chrf(work), "bleu": self._bleu, "ter": self._ter,
                "wer": self._wer, "cider": self._cider, "bertscore": self._bertscore,
                }.get(metric) or self._rouge(metric)

    def _chrf(self, work: str) -> Callable[[list[str]], list[float]]:
        import fastchrf

        if work == "aggregate":
            return lambda texts: fastchrf.aggregate_chrf([texts], [texts])[0]
        return lambda texts: [sum(row) / len(row)
                              for row in fastchrf.pairwise_chrf([texts], [texts])[0]]

    def _bleu(self, texts: list[str]) -> list[float]:
        from sacrebleu.metrics import BLEU

        bleu = BLEU(effective_order=True)
        return _means(texts, lambda hyp, ref: bleu.sentence_score(hyp, [ref]).score)

    def _ter(self, texts: list[str]) -> list[float]:
        from sacrebleu.metrics import TER

        ter = TER()
        return _means(texts, lambda hyp, ref: -ter.sentence_score(hyp, [ref]).score)

    def _wer(self, texts: list[str]) -> list[float]:
        import jiwer

        return _means(texts, lambda hyp, ref: -100 * jiwer.wer(ref, hyp))

    def _rouge(self, metric: str) -> Callable[[list[str]], list[float]]:
        from rouge_score.rouge_scorer import RougeScorer

        name = {"rouge-1": "rouge1", "rouge-2": "rouge2", "rouge-l": "rougeL"}[metric]
        scorer = RougeScorer([name])
        return lambda texts: _means(
            texts, lambda hyp, ref: scorer.score(ref, hyp)[name].fmeasure)

    def _cider(self, texts: list[str]) -> list[float]:
        from pycocoevalcap.cider.cider_scorer import CiderScorer

        words = [_words(text) for text in texts]
        scorer = CiderScorer()
        for hyp in words:
            scorer += (hyp, words)
        # without document frequencies all n-grams weigh the same, as by our default
        return [float(score) for score in scorer.compute_cider()]

    def _bertscore(self, texts: list[str]) -> list[float]:
        scores = self._bert_scorer.score([hyp for hyp in texts for _ in texts], texts * len(texts))
        return scores[2].view(len(texts), len(texts)).double().mean(1).tolist()

    @cached_property
    def _bert_scorer(self) -> Any:
        from bert_score import BERTScorer

        return BERTScorer(model_type="google-bert/bert-base-multilingual-cased",
                          num_layers=LAYER, device="cpu")


def _means(texts: list[str], score: Callable[[str, str], float]) -> list[float]:
    return [sum(score(hyp, ref) for ref in texts) / len(texts) for hyp in texts]


def _words(text: str) -> str:
    """As our CIDEr splits texts by default."""
    return "".join(letter for letter in text.lower() if not category(letter).startswith("P"))


LIBRARIES: dict[str, Callable[[], Library]] = {
    "minrisk": Minrisk, "mbrs": Mbrs, "originals": Originals}


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
