"""Does the cost of a folder grow in proportion to the number of its shards?

usage: python benchmarks/scale/shards.py [--shards N...] [--folder FOLDER] [--output FILE]

Decodes N files of one segment into a folder with one worker, then resumes the finished run; writes
shards.json and shards.md. Seconds of the processors are those of the driver and its worker.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

HERE = Path(__file__).parent
sys.path.append(str(HERE.parent))  # what all benchmarks share

import machine
import pages

SEGMENT = {"samples": ["The cat sat on the mat.", "A cat sat on a mat.", "The dog sat."]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--shards", type=int, nargs="+", default=[1000, 5000, 10_000, 20_000])
    parser.add_argument("--folder", type=Path, help="where a folder for all files is made")
    parser.add_argument("--output", type=Path, default=HERE / "shards.json")
    options = parser.parse_args()
    runs = []
    for count in options.shards:
        with TemporaryDirectory(dir=options.folder) as folder:
            runs.append(measure(Path(folder), count))
        print(runs[-1], file=sys.stderr)
    found = {"machine": machine.describe(), "runs": runs}
    options.output.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    options.output.with_suffix(".md").write_text(table(found), encoding="utf-8")


def measure(folder: Path, count: int) -> dict[str, Any]:
    (folder / "in").mkdir()
    for number in range(count):
        line = json.dumps({"id": f"s{number}"} | SEGMENT) + "\n"
        (folder / "in" / f"{number:06}.jsonl").write_text(line, encoding="utf-8")
    command = ["minrisk", "decode", f"{folder}/in/*.jsonl", "-o", f"{folder}/out/",
               "--workers", "1"]
    first = timed(command)
    resumed = timed([*command, "--resume"])
    written = sum(1 for _ in (folder / "out").glob("0*.jsonl"))
    assert written == count, f"{written} of {count} shards were written"
    return {"shards": count, "run": first, "resume": resumed}


def timed(command: list[str]) -> dict[str, float]:
    command = [sys.executable, "-m", *command]
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run(command, check=True, capture_output=True)
    seconds, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    processor = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {"seconds": round(seconds, 2), "processor_seconds": round(processor, 2)}


def table(found: dict[str, Any]) -> str:
    rows = [[f"{run['shards']:,}", f"{run['run']['seconds']:.1f}",
             f"{run['run']['processor_seconds']:.1f}",
             f"{1000 * run['run']['seconds'] / run['shards']:.1f}",
             f"{run['resume']['seconds']:.1f}"] for run in found["runs"]]
    head = ["shards", "run, s", "of the processor, s", "a shard, ms", "resume, s"]
    return (f"One segment a shard, one worker. {pages.machine_line(found['machine'])}\n\n"
            f"{pages.table(head, rows)}\n")


if __name__ == "__main__":
    main()
