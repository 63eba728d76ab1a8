"""How well does decoding scale: over workers, on Ray, and in the driver's memory?

usage: python benchmarks/scale/run.py [--segments N] [--workers W...] [--engines E...] [--turns T]

Decodes N segments of 1,024 samples by exact chrF MBR with each engine and number of workers, a
tenth of them first; writes results.json, and from all results the tables of README.md and
docs/guides/scale.md, and memory.svg.
"""

from __future__ import annotations

import argparse
import io
import json
import lzma
import os
import random
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import zstandard
from table import RESULTS, write_all

HERE = Path(__file__).parent
sys.path.append(str(HERE.parent))  # what all benchmarks share

import machine

SAMPLES = machine.DATA / "samples" / "ntrex-en-fr.jsonl.xz"
SHARDS = 8
STEP = 1  # seconds between looks at the driver's memory
PAUSE = 4  # seconds, in which the processes of the last run end
ENGINES = {
    "local": [],
    "ray": ["--engine", "ray", "--address", "auto"],  # a cluster that is there
    "ray, of its own": ["--engine", "ray"],  # which starts and ends with the run
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--segments", type=int, default=2000)
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--engines", nargs="+", choices=ENGINES, default=list(ENGINES))
    parser.add_argument("--turns", type=int, default=3, help="of all runs; the tables have medians")
    parser.add_argument("--samples", type=Path, default=SAMPLES)
    parser.add_argument("--folder", type=Path, help="where a folder for all files is made")
    parser.add_argument("--output", type=Path, default=RESULTS)
    options = parser.parse_args()
    with TemporaryDirectory(dir=options.folder) as folder:
        few, all_of_them = Path(folder) / "few", Path(folder) / "all"
        write_shards(few, options.samples, options.segments // 10)
        size = write_shards(all_of_them, options.samples, options.segments)
        runs: list[dict[str, Any]] = []
        for run in measure(options, few, all_of_them, Path(folder) / "out"):
            print(f"{run['engine']}, {run['workers']} workers: {run['segments']} segments, "
                  f"{run['seconds']:.1f} s", file=sys.stderr)
            runs.append(run)  # and nothing is lost where it ends early
            results = {"machine": machine.describe("numpy", "ray"), "bytes": size,
                       "segments": options.segments, "runs": runs}
            options.output.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    write_all()


def measure(options: argparse.Namespace, few: Path, all_of_them: Path,
            out: Path) -> Iterator[dict[str, Any]]:
    for workers in options.workers:
        with cluster(1 + workers):
            for _ in range(options.turns):
                for engine in options.engines:
                    for inputs in (few, all_of_them):
                        yield decode(inputs, out, engine, workers)


@contextmanager
def cluster(cores: int) -> Iterator[None]:
    """A Ray cluster on this machine, which is there before a run and after it."""
    ray = [sys.executable, "-m", "ray.scripts.scripts"]
    subprocess.run([*ray, "start", "--head", f"--num-cpus={cores}", "--include-dashboard=false",
                    "--disable-usage-stats"], check=True, stdout=subprocess.DEVNULL)
    try:
        yield
    finally:
        subprocess.run([*ray, "stop", "--force"], check=True, stdout=subprocess.DEVNULL)


def write_shards(folder: Path, samples: Path, count: int) -> int:
    """Real segments again and again, each time with their samples in another order and a tenth of
    them in place of others; how many bytes that is before compression.
    """
    folder.mkdir()
    with lzma.open(samples, "rt", encoding="utf-8") as lines:
        known = [json.loads(line) for line in islice(lines, count)]
    size = 0
    for shard in range(SHARDS):
        with zstandard.open(folder / f"{shard}.jsonl.zst", "wb") as stream:
            for index in range(shard, count, SHARDS):
                line = json.dumps(varied(known[index % len(known)], index), ensure_ascii=False)
                size += stream.write(line.encode() + b"\n")
    return size


def varied(record: dict[str, Any], seed: int) -> dict[str, Any]:
    rng = random.Random(seed)
    samples = rng.sample(record["samples"], len(record["samples"]))
    dropped = len(samples) // 10
    samples[:dropped] = rng.choices(samples[dropped:], k=dropped)
    return {"id": seed, "source": record["source"], "samples": samples}


def decode(inputs: Path, out: Path, engine: str, workers: int) -> dict[str, Any]:
    """One run of the command, and what its own report and the system say of it."""
    shutil.rmtree(out, ignore_errors=True)
    time.sleep(PAUSE)
    report = out.with_suffix(".json")
    command = [sys.executable, "-m", "minrisk", "decode", f"{inputs}/*.jsonl.zst", "-o", f"{out}/",
               *ENGINES[engine], "--workers", str(workers), "--threads", "1",
               "--report", str(report), "--quiet"]
    start = time.perf_counter()
    process = subprocess.Popen(command, env=os.environ | {"OMP_NUM_THREADS": "1"})
    memory = list(watched(process, start))
    seconds = time.perf_counter() - start
    if process.returncode:
        sys.exit(f"{' '.join(command)} ended with {process.returncode}")
    found = json.loads(report.read_text(encoding="utf-8"))
    return {"engine": engine, "workers": workers, "segments": found["this_run"]["segments"],
            "pairs": found["this_run"]["pairs"], "command_seconds": seconds,
            "seconds": found["this_run"]["seconds"], "stages": found["seconds_of_stages"],
            "utilisation": found["utilisation"]["decode"],
            "driver_peak_bytes": found["driver_peak_bytes"], "driver_memory": memory}


def watched(process: subprocess.Popen[bytes], start: float) -> Any:
    """(seconds, bytes) of the driver's resident memory, until it ends."""
    status = Path(f"/proc/{process.pid}/status")
    while process.poll() is None:
        lines = dict(line.split(":", 1) for line in io.StringIO(status.read_text()) if ":" in line)
        if "VmRSS" in lines:
            yield round(time.perf_counter() - start, 2), 1024 * int(lines["VmRSS"].split()[0])
        time.sleep(STEP)


if __name__ == "__main__":
    main()
