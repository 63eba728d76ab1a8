"""How long does a sentence take, from its text to the text that exact MBR chooses?

usage: python benchmarks/translate/run.py --model FOLDER [--device cuda] [--output FILE] ...

OPUS-MT draws samples of real sentences, and a model of COMET-22's shape with random weights and a
Unigram tokenizer chooses: sampling alone, choosing alone from the same texts, one after the other,
and `minrisk.translate`, which does both at once.
"""

from __future__ import annotations

import argparse
import json
import lzma
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from itertools import islice
from operator import eq
from pathlib import Path
from typing import Any

import torch

import minrisk

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE.parent), str(HERE.parent / "comet")]  # what all benchmarks share

import machine
import models

DATA = machine.DATA / "samples" / "ntrex-en-fr.jsonl.xz"
EPSILON = 0.02
VOCABULARY = 32000  # of the Unigram tokenizer


def records(path: Path, count: int) -> list[dict[str, Any]]:
    with lzma.open(path, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in islice(lines, count)]


def write_tokenizer(folder: Path, texts: Sequence[str]) -> None:
    """A Unigram model, as XLM-R has one, in place of the benchmark's words."""
    from tokenizers import Tokenizer, pre_tokenizers, processors, trainers
    from tokenizers.models import Unigram
    from transformers import PreTrainedTokenizerFast

    special = ["<s>", "<pad>", "</s>", "<unk>"]
    tokenizer = Tokenizer(Unigram())
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.train_from_iterator(texts, trainers.UnigramTrainer(
        vocab_size=VOCABULARY, special_tokens=special, unk_token="<unk>", show_progress=False))
    tokenizer.post_processor = processors.TemplateProcessing(
        "<s> $A </s>", special_tokens=[("<s>", 0), ("</s>", 2)])
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token="<s>", pad_token="<pad>",
                            eos_token="</s>", unk_token="<unk>").save_pretrained(folder)


def timed(run: Callable[[], Any], device: str) -> float:
    wait(device)
    start = time.perf_counter()
    run()
    wait(device)
    return time.perf_counter() - start


def wait(device: str) -> None:
    if device == "cuda":
        torch.cuda.synchronize()


def measure(args: argparse.Namespace, folder: Path) -> dict[str, Any]:
    given = records(args.data, args.segments)
    sources = [record["source"] for record in given]
    models.write(models.COMET_22 if args.device == "cuda" else models.SMALL, folder)
    write_tokenizer(folder / "encoder", [text for record in given for text in record["samples"]])
    sampler = minrisk.Transformers(args.model, epsilon=EPSILON, device=args.device)
    metric = minrisk.Comet(model=str(folder), device=args.device)
    strategy = minrisk.Standard(metric)

    def sample() -> list[list[Any]]:
        return sampler.sample(sources, args.samples)

    def choose(drawn: list[list[Any]]) -> list[str]:
        segments = [minrisk.Segment([s.text for s in own], source=source, position=index,
                                    counts=[s.count for s in own])
                    for index, (own, source) in enumerate(zip(drawn, sources, strict=True))]
        return [segment.hypotheses[strategy.rank([segment])[0].best] for segment in segments]

    def translate() -> list[str | None]:
        return [result.text for result in minrisk.translate(
            sources, args.samples, sampler=sampler, strategy=strategy)]

    drawn = sample()
    for _ in range(2):  # chooses kernels, and records graphs
        same = sum(map(eq, choose(sample()), translate()))
    work = {"sample, to texts": sample, "choose, from texts": lambda: choose(drawn),
            "one after the other": lambda: choose(sample()), "translate": translate}
    times = {name: [round(1000 * timed(run, args.device) / len(sources), 2)
                    for _ in range(args.turns)] for name, run in work.items()}
    distinct = sum(map(len, drawn)) / len(drawn)
    return {"segments": len(sources), "samples": args.samples, "mean_distinct": round(distinct, 1),
            "same_choice": same,
            "milliseconds_a_sentence": times,
            "medians": {name: statistics.median(turns) for name, turns in times.items()}}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", required=True, help="OPUS-MT en-fr, as a folder")
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--segments", type=int, default=32)
    parser.add_argument("--samples", type=int, default=1024)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--output", type=Path)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        found = measure(args, Path(folder) / "comet")
    found = {**machine.describe("torch", "transformers"), "machine": machine.with_gpu()} | found
    if args.output:
        args.output.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    print(json.dumps(found["medians"]))


if __name__ == "__main__":
    main()
