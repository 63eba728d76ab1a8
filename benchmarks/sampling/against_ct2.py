"""Is sampling on a CPU faster with `hf` or with CTranslate2 in int8? Measures, and fills README.md.

usage: python benchmarks/sampling/against_ct2.py --model FOLDER [--threads 1 2] [--turns 3] ...

`FOLDER` holds OPUS-MT en-fr, which is converted to a temporary folder. Each set of instructions and
number of threads is a process of its own, in which all formats take turns; the least CPU time of a
format counts, because other work on the machine only adds to it. The errors are those of the
formats at the positions of translations that were sampled in fp32.
"""

from __future__ import annotations

import argparse
import json
import lzma
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path.append(str(HERE.parent))  # what all benchmarks share

import machine
import pages

SOURCES = machine.DATA / "samples" / "ntrex-en-fr.jsonl.xz"
RESULTS = HERE / "against_ct2.json"
INSTRUCTIONS = {
    "avx512": {},  # what the libraries choose by themselves
    "avx2": {"ONEDNN_MAX_CPU_ISA": "AVX2", "MKL_ENABLE_INSTRUCTIONS": "AVX2",
             "ATEN_CPU_CAPABILITY": "avx2", "CT2_FORCE_CPU_ISA": "AVX2", "MINRISK_CORE": "avx2"}}
SIZES = {16: 8, 64: 4, 256: 2, 1024: 1}  # samples of each source -> sources
FORMATS = ("fp32", "bf16", "int8")
PEER = "CTranslate2 int8"
CLOCKS = {"cpu": "CPU", "wall": "wall clock"}
EPSILON, TOP_K = 0.02, 50  # CTranslate2 has no epsilon

Work = Callable[[], int]  # samples, and returns the number of tokens


def sources(count: int) -> list[str]:
    with lzma.open(SOURCES, "rt", encoding="utf-8") as lines:
        return [json.loads(line)["source"] for line in islice(lines, count)]


def samplers(args: argparse.Namespace) -> dict[str, Any]:
    """Ours by their formats, ready to run; those that this CPU or torch lacks are left out."""
    import minrisk

    found = {}
    for dtype in FORMATS:
        sampler = minrisk.Transformers(args.model, epsilon=EPSILON, dtype=dtype, device="cpu")
        try:
            sampler.prepare()
        except minrisk.InputError as error:
            say(f"{dtype}: {error}")
        else:
            if has_fast_layers(sampler):
                found[dtype] = sampler
    return found


def has_fast_layers(sampler: Any) -> bool:
    """Whether its layers are not those of torch, which are slow in half precision."""
    import torch

    return not any(type(part) is torch.nn.Linear for part in sampler._model.loaded[0].modules())


def ours(sampler: Any, texts: list[str], n: int) -> int:
    at_once, tokens = sampler.batch_size(n), 0
    for start in range(0, len(texts), at_once):
        part = texts[start : start + at_once]
        for own in sampler.sample(part, n, 0, range(start, start + len(part))):
            tokens += sum(len(sample.tokens) * sample.count for sample in own)
    return tokens


def theirs(translator: Any, pieces: Any, texts: list[str], n: int) -> int:
    tokens = 0
    for text in texts:
        [result] = translator.translate_batch(
            [[*pieces.encode(text, out_type=str), "</s>"]], beam_size=1, num_hypotheses=n,
            sampling_topk=TOP_K, max_decoding_length=511, length_penalty=0, return_scores=True)
        tokens += sum(len(own) + 1 for own in result.hypotheses)  # with </s>, as ours
    return tokens


def translator(args: argparse.Namespace) -> tuple[Any, Any]:
    import ctranslate2
    import sentencepiece

    pieces = sentencepiece.SentencePieceProcessor(model_file=str(Path(args.model) / "source.spm"))
    return ctranslate2.Translator(args.converted, compute_type="int8", inter_threads=1,
                                  intra_threads=args.threads[0]), pieces


