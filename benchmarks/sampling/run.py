"""What do samples cost if the model runs once per distinct prefix? Measures, and writes JSON.

usage: python benchmarks/sampling/run.py --model FOLDER [--device cuda] [--output FILE] ...
"""

from __future__ import annotations

import argparse
import json
import lzma
import math
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Hashable, Sequence
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

import minrisk
from minrisk.samplers.hf.engine import SampledSequence, SamplingEngine
from minrisk.samplers.hf.prefixes import TokenizedPrompt
from minrisk.samplers.hf.truncation import Truncation

HERE = Path(__file__).parent
sys.path.append(str(HERE.parent))  # what all benchmarks share

import machine

DATA = machine.DATA / "samples" / "ntrex-en-fr.jsonl.xz"
EPSILON = 0.02
FARTHEST = 5.0  # standard deviations that two samples of one distribution may be apart
DTYPES = {"cpu": torch.float32, "cuda": torch.bfloat16}

TOKENS = 32  # of a sample of the model with random weights
SHARPNESSES = (1, 5)  # few distinct samples; nearly all of them distinct

Tokens = tuple[int, ...]
Times = dict[str, list[dict[str, float]]]


def sources(count: int) -> list[str]:
    with lzma.open(DATA, "rt", encoding="utf-8") as lines:
        return [json.loads(line)["source"] for line in islice(lines, count)]


class Contest:
    """Our samples and those of `generate`, from the same weights and prompts."""

    def __init__(self, model: Any, tokenizer: Any, samples: int) -> None:
        self.model, self.tokenizer, self.samples = model, tokenizer, samples
        self.config = model.generation_config
        limit = self.config.max_length - 1
        self.engine = SamplingEngine(model, self.config, Truncation(epsilon=EPSILON), limit)

    def ours(self, texts: Sequence[str]) -> list[list[SampledSequence]]:
        """All sources at once: how they are batched is for the sampler to say."""
        start = (self.config.decoder_start_token_id,)
        prompts = [TokenizedPrompt(tuple(self.tokenizer(text)["input_ids"]), start)
                   for text in texts]
        return self.engine.sample(prompts, self.samples, 0, range(len(prompts)))

    def theirs(self, texts: Sequence[str]) -> list[torch.Tensor]:
        """One source after the other, as `num_return_sequences` has it."""
        return [self._generate(text) for text in texts]

    def _generate(self, text: str) -> torch.Tensor:
        given = self.tokenizer([text], return_tensors="pt").to(self.model.device)
        with torch.inference_mode():
            out = self.model.generate(
                **given, do_sample=True, num_beams=1, top_k=0, epsilon_cutoff=EPSILON,
                num_return_sequences=self.samples)
        return out[:, 1:].cpu()


