"""What do samples of a causal model cost if all of them share their prompt? Measures, writes JSON.

usage: python benchmarks/sampling/causal.py [--device cuda] [--turns T] [--output FILE]
       python benchmarks/sampling/causal.py --table        (README.md anew, from causal.json)

A model of the shape of a 1.1B Llama with random weights draws n samples of each prompt, beside
`generate(num_return_sequences=n)`, one prompt after the other. The distributions are compared
first, on a tiny model in float32.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import torch
from transformers import GenerationConfig, LlamaConfig, LlamaForCausalLM

from minrisk.samplers.hf.engine import SamplingEngine
from minrisk.samplers.hf.prefixes import TokenizedPrompt
from minrisk.samplers.hf.truncation import Truncation

HERE = Path(__file__).parent
sys.path.append(str(HERE.parent))  # what all benchmarks share

import machine
import pages

# prompts, samples, tokens of a prompt, new tokens
CASES = [(1, 64, 512, 128), (1, 256, 512, 128), (1, 16, 2048, 256), (4, 64, 512, 128),
         (1, 1024, 2048, 64)]
SHAPES = {
    "cuda": {"vocab_size": 32000, "hidden_size": 2048, "intermediate_size": 5632,
             "num_hidden_layers": 22, "num_attention_heads": 32, "num_key_value_heads": 4,
             "max_position_embeddings": 4096},
    "cpu": {"vocab_size": 1000, "hidden_size": 256, "intermediate_size": 512,
            "num_hidden_layers": 4, "num_attention_heads": 8, "num_key_value_heads": 2,
            "max_position_embeddings": 4096},
}
FARTHEST = 5.0  # standard deviations that two samples of one distribution may be apart


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--cases", type=int, default=len(CASES))
    parser.add_argument("--output", type=Path)
    parser.add_argument("--table", action="store_true")
    args = parser.parse_args()
    if args.table:
        results = json.loads((HERE / "causal.json").read_text(encoding="utf-8"))
        pages.fill(HERE / "README.md", {"causal": table(results)})
        return
    apart = compare(args.device)
    model = make(SHAPES[args.device], args.device)
    rows = [measure(model, case, args.turns) for case in CASES[:args.cases]]
    found = {**machine.describe("torch", "transformers"), "machine": machine.with_gpu(),
             "shape": SHAPES[args.device], "largest_distance": apart, "cases": rows}
    if args.output:
        args.output.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    for row in rows:
        print(row)


def table(results: dict[str, Any]) -> str:
    """The cases of some results, as Markdown."""
    rows = []
    for case in results["cases"]:
        times, memory = case["milliseconds"], case["gigabytes_beside_the_weights"]
        rows.append([
            f"{case['prompts']} × {case['samples']:,}", f"{case['prompt_tokens']:,}",
            case["new_tokens"],
            *(f"{statistics.median(times[name]):,.0f}" if times[name] else "out of memory"
              for name in ("minrisk", "generate")),
            *(f"{memory[name]:.2f}" if name in memory else "" for name in ("minrisk", "generate"))])
    head = ["prompts × samples", "tokens of a prompt", "new tokens", "minrisk, ms", "generate, ms",
            "minrisk, GB", "generate, GB"]
    line = pages.machine_line(results | {"gpu": results["machine"].partition(" (")[0]}, "torch",
                              "transformers")
    return f"{line}\n\n{pages.table(head, rows)}"


def make(shape: dict[str, int], device: str, std: float = 0.02) -> Any:
    torch.manual_seed(0)
    config = LlamaConfig(**shape, initializer_range=std, bos_token_id=1, eos_token_id=None)
    with torch.device(device):
        model = LlamaForCausalLM(config).eval()
    model.generation_config = GenerationConfig(bos_token_id=1, pad_token_id=0)
    return model.to(torch.bfloat16 if device == "cuda" else torch.float32)


def compare(device: str) -> float:
    """How far apart first and second tokens of the two are, in standard deviations."""
    shape = SHAPES["cpu"] | {"vocab_size": 40, "num_hidden_layers": 2}
    model = make(shape, device, 0.3).float()
    ours, theirs = run_ours(model, prompts(1, 32, 40), 4096, 2), run_theirs(
        model, prompts(1, 32, 40), 4096, 2)
    one = Counter(tokens for own in ours[0] for tokens in [own.tokens] * own.count)
    other = Counter(tuple(row[-2:]) for row in theirs[0].tolist())
    pairs = [(one[key], other[key]) for key in one.keys() | other.keys()
             if one[key] + other[key] >= 10]
    freedom = max(1, len(pairs) - 1)
    apart = (sum((a - b) ** 2 / (a + b) for a, b in pairs) - freedom) / (2 * freedom) ** 0.5
    if apart > FARTHEST:
        raise SystemExit(f"the samples differ: {apart:.1f} standard deviations")
    return float(apart)


def prompts(count: int, length: int, vocabulary: int = 1000) -> list[TokenizedPrompt]:
    rng = torch.Generator().manual_seed(1)
    tokens = torch.randint(3, vocabulary, (count, length), generator=rng)
    return [TokenizedPrompt((), tuple(row.tolist())) for row in tokens]


def run_ours(model: Any, given: list[TokenizedPrompt], samples: int, limit: int) -> list[Any]:
    engine = SamplingEngine(model, model.generation_config, Truncation(), limit)
    return engine.sample(given, samples, 0, range(len(given)))


@torch.inference_mode()
def run_theirs(model: Any, given: list[TokenizedPrompt], samples: int, limit: int) -> list[Any]:
    found = []
    for prompt in given:
        tokens = torch.tensor([prompt.prefix], device=model.device)
        found.append(model.generate(tokens, attention_mask=torch.ones_like(tokens), do_sample=True,
                                    top_k=0, max_new_tokens=limit, min_new_tokens=limit,
                                    num_return_sequences=samples))
    return found


def measure(model: Any, case: tuple[int, int, int, int], turns: int) -> dict[str, Any]:
    count, samples, length, limit = case
    given = prompts(count, length)
    times: dict[str, list[float]] = {"minrisk": [], "generate": []}
    memory: dict[str, float] = {}
    for turn in range(turns + 1):  # the first one chooses kernels and records graphs
        for name, run in (("minrisk", run_ours), ("generate", run_theirs)):
            try:
                seconds, peak = timed(lambda run=run: run(model, given, samples, limit),
                                      model.device)
            except torch.OutOfMemoryError:
                continue
            memory[name] = round(peak / 1e9, 2)
            if turn:
                times[name].append(round(1000 * seconds, 1))
    ours, theirs = (statistics.median(times[name] or [math.nan]) for name in times)
    return {"prompts": count, "samples": samples, "prompt_tokens": length, "new_tokens": limit,
            "milliseconds": times,  # none where the memory was not enough
            "times_faster": None if math.isnan(theirs) else round(theirs / ours, 2),
            "gigabytes_beside_the_weights": memory}


def timed(run: Any, device: torch.device) -> tuple[float, float]:
    if device.type == "cuda":
        torch.cuda.synchronize()
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
    start = time.perf_counter()
    run()
    if device.type != "cuda":
        return time.perf_counter() - start, 0.0
    torch.cuda.synchronize()
    seconds = time.perf_counter() - start
    return seconds, torch.cuda.max_memory_allocated() - before


if __name__ == "__main__":
    main()
