"""The accuracy of every strategy at an eighth of the pairs, from what `minrisk validate` found.

usage: python benchmarks/strategies/eighth.py [SAMPLES]

With samples, runs `minrisk validate` on them and writes validation.json. Writes the table of
README.md.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path.append(str(HERE.parent))  # what all benchmarks share

import pages

RESULTS = HERE / "validation.json"
VALIDATE = [sys.executable, "-m", "minrisk", "validate", "--coarse", "chrf", "--coarse.order", "2",
            "--format", "json", "--workers", "2"]


def main(*samples: str) -> None:
    if samples:
        done = subprocess.run([*VALIDATE, *samples], stdout=subprocess.PIPE, check=True)
        RESULTS.write_bytes(done.stdout)
    found = json.loads(RESULTS.read_text(encoding="utf-8"))
    pages.fill(HERE / "README.md", {"eighth": table(found)})


def table(found: dict[str, Any]) -> str:
    rows = [trial for trial in found["trials"] if is_eighth(trial)]
    whole = found["trials"][0]["pairs"]
    cells = [[row["strategy"], row["budget"], f"{row['pairs']:,.0f}",
              f"{row['pairs'] / whole:.1%}", f"{row['first']:.1%}", f"{row['among']:.1%}",
              f"{row['lost']:.3f}"] for row in rows]
    head = ["strategy", "budget", "pairs", "of all", "top-1", "top-20", "utility lost"]
    return (f"{pages.table(head, cells)}\n\nMeans over {found['segments']} segments; a gain of "
            f"{found['gain']:.2f} over a sample at random. `{found['signature']}`")


def is_eighth(trial: dict[str, Any]) -> bool:
    """Standard MBR and pruning have no budget to choose."""
    return trial["budget"].endswith("/8") or trial["strategy"] in ("standard", "prune")


if __name__ == "__main__":
    main(*sys.argv[1:])