def measured(args: argparse.Namespace) -> dict[str, Any]:
    """What one process finds: microseconds per token by samples and format."""
    import torch

    torch.set_num_threads(args.threads[0])
    found, (model, pieces) = samplers(args), translator(args)
    times = {}
    for n in args.samples:
        texts = sources(SIZES[n])
        work: dict[str, Work] = {PEER: partial(theirs, model, pieces, texts, n)}
        work |= {dtype: partial(ours, own, texts, n) for dtype, own in found.items()}
        times[n] = turns(work, args.turns)
        say(f"{args.instructions[0]}, {args.threads[0]} threads, {n} samples: {times[n]}")
    result: dict[str, Any] = {"instructions": args.instructions[0], "threads": args.threads[0],
                              "times": times}
    if args.errors:
        result["errors"] = errors(found, model, pieces)
    return result


def turns(work: dict[str, Work], count: int) -> dict[str, dict[str, float]]:
    """The least microseconds per token of all turns, in CPU time and on the clock."""
    least: dict[str, dict[str, float]] = {}
    for _ in range(count):
        for name, run in work.items():
            clock, computed = time.perf_counter(), time.process_time()
            tokens = run()
            spent = {"cpu": time.process_time() - computed, "wall": time.perf_counter() - clock}
            before = least.setdefault(name, dict.fromkeys(spent, float("inf")))
            least[name] = {key: min(before[key], round(1e6 * seconds / tokens, 1))
                           for key, seconds in spent.items()}
    return least


def errors(found: dict[str, Any], peer: Any, pieces: Any) -> dict[str, dict[str, float]]:
    """How far each format is from fp32 on translations that fp32 samples."""
    import torch

    model, tokenizer = found["fp32"]._model.loaded
    texts = sources(12)
    pairs = [(tokenizer(text)["input_ids"], list(sample.tokens))
             for text, own in zip(texts, found["fp32"].sample(texts, 3), strict=True)
             for sample in own]
    exact = [logs(model, *pair) for pair in pairs]
    tokens = [torch.tensor(target) for _, target in pairs]
    own_logs = torch.cat([log.gather(1, own[:, None])[:, 0]
                          for log, own in zip(exact, tokens, strict=True)])
    result = {}
    for dtype in found.keys() - {"fp32"}:
        rounded = [logs(found[dtype]._model.loaded[0], *pair) for pair in pairs]
        one, other = torch.cat(exact), torch.cat(rounded)
        difference = other.gather(1, torch.cat(tokens)[:, None])[:, 0] - own_logs
        result[dtype] = {
            "kl": float((one.exp() * (one - other)).sum(1).mean()),
            "same_top_1": float((one.argmax(1) == other.argmax(1)).float().mean()),
            "rms": float(difference.square().mean().sqrt())}
    scored = peer.score_batch(
        [tokenizer.convert_ids_to_tokens(source) for source, _ in pairs],
        [tokenizer.convert_ids_to_tokens(target)[:-1] for _, target in pairs])
    difference = torch.tensor([log for own in scored for log in own.log_probs]) - own_logs
    result[PEER] = {"rms": float(difference.square().mean().sqrt())}
    result["positions"] = {"number": len(own_logs)}
    return result


def logs(model: Any, source: list[int], target: list[int]) -> Any:
    """(T, V) log-probabilities of each token, given those before."""
    import torch

    start = model.generation_config.decoder_start_token_id
    with torch.inference_mode():
        found = model(input_ids=torch.tensor([source]),
                      decoder_input_ids=torch.tensor([[start, *target[:-1]]]))
    return found.logits[0].double().log_softmax(1)


def all_runs(args: argparse.Namespace) -> Iterator[dict[str, Any]]:
    for name in args.instructions:
        for threads in args.threads:
            command = [sys.executable, __file__, "--child", "--model", args.model,
                       "--converted", args.converted, "--instructions", name,
                       "--threads", str(threads), "--turns", str(args.turns),
                       "--samples", *map(str, args.samples)]
            if threads == 1:
                command.append("--errors")
            environment = INSTRUCTIONS[name] | {"OMP_NUM_THREADS": str(threads)}
            done = subprocess.run(command, env=os.environ | environment, stdout=subprocess.PIPE,
                                  check=True)
            yield json.loads(done.stdout.splitlines()[-1])