def repeated(drawn: Sequence[SampledSequence]) -> list[Tokens]:
    """Every sample, as often as it was drawn."""
    return [tokens for one in drawn for tokens in [one.tokens] * one.count]


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
    model = AutoModelForSeq2SeqLM.from_pretrained(args.model, dtype=torch.float32)
    model = model.to(args.device).eval()
    texts = sources(args.segments)
    # `generate` takes long: some segments, evenly spread, stand for all
    some = range(0, len(texts), -(-len(texts) // args.peer_segments))
    apart = compared(Contest(model, tokenizer, args.samples), [texts[i] for i in some[:4]])
    contest = Contest(model.to(DTYPES[args.device]), tokenizer, args.samples)
    for _ in range(2):  # chooses kernels, and records graphs
        drawn = contest.ours(texts)
    contest.theirs(texts[:1])
    times: Times = {"minrisk": [], "generate": []}
    for turn in range(args.turns):
        times["minrisk"].append(timed(lambda: contest.ours(texts), args.device)[1])
        times["generate"].append(
            timed(lambda: contest.theirs([texts[i] for i in some]), args.device)[1])
        say(f"turn {turn + 1}: {times['minrisk'][-1]} against {times['generate'][-1]}")
    segments = {"minrisk": len(texts), "generate": len(some)}
    return {"segments": segments, "samples": args.samples, "epsilon": EPSILON,
            "largest_distance": apart, "rows": shares([*map(repeated, drawn)]), "times": times,
            "times_faster_per_segment": {clock: ratio(times, segments, clock)
                                         for clock in ("wall", "cpu")}}


def compared(contest: Contest, texts: Sequence[str]) -> float:
    """How far apart the two are; in float32, for half precision moves tokens over the cutoff."""
    end = contest.config.eos_token_id
    theirs = [[until(row, end) for row in own.tolist()] for own in contest.theirs(texts)]
    apart = max(map(distance, map(repeated, contest.ours(texts)), theirs))
    if apart > FARTHEST:
        raise SystemExit(f"the samples differ: {apart:.1f} standard deviations")
    return apart


def ratio(times: Times, segments: dict[str, int], clock: str) -> float:
    """Of the medians, per segment."""
    ours, theirs = (median(times[name], clock) / segments[name]
                    for name in ("minrisk", "generate"))
    return theirs / ours


def median(turns: Sequence[dict[str, float]], clock: str) -> float:
    return statistics.median(turn[clock] for turn in turns)


def wmt19_shape(args: argparse.Namespace, sharpness: float) -> dict[str, Any]:
    """FSMT as in wmt19, random weights: 1024 samples of 32 tokens, and the best of them by exact
    MBR with a random COMET of COMET-22's shape, beside a beam search of 5.
    """
    model, source = wmt19(args.device, sharpness), (*range(10, 34), 2)
    engine = SamplingEngine(model, model.generation_config, Truncation(epsilon=EPSILON), TOKENS)
    given = torch.tensor([source], device=args.device)

    def sample() -> list[SampledSequence]:
        return engine.sample([TokenizedPrompt(source, (2,))], 1024, 0, [0])[0]

    with tempfile.TemporaryDirectory() as folder:
        metric = random_comet(Path(folder) / "comet", args.device)
        work: dict[str, Callable[[], Any]] = {
            "minrisk, samples": sample,
            "minrisk, samples and exact COMET": lambda: best_of(sample(), source, metric),
            "beam 5": lambda: model.generate(given, num_beams=5, do_sample=False)}
        times: Times = {name: [] for name in work}
        for _ in range(args.turns + 2):  # the first two choose kernels and record graphs
            for name, run in work.items():
                times[name].append(timed(run, args.device)[1])
    drawn = sample()
    times = {name: turns[2:] for name, turns in times.items()}
    beam = median(times["beam 5"], "wall")
    return {"samples": 1024, "tokens": TOKENS, "distinct_samples": len(drawn),
            "rows": shares([repeated(drawn)]),
            "times": times,
            "over_beam_5": {name: median(turns, "wall") / beam for name, turns in times.items()}}


def wmt19(device: str, sharpness: float) -> Any:
    """Its random logits are multiplied by a number, for they are nearly equal otherwise."""
    config = FSMTConfig(
        langs=["en", "de"], src_vocab_size=42024, tgt_vocab_size=42024, d_model=1024,
        encoder_layers=6, decoder_layers=6, encoder_ffn_dim=8192, decoder_ffn_dim=8192,
        encoder_attention_heads=16, decoder_attention_heads=16)
    torch.manual_seed(0)
    model = FSMTForConditionalGeneration(config).to(device, DTYPES[device]).eval()
    decoder = model.get_decoder()
    decoder.output_projection.weight = torch.nn.Parameter(
        decoder.output_projection.weight.detach() * sharpness)
    model.generation_config.update(
        min_new_tokens=TOKENS, max_length=TOKENS + 1, eos_token_id=2, pad_token_id=1,
        decoder_start_token_id=2, forced_eos_token_id=None)
    return model


def random_comet(folder: Path, device: str) -> Any:
    """The model of the benchmark of COMET."""
    sys.path.insert(0, str(HERE.parent / "comet"))
    import models

    from minrisk.metrics.comet import Comet

    models.write(models.COMET_22, folder)
    metric = Comet(model=str(folder), device=device)
    minrisk.decode(["w1 w2", "w3"], source="w4", metric=metric)  # reads the folder
    return metric


def best_of(drawn: Sequence[SampledSequence], source: Tokens, metric: Any) -> str:
    """A token is a word of the random COMET, whatever it means to either model."""
    texts = [words(one.tokens) for one in drawn]
    ranking = minrisk.decode(texts, source=words(source), weights=[one.count for one in drawn],
                             metric=metric)
    return texts[ranking.best]


def words(tokens: Tokens) -> str:
    return " ".join(f"w{token % 20000}" for token in tokens)


def measured_on(device: str) -> dict[str, Any]:
    return machine.describe("torch", "transformers") | {
        "threads": torch.get_num_threads(),
        "gpu": torch.cuda.get_device_name() if device == "cuda" else None}


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", required=True, help="OPUS-MT en-fr, as a folder")
    parser.add_argument("--device", choices=DTYPES, default="cpu")
    parser.add_argument("--segments", type=int, default=4)
    parser.add_argument("--peer-segments", type=int, default=4,
                        help="segments at most for which `generate` is timed")
    parser.add_argument("--samples", type=int, default=256)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--quick", action="store_true", help="8 segments at most, one turn")
    parser.add_argument("--threads", type=int, help="of torch; one per core unless given")
    parser.add_argument("--output", type=Path, default=HERE / "results.json")
    args = parser.parse_args()
    if args.quick:
        args.segments, args.peer_segments, args.turns = min(8, args.segments), 2, 1
    return args


def main() -> None:
    args = parse()
    if not DATA.is_file():
        raise SystemExit(f"needs {DATA.name}; MINRISK_DATA names the folder of the data")
    if args.threads:
        torch.set_num_threads(args.threads)
    results = {"machine": measured_on(args.device), "dtype": str(DTYPES[args.device]),
               "translation": translation(args)}
    if args.device == "cuda":
        results["wmt19_shape"] = {f"logits times {number}": wmt19_shape(args, number)
                                  for number in SHARPNESSES}
    args.output.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    say(json.dumps(results["translation"]["times_faster_per_segment"]))


if __name__ == "__main__":
    main()
