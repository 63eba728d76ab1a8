"""What do samples cost if the model runs once per distinct prefix? Measures, and writes JSON.

usage: python benchmarks/sampling/run.py --model FOLDER [--device cuda] [--output FILE] ...
"""

from __future__ import annotations

import argparse
import json
import lzma
import math
import os
import platform
import statistics
import sys
import time
from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from importlib.metadata import version
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from transformers import (
    AutoModelForSeq2SeqLM,
    AutoTokenizer,
    FSMTConfig,
    FSMTForConditionalGeneration,
)

from minrisk.sampling.hf.engine import Engine
from minrisk.sampling.hf.prefixes import Prompt
from minrisk.sampling.hf.truncation import Truncation

HERE = Path(__file__).parent
DATA = HERE.resolve().parents[2] / "shared" / "data" / "samples" / "ntrex-en-fr.jsonl.xz"
EPSILON = 0.02
FARTHEST = 5.0  # standard deviations that two samples of one distribution may be apart
DTYPES = {"cpu": torch.float32, "cuda": torch.bfloat16}

Tokens = tuple[int, ...]


def sources(count: int) -> list[str]:
    with lzma.open(DATA, "rt", encoding="utf-8") as lines:
        return [json.loads(line)["source"] for line in islice(lines, count)]


class Contest:
    """Our samples and those of `generate`, from the same weights and prompts."""

    def __init__(self, model: Any, tokenizer: Any, samples: int) -> None:
        self.model, self.tokenizer, self.samples = model, tokenizer, samples
        self.config = model.generation_config
        limit = self.config.max_length - 1
        self.engine = Engine(model, self.config, Truncation(epsilon=EPSILON), limit)

    def ours(self, texts: Sequence[str]) -> list[list[Tokens]]:
        """All sources at once: how they are batched is for the sampler to say."""
        start = (self.config.decoder_start_token_id,)
        prompts = [Prompt(tuple(self.tokenizer(text)["input_ids"]), start) for text in texts]
        drawn = self.engine.draw(prompts, self.samples, 0, range(len(prompts)))
        return [[one.tokens for one in own for _ in range(one.count)] for own in drawn]

    def theirs(self, texts: Sequence[str]) -> list[list[Tokens]]:
        """One source after the other, as `num_return_sequences` has it."""
        return [self._generate(text) for text in texts]

    def _generate(self, text: str) -> list[Tokens]:
        given = self.tokenizer([text], return_tensors="pt").to(self.model.device)
        with torch.inference_mode():
            out = self.model.generate(
                **given, do_sample=True, num_beams=1, top_k=0, epsilon_cutoff=EPSILON,
                num_return_sequences=self.samples)
        return [until(row, self.config.eos_token_id) for row in out[:, 1:].tolist()]


def until(tokens: list[int], end: int) -> Tokens:
    return tuple(tokens[: tokens.index(end) + 1] if end in tokens else tokens)


def timed(run: Callable[[], Any], device: str) -> tuple[Any, dict[str, float]]:
    """What a call returns, its seconds on the clock, and those that this process computed for."""
    wait(device)
    clock, computed = time.perf_counter(), time.process_time()
    found = run()
    wait(device)
    return found, {"wall": time.perf_counter() - clock, "cpu": time.process_time() - computed}


def wait(device: str) -> None:
    if device == "cuda":
        torch.cuda.synchronize()


def distance(ours: Sequence[Tokens], theirs: Sequence[Tokens]) -> float:
    """How far apart first tokens, first pairs and lengths are: the largest z-score."""
    views: list[Callable[[Tokens], Hashable]] = [lambda t: t[:1], lambda t: t[:2], len]
    return max(z_score(Counter(map(view, ours)), Counter(map(view, theirs))) for view in views)


def z_score(one: Counter[Hashable], other: Counter[Hashable]) -> float:
    """Of the chi-square statistic of two samples of one size."""
    pairs = [(one[key], other[key]) for key in one.keys() | other.keys()
             if one[key] + other[key] >= 10]
    freedom = max(1, len(pairs) - 1)
    return (sum((a - b) ** 2 / (a + b) for a, b in pairs) - freedom) / math.sqrt(2 * freedom)


def shares(drawn: Sequence[Sequence[Tokens]]) -> dict[str, float]:
    """Rows that the model ran, over tokens drawn, and over samples times steps of `generate`."""
    rows = sum(len({tokens[:i] for tokens in own for i in range(len(tokens))}) for own in drawn)
    tokens = sum(len(one) for own in drawn for one in own)
    steps = sum(len(own) * max(map(len, own)) for own in drawn)
    return {"rows": rows, "of_tokens": rows / tokens, "of_samples_times_steps": rows / steps}


