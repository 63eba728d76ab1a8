"""Whether minrisk[all] can be installed beside the newest of other packages; installs nothing.

usage: python tools/resolve.py [--write]      (needs uv and the package index)

The resolver reads the requirements of packages and downloads none of them. Each package of
NEIGHBOURS is resolved alone, which gives its newest version; then beside minrisk and the newest of
each of its PEERS, and with all the others. `--write` puts the table into the manual.
"""

from __future__ import annotations

import re
import subprocess
import sys
from datetime import date
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "guides" / "moving.md"
PLACE = re.compile(r"(<!-- table: resolve -->\n).*?(<!-- end -->)", re.DOTALL)
PYTHON = "3.12"
NEIGHBOURS = ("transformers", "numpy", "vllm", "ray", "sentence-transformers", "openai",
              "inspect-ai")
PEERS = ("mbrs", "unbabel-comet", "uqlm", "optillm")
OURS = "minrisk[all]"

Versions = dict[str, str]


def main(arguments: list[str]) -> int:
    newest = {name: (resolved([name]) or {})[name] for name in (*NEIGHBOURS, *PEERS)}
    pins = {OURS: OURS} | {name: f"{name}=={newest.pop(name)}" for name in PEERS}
    rows = {subject: [beside(pin, name, version) for name, version in newest.items()]
            for subject, pin in pins.items()}
    together = resolved([OURS, *NEIGHBOURS])
    found = table(newest, rows, together)
    print(found)
    if "--write" in arguments:
        page = PAGE.read_text(encoding="utf-8")
        PAGE.write_text(PLACE.sub(lambda place: place[1] + found + place[2], page), "utf-8")
    return int(set(rows[OURS]) != {"yes"} or together is None)


def beside(subject: str, name: str, newest: str) -> str:
    print(f"{subject} beside {name} {newest}", file=sys.stderr, flush=True)
    return "yes" if resolved([subject, f"{name}=={newest}"]) else "no"


def resolved(packages: list[str]) -> Versions | None:
    """The newest versions of these and all that they need; None where they exclude each other."""
    ours = [ROOT / "pyproject.toml", "--extra", "all"] if OURS in packages else []
    command = [Path(sys.executable).parent / "uv", "pip", "compile", "--quiet", "--no-header",
               "--no-annotate", "--python-version", PYTHON, *ours, "-"]
    done = subprocess.run(command, input="\n".join(p for p in packages if p != OURS),
                          capture_output=True, text=True)
    if done.returncode and "No solution found" not in done.stderr:
        sys.exit(done.stderr)  # no network, say
    lines = (line.partition(" ")[0].partition("==") for line in done.stdout.splitlines())
    return None if done.returncode else {name: version for name, _, version in lines}


def table(newest: Versions, rows: dict[str, list[str]], together: Versions | None) -> str:
    head = ["", *(f"{name} {version}" for name, version in newest.items())]
    lines = [head, ["---"] * len(head), *([f"`{name}`", *cells] for name, cells in rows.items())]
    behind = [f"{name} {together[name]}" for name in NEIGHBOURS if together[name] != newest[name]
              ] if together else []
    last = ("All of them at once exclude each other." if together is None else
            "`minrisk[all]` resolves with all of them at once, at these versions."
            if not behind else
            f"With all of them at once, `minrisk[all]` resolves to {' and '.join(behind)}, "
            "which the others ask for, and to these versions of the rest.")
    return "".join(f"| {' | '.join(line)} |\n" for line in lines) + (
        f"\nResolved on {date.today()} for Python {PYTHON}. {last}\n")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
