"""How well does decoding scale: over workers, on Ray, and in the driver's memory?

usage: python benchmarks/scale/run.py [--segments N] [--workers W...] [--engines E...]

Decodes N segments of 1,024 samples by exact chrF MBR with each engine and number of workers, a
tenth of them first; writes results.json, the tables of README.md and docs/scale.md, and memory.svg.
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
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import zstandard
from table import write_all

HERE = Path(__file__).parent
sys.path.append(str(HERE.parent))  # what all benchmarks share

import machine

SAMPLES = HERE.parents[2] / "shared" / "data" / "samples" / "ntrex-en-fr.jsonl.xz"
SHARDS = 8
STEP = 0.25  # seconds between looks at the driver's memory


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--segments", type=int, default=2000)
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--engines", nargs="+", default=["local", "ray"])
    parser.add_argument("--samples", type=Path, default=SAMPLES)
    parser.add_argument("--folder", type=Path, help="where a folder for all files is made")
    options = parser.parse_args()
    with TemporaryDirectory(dir=options.folder) as folder:
        results = measure(options, Path(folder))
    (HERE / "results.json").write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    write_all(results)


def measure(options: argparse.Namespace, folder: Path) -> dict[str, Any]:
    few, all_of_them = folder / "few", folder / "all"
    write_shards(few, options.samples, options.segments // 10)
    size = write_shards(all_of_them, options.samples, options.segments)
    runs = []
    for workers in options.workers:
        for engine in options.engines:
            for inputs in (few, all_of_them):
                runs.append(decode(inputs, folder / "out", engine, workers))
                print(f"{engine}, {workers} workers: {runs[-1]['segments']} segments, "
                      f"{runs[-1]['seconds']:.1f} s", file=sys.stderr)
    return {"machine": machine.describe("numpy", "ray"), "segments": options.segments,
            "bytes": size, "runs": runs}


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
    report = out.with_suffix(".json")
    command = [sys.executable, "-m", "minrisk", "decode", f"{inputs}/*.jsonl.zst", "-o", f"{out}/",
               "--engine", engine, "--workers", str(workers), "--threads", "1",
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