def translation(args: argparse.Namespace) -> dict[str, Any]:
    """Real weights and sources; outputs compared first, then turns, ours and theirs."""
    tokenizer = AutoTokenizer.from_pretrained(args.model)
    model = AutoModelForSeq2SeqLM.from_pretrained(args.model)
    model = model.to(args.device, DTYPES[args.device]).eval()
    contest, texts = Contest(model, tokenizer, args.samples), sources(args.segments)
    contest.ours(texts[:1])  # warm up
    times: dict[str, list[dict[str, float]]] = {"minrisk": [], "generate": []}
    for turn in range(args.turns):
        ours, spent = timed(lambda: contest.ours(texts), args.device)
        times["minrisk"].append(spent)
        theirs, spent = timed(lambda: contest.theirs(texts), args.device)
        times["generate"].append(spent)
        say(f"turn {turn + 1}: {times['minrisk'][-1]} against {times['generate'][-1]}")
        apart = max(map(distance, ours, theirs))
        if apart > FARTHEST:
            raise SystemExit(f"the samples differ: {apart:.1f} standard deviations")
    return {"segments": len(texts), "samples": args.samples, "epsilon": EPSILON,
            "largest_distance": apart, "rows": shares(ours), "times": times,
            "times_faster": {clock: ratio(times, clock) for clock in ("wall", "cpu")}}


def ratio(times: dict[str, list[dict[str, float]]], clock: str) -> float:
    ours, theirs = (statistics.median(turn[clock] for turn in times[name])
                    for name in ("minrisk", "generate"))
    return theirs / ours


def wmt19_shape(args: argparse.Namespace) -> dict[str, Any]:
    """FSMT as in wmt19, random weights: 1024 samples of 32 tokens, beside a beam search of 5."""
    config = FSMTConfig(
        langs=["en", "de"], src_vocab_size=42024, tgt_vocab_size=42024, d_model=1024,
        encoder_layers=6, decoder_layers=6, encoder_ffn_dim=8192, decoder_ffn_dim=8192,
        encoder_attention_heads=16, decoder_attention_heads=16)
    torch.manual_seed(0)
    model = FSMTForConditionalGeneration(config).to(args.device, DTYPES[args.device]).eval()
    tokens, settings = 32, model.generation_config
    settings.update(min_new_tokens=tokens, max_length=tokens + 1, eos_token_id=2, pad_token_id=1,
                    decoder_start_token_id=2, forced_eos_token_id=None)
    source = (*range(10, 34), 2)
    engine = Engine(model, settings, Truncation(epsilon=EPSILON), tokens)
    given = torch.tensor([source], device=args.device)
    times: dict[str, list[dict[str, float]]] = {"minrisk": [], "beam 5": []}
    for _ in range(args.turns + 2):  # the first two choose kernels and record graphs
        drawn, spent = timed(lambda: engine.draw([Prompt(source, (2,))], 1024, 0, [0]),
                             args.device)
        times["minrisk"].append(spent)
        _, spent = timed(lambda: model.generate(given, num_beams=5, do_sample=False), args.device)
        times["beam 5"].append(spent)
    own = [one.tokens for one in drawn[0] for _ in range(one.count)]
    return {"samples": 1024, "tokens": tokens, "rows": shares([own]),
            "times": {name: turns[2:] for name, turns in times.items()}}


def machine(device: str) -> dict[str, Any]:
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    cpu = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return {"cpu": cpu[0] if cpu else platform.processor(), "cores": os.cpu_count(),
            "threads": torch.get_num_threads(), "load": os.getloadavg()[0],
            "gpu": torch.cuda.get_device_name() if device == "cuda" else None,
            "python": platform.python_version(),
            **{name: version(name) for name in ("minrisk", "torch", "transformers")}}


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", required=True, help="OPUS-MT en-fr, as a folder")
    parser.add_argument("--device", choices=DTYPES, default="cpu")
    parser.add_argument("--segments", type=int, default=4)
    parser.add_argument("--samples", type=int, default=256)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--threads", type=int, help="of torch; one per core unless given")
    parser.add_argument("--output", type=Path, default=HERE / "results.json")
    return parser.parse_args()


def main() -> None:
    args = parse()
    if not DATA.is_file():
        raise SystemExit(f"needs {DATA.name} beside the project; there is nothing to measure")
    if args.threads:
        torch.set_num_threads(args.threads)
    results = {"machine": machine(args.device), "dtype": str(DTYPES[args.device]),
               "translation": translation(args)}
    if args.device == "cuda":
        results["wmt19_shape"] = wmt19_shape(args)
    args.output.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    say(json.dumps(results["translation"]["times_faster"]))


if __name__ == "__main__":
    main()
