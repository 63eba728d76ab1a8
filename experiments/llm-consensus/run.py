"""What do methods of consensus gain for a small language model, and are they sure when right?

    python experiments/llm-consensus/tasks.py problems.jsonl
    minrisk sample problems.jsonl --model FOLDER -n 32 --temperature 0.7 --max-tokens 320 \\
        --repeat -o samples.jsonl       # or --endpoint URL --model NAME --top-logprobs 5
    python experiments/llm-consensus/run.py samples.jsonl [gsm8k.jsonl.xz ...] \\
        [--served choices.jsonl]        # -> results.json, and the tables of README.md

    python experiments/llm-consensus/run.py samples.jsonl --endpoint URL --model NAME \\
        --served choices.jsonl          # only asks the model to judge, choose and fuse

Each file has the samples of one model; a line without `task` belongs to `gsm8k`.
Of N samples, every method gets N / n disjoint blocks of n. Intervals are of 95%, by resampling
problems; gains over one sample are paired by problem.
"""

from __future__ import annotations

import argparse
import json
import sys
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from itertools import islice
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

HERE = Path(__file__).resolve().parent
sys.path += [str(HERE), str(HERE.parents[1] / "benchmarks")]
import machine
from methods import (
    METHODS,
    Fields,
    Method,
    can_run,
    kind_of,
    qualities,
    served_methods,
    without_server,
)
from tables import write

import minrisk
from minrisk.io.files import Input

SIZES = (4, 8, 16, 32)
BLOCKS = 4  # of a problem, at most
RESAMPLES = 2000
COLUMNS = ("samples", "logprobs", "lengths", "lowest_logprobs", "tail_logprobs", "certainties")
ONE, ANY = "one sample", "any right (pass@n)"


