"""What does a segment cost, on this machine, our way and the paper's? Writes JSON for the page.

usage: python experiments/reference-aggregation/timing.py [--device cuda] [--model FOLDER]
           [--only PART ...] --samples FILE --output FILE

It needs torch, transformers and NumPy; MQM and fastChrF are left out where they are not installed.
COMET has random weights: on a GPU the shape of COMET-22, on a CPU that of a small Cometinho. The
file is written after each part; --only measures some, and leaves the others as they are.
"""

from __future__ import annotations

import argparse
import json
import lzma
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from timed_methods import Clock, Found, Work, chrf, comet, models, mqm, sampling, say

from minrisk import MissingExtra, Segment

sys.path.append(str(Path(__file__).resolve().parents[2] / "benchmarks"))
import machine


@dataclass(frozen=True)
class Part:
    """So many segments our way and the paper's."""

    measure: Callable[[Work], Found]
    segments: int
    few: int


SAMPLING = "sampling"
# some 10 minutes of two cores in all; six segments or more, so that their range means something
PLANS = {"cpu": {SAMPLING: Part(sampling, 4, 1), "chrF": Part(chrf, 6, 4), "MQM": Part(mqm, 6, 2),
                 "COMET-small": Part(partial(comet, models.SMALL), 6, 1)},
         "cuda": {SAMPLING: Part(sampling, 32, 4),
                  "COMET-22": Part(partial(comet, models.COMET_22), 8, 4)}}


def measure(given: argparse.Namespace) -> None:
    """Part after part; the file has all that was measured so far."""
    found, plan = before(given), PLANS[given.device]
    given.output.parent.mkdir(parents=True, exist_ok=True)
    for name in given.only or [name for name in plan if given.model or name != SAMPLING]:
        say(f"{name}:")
        try:
            measured = plan[name].measure(work_of(plan[name], given))
        except MissingExtra as error:
            say(f"  left out: {error}")
            continue
        (found if name == SAMPLING else found["utilities"])[name] = measured
        found["machine"] = measured_on(given.device, found["machine"].get("load", 0.0))
        given.output.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


def work_of(part: Part, given: argparse.Namespace) -> Work:
    most = min(part.segments, given.segments or part.segments)
    return Work(read(given.samples, most, given.count), part.few, given.count, given.model,
                Clock(given.device))


def read(path: Path, segments: int, samples: int) -> list[Segment]:
    with lzma.open(path, "rt", encoding="utf-8") as lines:
        records = [json.loads(line) for line in islice(lines, segments)]
    return [Segment(r["samples"][:samples], source=r["source"], position=i)
            for i, r in enumerate(records)]


def before(given: argparse.Namespace) -> dict[str, Any]:
    """The file as it is, if only some parts are to be measured."""
    fresh = {"machine": {}, "device": given.device, "samples": given.count, SAMPLING: {},
             "utilities": {}}
    if not given.only or not given.output.exists():
        return fresh
    found: dict[str, Any] = json.loads(given.output.read_text(encoding="utf-8"))
    if any(found[key] != fresh[key] for key in ("device", "samples")):
        raise SystemExit(f"{given.output} is of {found['samples']} samples on {found['device']}; "
                         "give another --output, or measure all parts")
    return found


def measured_on(device: str, load: float) -> dict[str, Any]:
    """With the greatest load at the end of any part."""
    now = machine.describe("torch", "transformers")
    return now | {"name": machine.with_gpu() if device == "cuda" else machine.processor(),
                  "threads": torch.get_num_threads(), "load": max(load, now["load"])}


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", choices=list(PLANS), default="cpu")
    parser.add_argument("--model", help="OPUS-MT en-fr, as a folder; no sampling without it")
    parser.add_argument("--samples", type=Path, required=True, help="ntrex-en-fr.jsonl.xz")
    parser.add_argument("--count", type=int, default=1024, help="samples of a segment, 20 or more")
    parser.add_argument("--segments", type=int, help="at most, to see that it works")
    parser.add_argument("--only", nargs="+", metavar="PART", help="of: {}".format("; ".join(
        f"{', '.join(plan)} ({device})" for device, plan in PLANS.items())))
    parser.add_argument("--output", type=Path, required=True, help="results/NAME/time-DEVICE.json")
    given = parser.parse_args(arguments)
    plan = PLANS[given.device]
    if given.only and not plan.keys() >= set(given.only):
        parser.error(f"--only {' '.join(given.only)}: on {given.device} there is only "
                     f"{', '.join(plan)}")
    if given.only and SAMPLING in given.only and not given.model:
        parser.error(f"--only {SAMPLING} needs a --model")
    measure(given)


if __name__ == "__main__":
    main()
