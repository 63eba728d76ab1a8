"""What does a segment cost, on this machine, our way and the paper's? Writes JSON for the page.

usage: python experiments/reference-aggregation/timing.py [--device cuda] [--model FOLDER]
           --samples FILE --output FILE

The paper's way, written plainly: samples and beams by `generate` in fp32, one source at a time;
chrF by fastChrF, which is the authors'; COMET in fp32, texts in file order, then triples of source,
hypothesis and reference gathered in batches. It needs torch, transformers and NumPy; on a GPU COMET
has the shape of COMET-22 and random weights. Texts are tokenized before the paper's clock starts.
"""

from __future__ import annotations

import argparse
import json
import lzma
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib.resources import as_file, files
from itertools import islice
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import torch

import minrisk
from minrisk import Aggregate, AggregateToFine, Segment, Standard
from minrisk.metric import AnyMetric
from minrisk.sampling.hf import Transformers

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"
sys.path += [str(BENCHMARKS), str(BENCHMARKS / "comet")]
import machine
import models
import peers

EPSILON, KEEP, BEAMS = 0.02, 20, 5
BEAM, SAMPLE, SAMPLES = "beam search", "epsilon sampling", "samples"
METHODS: dict[str, Callable[[AnyMetric], Any]] = {
    "standard MBR": Standard, "reference aggregation": Aggregate,
    "aggregate-to-fine MBR": lambda metric: AggregateToFine(metric, KEEP)}
Times = dict[str, float]


class Clock:
    """Seconds of a call, with the device's work done."""

    def __init__(self, device: str) -> None:
        self._device = device

    def __call__(self, work: Callable[[], Any]) -> float:
        self._wait()
        start = time.perf_counter()
        work()
        self._wait()
        return time.perf_counter() - start

    def _wait(self) -> None:
        if self._device == "cuda":
            torch.cuda.synchronize()


def read(path: Path, segments: int, samples: int) -> list[Segment]:
    with lzma.open(path, "rt", encoding="utf-8") as lines:
        records = [json.loads(line) for line in islice(lines, segments)]
    return [Segment(r["samples"][:samples], source=r["source"], index=i)
            for i, r in enumerate(records)]


def ours(model: str, sources: Sequence[str], samples: int, device: str, clock: Clock) -> Times:
    """All sources at once: how they are batched is for the sampler to say."""
    beams = Transformers(model=model, device=device, beams=BEAMS)
    drawn = Transformers(model=model, device=device, epsilon=EPSILON)
    work = {BEAM: lambda: beams.sample(sources, 1), SAMPLE: lambda: drawn.sample(sources, 1),
            SAMPLES: lambda: drawn.sample(sources, samples)}
    beams.sample(sources[:1], 1)
    # graphs are recorded once, for batches of one size
    drawn.sample(sources if device == "cuda" else sources[:1], samples)
    return {name: clock(call) / len(sources) for name, call in work.items()}


def theirs(model: str, sources: Sequence[str], samples: int, device: str, clock: Clock) -> Times:
    """`generate` in fp32, one source after the other."""
    from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(model)
    loaded = AutoModelForSeq2SeqLM.from_pretrained(model).to(device).eval()
    given = [tokenizer([source], return_tensors="pt").to(device) for source in sources]
    draw = {"do_sample": True, "num_beams": 1, "top_k": 0, "epsilon_cutoff": EPSILON}
    ways: dict[str, dict[str, Any]] = {
        BEAM: {"num_beams": BEAMS, "do_sample": False}, SAMPLE: draw,
        SAMPLES: draw | {"num_return_sequences": samples}}
    with torch.inference_mode():
        loaded.generate(**given[0], **ways[SAMPLE])
        return {name: fmean(clock(lambda own=own, way=way: loaded.generate(**own, **way))
                            for own in given)
                for name, way in ways.items()}


def ranked(metric: AnyMetric, segments: Sequence[Segment], clock: Clock) -> dict[str, Times]:
    """From texts to the choice, features included."""
    found = {}
    for name, strategy in METHODS.items():
        made = strategy(metric)
        made.rank(segments[:1])
        found[name] = {"utility_s": fmean(clock(lambda s=s, made=made: made.rank([s]))
                                          for s in segments)}
    return found