class Problem:
    """A problem with its samples in random order, and the quality of texts."""

    def __init__(self, fields: Mapping[str, Any]) -> None:
        self.id, self.task = str(fields["id"]), str(fields.get("task", "gsm8k"))
        self.kind, self.gold, self.prompt = kind_of(self.task), fields["gold"], fields["prompt"]
        copies = np.repeat(np.arange(len(fields["samples"])), fields.get("counts", 1))
        order = np.random.default_rng(zlib.crc32(self.id.encode())).permutation(copies)
        self.columns = {name: [fields[name][row] for row in order]
                        for name in COLUMNS if name in fields}
        self.size = len(order)
        self._qualities: dict[str, float] = {}

    def records(self, n: int, most: int = BLOCKS) -> list[Fields]:
        """Blocks of n samples, as lines for `decode`."""
        starts = range(0, min(self.size // n, most) * n, n)
        return [{"source": self.prompt, "counts": [1] * n} | {
            name: values[start:start + n] for name, values in self.columns.items()}
            for start in starts]

    def qualities(self, texts: Sequence[str]) -> list[float]:
        new = [text for text in dict.fromkeys(texts) if text not in self._qualities]
        if new:
            self._qualities |= zip(new, qualities(self.kind, new, self.gold), strict=True)
        return [self._qualities[text] for text in texts]


def problems_of(path: str) -> dict[str, list[Problem]]:
    """The problems of each task of a file of samples; failed lines are left out."""
    found: dict[str, list[Problem]] = {}
    for line in Input(path).texts():
        fields = json.loads(line)
        if fields.get("samples"):
            problem = Problem(fields)
            found.setdefault(problem.task, []).append(problem)
    return found


def chosen(method: Method, problem_kind: str,
           records: Sequence[Fields]) -> tuple[list[Any], float]:
    """The results of a method, and the seconds of each."""
    began = perf_counter()
    found = list(minrisk.decode_corpus(records, confidence=True, **method.options(problem_kind)))
    return found, (perf_counter() - began) / len(records)


def evaluate(problems: Sequence[Problem], n: int) -> Iterator[Fields]:
    """A row for each method, of n samples of each problem."""
    problems = [problem for problem in problems if problem.size >= n]
    if not problems:
        return
    kind = problems[0].kind
    blocks = [problem.records(n) for problem in problems]
    of_blocks = [[problem.qualities(block["samples"]) for block in own]
                 for problem, own in zip(problems, blocks, strict=True)]
    single = np.array([np.mean(own) for own in of_blocks])
    best = np.array([np.mean(np.max(own, axis=1)) for own in of_blocks])
    lengths = [np.mean([sum(block.get("lengths", [0])) for block in own]) for own in blocks]
    shared = {"n": n, "problems": len(problems)}
    yield {"method": ONE, **shared, **summary(single, single)}
    for name, method in METHODS.items():
        if not can_run(method, kind, blocks[0][0]):
            continue
        flat = [block for own in blocks for block in own]
        try:
            results, seconds = chosen(method, kind, flat)
        except minrisk.MissingExtra as error:
            print(f"{name}: left out: {error}", file=sys.stderr)
            continue
        texts = islice_by(results, map(len, blocks))
        found = [problem.qualities([one.text or "" for one in own])
                 for problem, own in zip(problems, texts, strict=True)]
        yield {"method": name, **shared, **summary(np.array([*map(np.mean, found)]), single),
               "seconds": seconds, "tokens": float(np.mean(lengths)),
               **calibration([one for own, _ in zip(texts, found, strict=True) for one in own[:1]],
                             [own[0] == 1 for own in found])}
    yield {"method": ANY, **shared, **summary(best, single)}


def islice_by(values: Iterable[Any], sizes: Iterable[int]) -> list[list[Any]]:
    """The values in consecutive lists of these sizes."""
    rest = iter(values)
    return [list(islice(rest, size)) for size in sizes]


def calibration(results: Sequence[Any], right: Sequence[bool]) -> Fields:
    """How well the default signal tells right choices from wrong ones, where there are enough."""
    try:
        report = minrisk.calibrate(results, verdict=right)
    except minrisk.InputError:
        return {}
    quality = next(one for one in report.signals if one.name == report.calibration.signal)
    return {"signal": quality.name, "auroc": quality.auroc.value, "aurc": quality.aurc.value,
            "ece": quality.ece.value, "brier": quality.brier.value,
            "error of the surest": {str(share): surest(quality.curve, share)
                                    for share in (0.25, 0.5)}}


def surest(curve: Sequence[tuple[float, float]], share: float) -> float:
    """The error among at least this share of the choices, the surest ones."""
    return next(error for coverage, error in curve if coverage >= share - 1e-9)


def summary(values: Any, single: Any) -> Fields:
    rows = np.random.default_rng(0).integers(0, values.size, (RESAMPLES, values.size))
    return {**interval(values, rows), "gain": interval(values - single, rows)}


def interval(values: Any, rows: Any) -> Fields:
    low, high = np.quantile(values[rows].mean(axis=1), [0.025, 0.975])
    return {"mean": float(values.mean()), "low": float(low), "high": float(high)}


# methods that ask a server


def ask(options: argparse.Namespace) -> None:
    """Let the model judge, choose and fuse; one line for each problem and method."""
    options.served.parent.mkdir(parents=True, exist_ok=True)
    with options.served.open("a", encoding="utf-8") as output, ThreadPoolExecutor(
            options.problems_at_once) as threads:
        done = {(fields["file"], fields["id"], fields["method"]) for fields in lines_of(options)}
        waiting = [threads.submit(asked, options, path, task, name, problem)
                   for path in options.files for task, problems in problems_of(path).items()
                   for name in served_methods(judge_of(options), options.subset)
                   for problem in problems[:options.problems]
                   if (path, problem.id, name) not in done]
        for line in as_completed(waiting):
            output.write(json.dumps(line.result(), ensure_ascii=False) + "\n")
            output.flush()


def judge_of(options: argparse.Namespace) -> minrisk.Judge:
    return minrisk.Judge(options.model, options.endpoint, concurrency=options.concurrency)


def asked(options: argparse.Namespace, path: str, task: str, name: str,
          problem: Problem) -> Fields:
    """What a method chooses, with a judge of its own, which counts its tokens."""
    judge = judge_of(options)
    method = served_methods(judge, options.subset)[name]
    line: Fields = {"file": path, "task": task, "id": problem.id, "method": name,
                    "samples": options.samples}
    began = perf_counter()
    try:
        [found], _ = chosen(method, problem.kind, problem.records(options.samples, 1))
        line |= {"text": found.text, "error": None,
                 "kept": None if found.proposal is None else found.index is None}
    except minrisk.InputError as error:  # a run whose only segment failed
        line |= {"text": None, "error": str(error), "kept": None}
    return line | {"seconds": perf_counter() - began, "usage": judge.usage}


def lines_of(options: argparse.Namespace) -> list[Fields]:
    path: Path = options.served
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if (
        path.exists()) else []


def served_rows(lines: Sequence[Fields], by_id: Mapping[str, Problem]) -> Iterator[Fields]:
    """Methods that asked a server beside one sample and the choice without it, of the same samples.
    """
    for method in dict.fromkeys(line["method"] for line in lines):
        found = [line for line in lines if line["method"] == method]
        problems = [by_id[line["id"]] for line in found]
        n, kind = found[0]["samples"], problems[0].kind
        blocks = [problem.records(n, 1)[0] for problem in problems]
        single = np.array([np.mean(problem.qualities(block["samples"]))
                           for problem, block in zip(problems, blocks, strict=True)])
        choices, _ = chosen(METHODS[without_server(kind)], kind, blocks)
        texts = ([choice.text for choice in choices], [line["text"] for line in found])
        unserved, values = (np.array([problem.qualities([text or ""])[0] for problem, text
                                      in zip(problems, own, strict=True)]) for own in texts)
        yield {"method": method, "n": n, "problems": len(found), **summary(values, single),
               "one": float(single.mean()), "without_server": float(unserved.mean()),
               "values": {"served": values.tolist(), "without_server": unserved.tolist(),
                          "one": single.tolist()},
               "failed": sum(line["error"] is not None for line in found),
               "kept": sum(bool(line["kept"]) for line in found),
               "seconds": float(np.mean([line["seconds"] for line in found])),
               **{name: float(np.mean([line["usage"].get(name, 0) for line in found]))
                  for name in ("requests", "prompt_tokens", "completion_tokens")}}


def rounded(value: Any) -> Any:
    """The value with all numbers to six digits after the point."""
    if isinstance(value, dict):
        return {name: rounded(own) for name, own in value.items()}
    if isinstance(value, list):
        return [rounded(own) for own in value]
    return round(value, 6) if isinstance(value, float) else value


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", help="files of samples, each of one model")
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES, help="numbers of samples")
    parser.add_argument("--served", type=Path, default="build/llm-consensus/choices.jsonl",
                        help="file of choices for which a server was asked")
    parser.add_argument("--endpoint", help="address of a server: ask it, and do nothing else")
    parser.add_argument("--model", default="model", help="name of its model")
    parser.add_argument("--problems", type=int, default=40, help="of each task, for a server")
    parser.add_argument("--samples", type=int, default=8, help="of each problem, for a server")
    parser.add_argument("--subset", type=int, default=3, help="references of the judge")
    parser.add_argument("--problems-at-once", type=int, default=4, help="for a server")
    parser.add_argument("--concurrency", type=int, default=8, help="requests at a time")
    parser.add_argument("--output", type=Path, default=HERE, help="folder of results and README.md")
    options = parser.parse_args()
    if options.endpoint:
        ask(options)
        return
    lines, found = lines_of(options), []
    for path in options.files:
        for task, problems in problems_of(path).items():
            print(f"{path}: {task}, {len(problems)} problems", file=sys.stderr)
            found.append({
                "model": Path(path).name.removesuffix(".xz").removesuffix(".jsonl"), "task": task,
                "kind": problems[0].kind,
                "rows": [row for n in sorted(options.sizes, reverse=True)  # blocks share samples
                         for row in evaluate(problems, n)],
                "served": [*served_rows(
                    [line for line in lines if (line["file"], line["task"]) == (path, task)],
                    {problem.id: problem for problem in problems})]})
    result = rounded({"machine": machine.describe(), "tasks": found})
    output: Path = options.output
    (output / "results.json").write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    write(result, output / "README.md")


if __name__ == "__main__":
    main()
