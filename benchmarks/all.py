"""Runs all benchmarks and experiments that need no GPU, one after the other.

usage: python benchmarks/all.py [NAME ...] [--data FOLDER] [--opus FOLDER] [--work FOLDER] [--list]

Every run writes its JSON and fills its tables; at the end come the tables of the project's README.
That takes hours. What has finished with this version and this native core is not run again, so that
an interrupted run continues where it was: --work keeps notes, logs, and environments of the peers.
Without --data (the research data) or --opus (OPUS-MT en-fr as a folder), what needs them is left
out, and said so. experiments/reference-aggregation and experiments/llm-consensus continue what was
interrupted by themselves, and are run by hand.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
import venv
from dataclasses import dataclass
from pathlib import Path

import machine

import minrisk

ROOT = Path(__file__).resolve().parents[1]
PEERS = {  # packages of the environments that hold what does not belong beside minrisk
    "mbrs": ["mbrs==0.1.8", "transformers<5", "sentencepiece", "setuptools<80"],
    "originals": ["fastchrf", "sacrebleu", "rouge-score", "pycocoevalcap", "jiwer", "bert-score",
                  "torch"],
}
FR_EN, EN_FR, GSM8K = ("{data}/samples/ntrex-fr-en.jsonl.xz", "{data}/samples/ntrex-en-fr.jsonl.xz",
                       "{data}/llm/gsm8k-qwen2.5-0.5b.jsonl.xz")
TABLES = {"comet-tables", "readme"}  # quick, and made of what the others measured
BY_VARIABLE = {"chrf", "bleu", "metrics", "strategies", "sampling", "sampling-ct2", "scale",
               "scale-references", "control-variate", "control-variate-variance", "mqm"}
DEMO = "src/minrisk/data/demo.jsonl.xz"


@dataclass(frozen=True)
class Program:
    """A benchmark; braces in its arguments name the data, a model or the Python of a peer.

    Those of BY_VARIABLE find the data by MINRISK_DATA.
    """

    name: str
    arguments: tuple[str, ...]

    @property
    def needs(self) -> list[str]:
        return [need for need in ("data", "opus", *PEERS)
                if any(f"{{{need}}}" in argument for argument in self.arguments)
                or (need == "data" and self.name in BY_VARIABLE)]


PROGRAMS = [Program(name, tuple(arguments.split())) for name, arguments in (
    ("chrf", "benchmarks/chrf/run.py"),
    ("bleu", "benchmarks/bleu/run.py"),
    ("metrics", "benchmarks/metrics/run.py --mbrs {mbrs} --originals {originals}"),
    ("strategies", "benchmarks/strategies/run.py"),
    ("strategies-eighth", f"benchmarks/strategies/eighth.py {EN_FR}"),
    ("comet", "benchmarks/comet/run.py --output benchmarks/comet/cpu.json"),
    ("comet-formats", "benchmarks/comet/formats.py --output benchmarks/comet/formats.json"),
    ("comet-tables", "benchmarks/comet/table.py"),
    ("sampling", "benchmarks/sampling/run.py --model {opus} --output benchmarks/sampling/cpu.json"),
    ("sampling-ct2", "benchmarks/sampling/against_ct2.py --model {opus}"),
    ("scale", "benchmarks/scale/run.py"),
    ("scale-references", "benchmarks/scale/references.py"),
    ("scale-shards", "benchmarks/scale/shards.py"),
    ("serve", "benchmarks/serve/run.py"),
    ("serve-throughput", "benchmarks/serve/throughput.py"),
    ("serve-load", "benchmarks/serve/load.py"),
    ("serve-quality", "benchmarks/serve/quality.py"),
    ("inspect", "benchmarks/inspect/run.py"),
    ("judge", "benchmarks/judge/run.py"),
    ("calibration", f"experiments/calibration/run.py {GSM8K}"),
    ("compose", "experiments/compose/run.py"),
    ("confidence", f"experiments/confidence/run.py en-fr={EN_FR} fr-en={FR_EN} demo={DEMO} "
                   f"--llm {GSM8K}"),
    ("control-variate", "experiments/control-variate/run.py"),
    ("control-variate-variance", "experiments/control-variate/variance.py"),
    ("mqm", "experiments/mqm/evaluate.py"),
    ("number-of-samples", f"experiments/number-of-samples/run.py fr-en={FR_EN} en-fr={EN_FR}"),
    ("significance", f"experiments/significance/run.py {EN_FR}"),
    ("uncertainty", f"experiments/uncertainty/run.py fr-en={FR_EN} en-fr={EN_FR}"),
    ("uncertainty-answers", f"experiments/uncertainty/answers.py {GSM8K}"),
    ("readme", "benchmarks/speed.py"),
)]


def main() -> int:
    given = options()
    places = {"data": given.data, "opus": given.opus}
    chosen = [program for program in PROGRAMS if not given.names or program.name in given.names]
    if given.list:
        for program in chosen:
            needs = f"  # needs {', '.join(program.needs)}" if program.needs else ""
            print(f"{program.name}: {' '.join(program.arguments)}{needs}")
        return 0
    given.work.mkdir(parents=True, exist_ok=True)
    ended = [run(program, places, given.work) for program in chosen]
    return 0 if all(ended) else 1


def run(program: Program, places: dict[str, Path | None], work: Path) -> bool:
    """Whether a program did not fail; one that has finished before is not run again."""
    missing = [need for need in program.needs
               if need in places and not (places[need] and Path(str(places[need])).exists())]
    if missing:
        say(f"{program.name}: left out, for want of --{' and --'.join(missing)}")
        return True
    finished = notes(work)
    if finished.get(program.name, {}).get("of") == state():
        say(f"{program.name}: finished before")
        return True
    try:
        filled = {need: str(places[need]) if need in places else peer(need, work)
                  for need in program.needs}
    except subprocess.CalledProcessError as error:
        say(f"{program.name}: failed, because a peer was not installed: {error}")
        return False
    say(f"{program.name}: runs")
    start = time.perf_counter()
    with (work / f"{program.name}.log").open("w") as log:
        ended = subprocess.run([sys.executable, *(a.format(**filled) for a in program.arguments)],
                               cwd=ROOT, stdout=log, stderr=log, check=False,
                               env=os.environ | {"MINRISK_DATA": str(places["data"])})
    if ended.returncode:
        say(f"{program.name}: failed with exit code {ended.returncode}; see {log.name}")
        return False
    minutes = round((time.perf_counter() - start) / 60, 1)
    if program.name not in TABLES:
        finished[program.name] = {"of": state(), "minutes": minutes}
        (work / "finished.json").write_text(json.dumps(finished, indent=1))
    say(f"{program.name}: finished after {minutes} minutes")
    return True


def notes(work: Path) -> dict[str, dict[str, object]]:
    path = work / "finished.json"
    found: dict[str, dict[str, object]] = json.loads(path.read_text()) if path.exists() else {}
    return found


def state() -> str:
    return f"{minrisk.__version__} {machine.native_core()}"


def peer(name: str, work: Path) -> str:
    """The Python of an environment with the packages of a peer, made where it is missing."""
    folder = work / name
    python = folder / "bin" / "python"
    if not (folder / "complete").exists():
        say(f"{name}: installs {', '.join(PEERS[name])}")
        venv.create(folder, with_pip=True, clear=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", *PEERS[name]], check=True)
        (folder / "complete").touch()
    return str(python)


def say(message: str) -> None:
    print(message, file=sys.stderr, flush=True)


def absolute(text: str) -> Path:
    """Since programs run in the project's folder, wherever this one was started."""
    return Path(text).resolve()


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="which to run; default: all")
    parser.add_argument("--data", type=absolute, default=machine.DATA, metavar="FOLDER",
                        help="the research data; default: MINRISK_DATA, or beside the project")
    parser.add_argument("--opus", type=absolute, metavar="FOLDER", help="OPUS-MT en-fr")
    parser.add_argument("--work", type=absolute, default=ROOT / "build" / "bench-all",
                        metavar="FOLDER", help="notes, logs and environments of the peers")
    parser.add_argument("--list", action="store_true", help="say what would run")
    given = parser.parse_args()
    unknown = {*given.names} - {program.name for program in PROGRAMS}
    if unknown:
        parser.error(f"{', '.join(sorted(unknown))}: unknown; --list shows what there is")
    return given


if __name__ == "__main__":
    sys.exit(main())
