"""The timed implementations, ours and the paper's, of sampling and of each utility.

The paper's, reimplemented: samples and beams by `generate` in fp32, one source at a time; chrF by
fastChrF, which is the authors'; COMET in fp32, texts in file order, then triples of source,
hypothesis and reference gathered in batches. Texts are tokenized before its clock starts.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from importlib.resources import as_file, files
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import torch
from methods import AGGREGATION, STANDARD, TO_FINE

import minrisk
from minrisk import Aggregate, AggregateToFine, Segment, Standard
from minrisk._core.metric import AnyMetric
from minrisk.samplers.hf import Transformers

sys.path.append(str(Path(__file__).resolve().parents[2] / "benchmarks" / "comet"))
import models
import peers

EPSILON, KEEP, BEAMS = 0.02, 20, 5
BEAM, SAMPLE, SAMPLES = "beam search", "epsilon sampling", "samples"
METHODS: dict[str, Callable[[AnyMetric], Any]] = {
    STANDARD: Standard, AGGREGATION: Aggregate,
    TO_FINE: lambda metric: AggregateToFine(metric, KEEP)}
OURS, THEIRS = "minrisk", "paper"
Found = dict[str, dict[str, Any]]  # our way and the paper's, each with its methods


@dataclass(frozen=True)
class Clock:
    """Seconds of calls, with the device's work done."""

    device: str

    def __call__(self, work: Callable[[], Any]) -> float:
        self._wait()
        start = time.perf_counter()
        work()
        self._wait()
        return time.perf_counter() - start

    def each(self, way: str, method: str, work: Callable[[Any], Any],
             items: Iterable[Any]) -> list[float]:
        found = [self(lambda item=item: work(item)) for item in items]
        say(f"  {method}, {way}: {', '.join(f'{seconds:.3g}' for seconds in found)} s")
        return found

    def _wait(self) -> None:
        if self.device == "cuda":
            torch.cuda.synchronize()


@dataclass(frozen=True)
class Work:
    """What a part measures."""

    segments: list[Segment]
    few: int  # of them for the paper's way, which takes long
    samples: int  # of a segment
    model: str | None
    clock: Clock

    def warm_up(self, texts: Sequence[Any]) -> Sequence[Any]:
        """As many as are measured where kernels are chosen by shape."""
        return texts if self.clock.device == "cuda" else texts[:KEEP]


def sampling(work: Work) -> Found:
    sources = [str(segment.source) for segment in work.segments]
    return {OURS: ours(work, sources), THEIRS: theirs(work, sources[: work.few])}


def ours(work: Work, sources: Sequence[str]) -> dict[str, float]:
    """All sources at once: how they are batched is for the sampler to say."""
    clock, samples = work.clock, work.samples
    beams = Transformers(model=work.model, device=clock.device, beams=BEAMS)
    drawn = Transformers(model=work.model, device=clock.device, epsilon=EPSILON)
    calls = {BEAM: lambda own: beams.sample(own, 1), SAMPLE: lambda own: drawn.sample(own, 1),
             SAMPLES: lambda own: drawn.sample(own, samples)}
    beams.sample(sources[:1], 1)
    # graphs are recorded once, for batches of one size
    drawn.sample(sources if clock.device == "cuda" else sources[:1], samples)
    return {"segments": len(sources)} | {
        name: fmean(clock.each(OURS, name, call, [sources])) / len(sources)
        for name, call in calls.items()}


def theirs(work: Work, sources: Sequence[str]) -> dict[str, float]:
    """`generate` in fp32, one source after the other."""
    from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

    device = work.clock.device
    tokenizer = AutoTokenizer.from_pretrained(work.model)
    loaded = AutoModelForSeq2SeqLM.from_pretrained(work.model).to(device).eval()
    given = [tokenizer([source], return_tensors="pt").to(device) for source in sources]
    draw = {"do_sample": True, "num_beams": 1, "top_k": 0, "epsilon_cutoff": EPSILON}
    ways: dict[str, dict[str, Any]] = {
        BEAM: {"num_beams": BEAMS, "do_sample": False}, SAMPLE: draw,
        SAMPLES: draw | {"num_return_sequences": work.samples}}
    with torch.inference_mode():
        loaded.generate(**given[0], **ways[SAMPLE])
        return {"segments": len(sources)} | {
            name: fmean(work.clock.each(THEIRS, name, lambda own, way=way:
                                        loaded.generate(**own, **way), given))
            for name, way in ways.items()}