def fastchrf_way(segments: Sequence[Segment], clock: Clock) -> dict[str, Times]:
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
    return {name: {"utility_s": fmean(clock(lambda s=s, way=way: way(list(s.hypotheses)))
                                      for s in segments)}
            for name, way in ways.items()}


def comet(shape: models.Shape, samples: int, turns: int, device: str,
          clock: Clock) -> dict[str, dict[str, Times]]:
    """Random weights; texts of 25 to 64 tokens, all different."""
    from minrisk.metrics.comet import Comet

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "comet"
        models.write(shape, path)
        metric = Comet(model=str(path), device=device, aggregation="mean")  # as in the paper
        segments = [Segment(models.texts(samples, seed=i), index=i,
                            source=models.texts(1, seed=1000 + i)[0]) for i in range(turns)]
        found = {"minrisk": ranked(metric, segments, clock)}
        plain = peers.Model(path, shape, device, torch.float32)
        given = [(metric.tokenize(s.hypotheses), metric.tokenize([s.source])[0]) for s in segments]
    return found | {"paper": by_triples(plain, given, clock)}


def by_triples(model: Any, given: Sequence[tuple[Any, Any]], clock: Clock) -> dict[str, Times]:
    peer = peers.PAPER
    ways = dict(zip(METHODS, (peer.exact, peer.aggregate,
                              lambda *own: peer.to_fine(*own, KEEP)), strict=True))
    peer.aggregate(model, *given[0])
    return {name: {"utility_s": fmean(clock(lambda own=own, way=way: way(model, *own))
                                      for own in given)}
            for name, way in ways.items()}


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


def measured_on(device: str) -> dict[str, Any]:
    name = machine.processor()
    return machine.describe("torch", "transformers") | {
        "name": f"{torch.cuda.get_device_name()} ({name})" if device == "cuda" else name,
        "threads": torch.get_num_threads()}


@contextmanager
def told(what: str) -> Iterator[None]:
    start = time.perf_counter()
    yield
    print(f"{what}: {time.perf_counter() - start:.1f} s", file=sys.stderr, flush=True)


def measure(given: argparse.Namespace) -> dict[str, Any]:
    clock, device = Clock(given.device), given.device
    segments = read(given.samples, given.segments, given.count)
    some = segments[: given.peer_segments]
    with told("sampling"):
        sampling = {
            name: way(given.model, [s.source for s in own], given.count, device, clock)
            for name, way, own in (("minrisk", ours, segments), ("paper", theirs, some))
        } if given.model else {}
    utilities: dict[str, Any] = {}
    if device == "cuda":
        with told("COMET-22"):
            utilities["COMET-22"] = comet(models.COMET_22, given.count, len(some), device, clock)
    else:
        with told("chrF"):
            utilities["chrF"] = {"minrisk": ranked(minrisk.ChrF(), segments, clock),
                                 "paper": fastchrf_way(some, clock)}
        with told("MQM"):
            utilities["MQM"] = mqm(some, clock)
    return {"machine": measured_on(device), "device": device, "segments": len(segments),
            "peer_segments": len(some), "samples": given.count, "sampling": sampling,
            "utilities": utilities}


def mqm(segments: Sequence[Segment], clock: Clock) -> dict[str, dict[str, Times]]:
    from minrisk.metrics.mqm import MQM

    metric = MQM(aggregation="mean", device="numpy")
    given = [(s.hypotheses, s.source) for s in segments]
    return {"minrisk": ranked(metric, segments, clock),
            "paper": by_triples(SmallModel(metric), given, clock)}


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--model", help="OPUS-MT en-fr, as a folder; no sampling without it")
    parser.add_argument("--samples", type=Path, required=True, help="ntrex-en-fr.jsonl.xz")
    parser.add_argument("--count", type=int, default=1024, help="samples of a segment")
    parser.add_argument("--segments", type=int, default=8)
    parser.add_argument("--peer-segments", type=int, default=2, help="for what takes long")
    parser.add_argument("--output", type=Path, required=True, help="results/NAME/time-DEVICE.json")
    given = parser.parse_args(arguments)
    found = measure(given)
    given.output.parent.mkdir(parents=True, exist_ok=True)
    given.output.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
