"""What does exact COMET MBR cost, beside an approximation and beside others? Writes JSON.

usage: python benchmarks/comet/run.py [--device cuda|cpu] [--quick] [--output FILE]
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import models
import numpy as np
import peers
import torch

from minrisk.metrics.comet import Comet

HERE = Path(__file__).parent
sys.path.append(str(HERE.parent))  # what all benchmarks share

import machine


@dataclass(frozen=True)
class Plan:
    """How much of everything."""

    shape: models.Shape
    samples: int
    turns: int
    slow_turns: int  # of what takes seconds
    dtype: str


PLANS = {"cuda": Plan(models.COMET_22, 1024, 15, 3, "auto"),
         "cpu": Plan(models.SMALL, 256, 3, 2, "fp32")}
QUICK = {"samples": 64, "turns": 2, "slow_turns": 1}


@dataclass(frozen=True)
class Setting:
    folder: Path
    device: str
    plan: Plan
    ids: list[np.ndarray]
    source: np.ndarray

    def metric(self, **options: Any) -> Comet:
        chosen = {"model": str(self.folder), "device": self.device, "dtype": self.plan.dtype}
        return Comet(**chosen | options)


def finish(device: str) -> None:
    if device == "cuda":
        torch.cuda.synchronize()


def timed(work: Callable[[], Any], device: str, turns: int) -> dict[str, float]:
    """Median and minimum of several turns, after one that nobody counts."""
    work()
    seconds = []
    for _ in range(turns):
        finish(device)
        start = time.perf_counter()
        work()
        finish(device)
        seconds.append(time.perf_counter() - start)
    return {"median_s": statistics.median(seconds), "min_s": min(seconds), "turns": turns}


def together(metric: Comet, ids: Sequence[np.ndarray], source: np.ndarray) -> tuple[Any, Any]:
    """Texts and source, encoded in the same batch."""
    encoded = metric.encode([*ids, source])
    return encoded[np.arange(len(ids))], encoded[np.array([len(ids)])]


def exact(metric: Comet, ids: Sequence[np.ndarray], source: np.ndarray) -> np.ndarray:
    texts, own = together(metric, ids, source)
    return metric.utility(texts, texts, np.full(len(ids), 1 / len(ids)), own)


def aggregate(metric: Comet, ids: Sequence[np.ndarray], source: np.ndarray) -> np.ndarray:
    from minrisk import Groups

    (texts, own), count = together(metric, ids, source), len(ids)
    whole = metric.aggregate(texts, Groups(np.zeros(count, np.intp), np.full(count, 1 / count)))
    return metric.scores(texts, whole, own)[:, 0]


def ours(setting: Setting) -> dict[str, Any]:
    """The whole, and its parts."""
    metric, plan, device = setting.metric(), setting.plan, setting.device
    texts, source = metric.encode(setting.ids), metric.encode([setting.source])
    mass = np.full(len(texts), 1 / len(texts))
    plain = setting.metric(fast=False)
    plain_texts = plain.encode(setting.ids)
    plain_source = plain.encode([setting.source])
    work = {
        "exact": lambda: exact(metric, setting.ids, setting.source).argmax(),
        "aggregate": lambda: aggregate(metric, setting.ids, setting.source).argmax(),
        "encoder": lambda: metric.encode(setting.ids),
        "pairs": lambda: metric.utility(texts, texts, mass, source),
        "exact, plain path": lambda: exact(plain, setting.ids, setting.source).argmax(),
        "encoder, plain path": lambda: plain.encode(setting.ids),
        "pairs, plain path": lambda: plain.utility(plain_texts, plain_texts, mass, plain_source),
    }
    return {name: timed(call, device, plan.turns) for name, call in work.items()}


def theirs(setting: Setting, peer: peers.Peer) -> dict[str, Any]:
    model = peers.Model(setting.folder, setting.plan.shape, setting.device, peer.dtype)
    turns = setting.plan.slow_turns
    utility = peer.exact(model, setting.ids, setting.source).numpy()
    return {
        "utility": utility,
        "exact": timed(lambda: peer.exact(model, setting.ids, setting.source).argmax(),
                       setting.device, turns),
        "aggregate": timed(lambda: peer.aggregate(model, setting.ids, setting.source).argmax(),
                           setting.device, turns),
        "encoder": timed(lambda: encode(model, setting.ids, peer.batch), setting.device, turns),
    }


def once(setting: Setting, peer: peers.Peer) -> float:
    """Seconds of a single run, for what takes very many of them."""
    model = peers.Model(setting.folder, setting.plan.shape, setting.device, peer.dtype)
    start = time.perf_counter()
    peer.exact(model, setting.ids, setting.source).argmax()
    return time.perf_counter() - start


@torch.inference_mode()
def encode(model: peers.Model, ids: Sequence[np.ndarray], batch: int) -> torch.Tensor:
    return model.embed(ids, batch)


def agreement(found: np.ndarray, exactly: np.ndarray) -> dict[str, Any]:
    """With the same computation in float32."""
    ranks = [np.argsort(np.argsort(values)) for values in (found, exactly)]
    return {"same choice": bool(found.argmax() == exactly.argmax()),
            "rank correlation": float(np.corrcoef(*ranks)[0, 1]),
            "largest error": float(np.abs(found - exactly).max()),
            "spread of utilities": float(exactly.std())}


def batching(setting: Setting, segments: int = 64, samples: int = 64) -> dict[str, Any]:
    """Many small segments: encoded together, or one at a time."""
    metric = setting.metric()
    ids = metric.tokenize(models.texts(segments * samples, seed=1))
    sources = metric.tokenize(models.texts(segments, seed=2))
    mass = np.full(samples, 1 / samples)
    parts = [np.arange(i * samples, (i + 1) * samples) for i in range(segments)]

    def batched(own: Comet) -> None:
        encoded = own.encode([*ids, *sources])
        for place, rows in enumerate(parts):
            texts = encoded[rows]
            own.utility(texts, texts, mass, encoded[np.array([len(ids) + place])]).argmax()

    def alone(own: Comet) -> None:
        for place, rows in enumerate(parts):
            exact(own, [ids[r] for r in rows], sources[place]).argmax()

    ways = (("together", batched, metric), ("one at a time", alone, metric),
            ("one at a time, plain path", alone, setting.metric(fast=False)))
    found = {name: timed(partial(call, own), setting.device, 5) for name, call, own in ways}
    return {"segments": segments, "samples": samples, **found}


def peer_alone(setting: Setting, peer: peers.Peer, segments: int = 8,
               samples: int = 64) -> dict[str, Any]:
    """One small segment after the other, their way."""
    model = peers.Model(setting.folder, setting.plan.shape, setting.device, peer.dtype)
    ids = setting.metric().tokenize(models.texts(segments * samples, seed=1))

    def alone() -> None:
        for i in range(0, len(ids), samples):
            peer.exact(model, ids[i : i + samples], setting.source).argmax()

    return {"segments": segments, "samples": samples, **timed(alone, setting.device, 3)}


def limits(setting: Setting) -> list[dict[str, Any]]:
    """Many samples, and little memory."""
    found = []
    for samples, memory in ((4096, None), (1024, 2.0)):
        metric = setting.metric(memory=memory)
        ids = metric.tokenize(models.texts(samples, seed=3))
        exact(metric, ids[:64], setting.source)
        torch.cuda.synchronize()
        held = torch.cuda.memory_allocated()
        torch.cuda.reset_peak_memory_stats()
        start = time.perf_counter()
        exact(metric, ids, setting.source)
        found.append({"samples": samples, "memory option, GB": memory,
                      "seconds": time.perf_counter() - start,
                      "extra bytes": torch.cuda.max_memory_allocated() - held})
    return found


def precisions(setting: Setting) -> dict[str, Any]:
    """Errors of utilities against float32, beside a plain loop in the same precision."""
    exactly = exact(setting.metric(dtype="fp32", fast=False), setting.ids, setting.source)
    found = {}
    for name in ("fp32", "tf32", "bf16", "fp16"):
        metric = setting.metric(dtype=name)
        utility = exact(metric, setting.ids, setting.source)
        found[name] = {**agreement(utility, exactly),
                       **timed(lambda m=metric: exact(m, setting.ids, setting.source),
                               setting.device, 3)}
        torch.cuda.empty_cache()
    for peer in (peers.MBRS, peers.COMET_MBR):
        model = peers.Model(setting.folder, setting.plan.shape, setting.device, peer.dtype)
        utility = peer.exact(model, setting.ids, setting.source).numpy()
        found[f"{peer.name}, {peer.dtype}"] = agreement(utility, exactly)
    return found


def peak(device: str) -> float:
    """Operations a second of a large matrix product: what there is to be had."""
    size, dtype = (8192, torch.bfloat16) if device == "cuda" else (2048, torch.float32)
    left, right = (torch.randn(size, size, device=device).to(dtype) for _ in range(2))
    return 2 * size**3 / timed(lambda: left @ right, device, 10)["median_s"]


def operations(setting: Setting) -> dict[str, float]:
    """That must be done, for the encoder and the pairs (each first layer once for both ways)."""
    shape, tokens = setting.plan.shape, sum(map(len, setting.ids))
    attention = sum(4 * shape.width * len(own) ** 2 for own in setting.ids) * shape.layers
    widths = (*shape.hidden, 1)
    rest = sum(a * b for a, b in pairwise(widths))
    count = len(setting.ids)
    first = 2 * shape.width * shape.hidden[0] * count * (count + 1) // 2
    return {"encoder": 2.0 * shape.parameters_per_token * tokens + attention,
            "pairs": 2.0 * (first + rest * count * count)}


def measure(setting: Setting) -> dict[str, Any]:
    say("ours")
    results: dict[str, Any] = {"ours": ours(setting)}
    utility = exact(setting.metric(), setting.ids, setting.source)
    results["theirs"] = {}
    found = {}
    chosen = (peers.PAPER, peers.MBRS, peers.COMET_MBR)
    if setting.device == "cpu":  # where half precision would be slow
        chosen = tuple(replace(peer, dtype=torch.float32) for peer in chosen)
    for peer in chosen:
        say(peer.name)
        results["theirs"][peer.name] = theirs(setting, peer)
        found[peer.name] = results["theirs"][peer.name].pop("utility")
        if setting.device == "cuda":
            torch.cuda.empty_cache()
    if setting.device == "cpu":
        say(f"{peers.COMET_MBR.name} in fp16")
        results["comet-mbr in fp16, s"] = once(setting, peers.COMET_MBR)
    exactly = found[peers.PAPER.name]
    results["agreement"] = {name: agreement(values, exactly)
                            for name, values in {"minrisk": utility, **found}.items()}
    results["tokenizing"] = tokenizing(setting)
    results["operations"] = operations(setting)
    results["peak"] = peak(setting.device)
    if setting.device == "cuda":
        say("batching, limits, precisions")
        results["batching"] = {
            **batching(setting),
            "peers, one at a time": {peer.name: peer_alone(setting, peer) for peer in chosen}}
        results["limits"] = limits(setting)
        results["precisions"] = precisions(setting)
    return results


def tokenizing(setting: Setting) -> dict[str, Any]:
    metric, texts = setting.metric(), models.texts(setting.plan.samples)
    return {**timed(lambda: metric.tokenize(texts), "cpu", 5), "tokenizer": "a word a token"}


def measured_on(device: str) -> dict[str, Any]:
    name = torch.cuda.get_device_name() if device == "cuda" else machine.cpu()
    return machine.describe("torch", "transformers") | {"device": name,
                                                        "cores": torch.get_num_threads()}


def say(message: str) -> None:
    print(message, file=sys.stderr, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=PLANS, default="cpu")
    parser.add_argument("--quick", action="store_true", help="small sizes, to see that it runs")
    parser.add_argument("--output", type=Path)
    given = parser.parse_args()
    plan = PLANS[given.device]
    plan = replace(plan, **QUICK) if given.quick else plan
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "model"
        models.write(plan.shape, folder)
        setting = Setting(folder, given.device, plan, [], [])
        metric = setting.metric()
        setting = replace(setting, ids=metric.tokenize(models.texts(plan.samples)),
                          source=metric.tokenize(models.texts(1, seed=9))[0])
        results = {"machine": measured_on(given.device), "quick": given.quick,
                   "shape": asdict(plan.shape), "samples": plan.samples,
                   "dtype": plan.dtype, **measure(setting)}
    output = given.output or HERE / f"{given.device}.json"
    output.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    say(f"wrote {output}")


if __name__ == "__main__":
    main()