def convert(model: str, folder: str) -> str:
    from ctranslate2.converters import TransformersConverter

    converter = TransformersConverter(model, copy_files=["source.spm", "target.spm"])
    return str(converter.convert(str(Path(folder) / "int8"), quantization="int8"))


def times_table(results: dict[str, Any]) -> str:
    head = ["instructions", "threads", "samples × sources", "time", f"{PEER}, µs", *FORMATS]
    rows = [[run["instructions"], run["threads"], f"{n} × {SIZES[int(n)]}", CLOCKS[clock],
             f"{times[PEER][clock]:.0f}", *(ratio(times, dtype, clock) for dtype in FORMATS)]
            for run in results["runs"] for n, times in run["times"].items()
            for clock in (["cpu"] if run["threads"] == 1 else CLOCKS)]
    return pages.table(head, rows)


def threads_table(results: dict[str, Any]) -> str:
    """How many times as fast two threads are as one, by the clock."""
    head = ["instructions", "samples × sources", PEER, *FORMATS]
    found = {(run["instructions"], run["threads"]): run["times"] for run in results["runs"]}
    rows = [[name, f"{n} × {SIZES[int(n)]}",
             *(f"{times[own]['wall'] / found[name, 2][n][own]['wall']:.2f}" if own in times else ""
               for own in (PEER, *FORMATS))]
            for (name, threads), whole in found.items() if threads == 1 and (name, 2) in found
            for n, times in whole.items()]
    return pages.table(head, rows) if rows else "Not measured."


def ratio(times: dict[str, Any], dtype: str, clock: str) -> str:
    return f"{times[dtype][clock] / times[PEER][clock]:.2f}" if dtype in times else ""


def errors_table(results: dict[str, Any]) -> str:
    head = ["instructions", "format", "KL from fp32", "same most likely token",
            "error of a token's log-probability (RMS)"]
    rows = [[run["instructions"], name, f"{own['kl']:.1g}" if "kl" in own else "",
             f"{own['same_top_1']:.1%}" if "kl" in own else "", f"{own['rms']:.3f}"]
            for run in results["runs"] for name, own in sorted(run.get("errors", {}).items())
            if "rms" in own]
    return pages.table(head, rows)


def machine_line(results: dict[str, Any]) -> str:
    return pages.machine_line(results["machine"], "torch", "transformers", "ctranslate2",
                              also=[f"{results['turns']} turns"])


def fill_tables(results: dict[str, Any]) -> None:
    pages.fill(HERE / "README.md", {
        "ct2-machine": machine_line(results), "ct2-times": times_table(results),
        "ct2-threads": threads_table(results), "ct2-errors": errors_table(results)})


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", required=True, help="OPUS-MT en-fr, as a folder")
    parser.add_argument("--converted", help="the same, converted [default: is converted]")
    parser.add_argument("--instructions", nargs="+", choices=INSTRUCTIONS,
                        default=[*INSTRUCTIONS])
    parser.add_argument("--threads", nargs="+", type=int, default=[1, 2])
    parser.add_argument("--samples", nargs="+", type=int, choices=SIZES, default=[*SIZES])
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--output", type=Path, default=RESULTS)
    parser.add_argument("--errors", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    return parser.parse_args()


def main() -> None:
    args = parse()
    if not SOURCES.is_file():
        raise SystemExit(f"needs {SOURCES.name}; MINRISK_DATA names the folder of the data")
    if args.child:
        print(json.dumps(measured(args)))
        return
    results: dict[str, Any] = {"machine": machine.describe("torch", "transformers", "ctranslate2"),
               "turns": args.turns, "unit": "microseconds per token, the least of all turns"}
    with tempfile.TemporaryDirectory() as folder:
        args.converted = args.converted or convert(args.model, folder)
        results["runs"] = []
        for run in all_runs(args):
            results["runs"].append(run)
            args.output.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    if args.output == RESULTS:
        fill_tables(results)


if __name__ == "__main__":
    main()