def chrf(work: Work) -> Found:
    return {OURS: ranked(minrisk.ChrF(), work), THEIRS: fastchrf_way(work)}


def ranked(metric: AnyMetric, work: Work) -> dict[str, Any]:
    """From texts to the choice, features included."""
    first, found = work.segments[0], {}
    warm = Segment(work.warm_up(first.hypotheses), source=first.source)
    for name, strategy in METHODS.items():
        made = strategy(metric)
        made.rank([warm])
        found[name] = spent(work.clock.each(OURS, name, lambda own, made=made: made.rank([own]),
                                            work.segments))
    return found


def spent(seconds: list[float]) -> dict[str, Any]:
    return {"utility_s": fmean(seconds), "each_s": seconds}


def fastchrf_way(work: Work) -> dict[str, Any]:
    """The authors' own; nothing where it is not installed."""
    try:
        from fastchrf import aggregate_chrf, pairwise_chrf
    except ImportError:
        return {}

    def to_fine(texts: list[str]) -> Any:
        best = np.argsort(aggregate_chrf([texts], [texts])[0])[::-1][:KEEP]
        return pairwise_chrf([[texts[i] for i in best]], [texts])

    ways = dict(zip(METHODS, (lambda t: pairwise_chrf([t], [t]),
                              lambda t: aggregate_chrf([t], [t]), to_fine), strict=True))
    texts = [list(segment.hypotheses) for segment in work.segments[: work.few]]
    return {name: spent(work.clock.each(THEIRS, name, way, texts)) for name, way in ways.items()}


def mqm(work: Work) -> Found:
    from minrisk.metrics.neural.mqm import MQM

    metric = MQM(aggregation="mean", device="numpy")
    # the authors' scripts embed and score what is distinct; to weigh it costs next to nothing
    given = [(list(dict.fromkeys(s.hypotheses)), s.source) for s in work.segments[: work.few]]
    return {OURS: ranked(metric, work), THEIRS: by_triples(SmallModel(metric), given, work)}


def comet(shape: models.Shape, work: Work) -> Found:
    """Random weights; texts of 25 to 64 tokens, all different."""
    from minrisk.metrics.comet import Comet

    own = replace(work, segments=[
        Segment(models.texts(work.samples, seed=i), position=i,
                source=models.texts(1, seed=1000 + i)[0]) for i in range(len(work.segments))])
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "comet"
        models.write(shape, path)
        metric = Comet(model=str(path), device=work.clock.device, aggregation="mean")  # the paper's
        found = {OURS: ranked(metric, own)}
        plain = peers.Model(path, shape, work.clock.device, torch.float32)
        given = [(metric.tokenize(s.hypotheses), metric.tokenize([s.source])[0])
                 for s in own.segments[: work.few]]
    return found | {THEIRS: by_triples(plain, given, work)}


def by_triples(model: Any, given: Sequence[tuple[Any, Any]], work: Work) -> dict[str, Any]:
    peer = peers.PAPER
    ways = dict(zip(METHODS, (peer.exact, peer.aggregate, lambda model, texts, source:
                              peer.to_fine(model, texts, source, min(KEEP, len(texts)))),
                    strict=True))
    texts, source = given[0]
    peer.aggregate(model, work.warm_up(texts), source)
    return {name: spent(work.clock.each(THEIRS, name, lambda own, way=way: way(model, *own),
                                        given)) for name, way in ways.items()}


class SmallModel:
    """The metric of this project as a plain sequence of layers on its own embeddings."""

    device = "cpu"

    def __init__(self, metric: AnyMetric) -> None:
        from safetensors.torch import load_file

        self._metric = metric
        with as_file(files("minrisk") / "data" / "mqm.safetensors") as path:
            self._network = peers.estimator(load_file(path))

    def embed(self, texts: Sequence[str], batch: int) -> torch.Tensor:
        return torch.from_numpy(self._metric.features(texts).base)

    def estimate(self, src: torch.Tensor, mt: torch.Tensor, ref: torch.Tensor) -> torch.Tensor:
        return peers.estimate(self._network, src, mt, ref)


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
