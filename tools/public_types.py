"""Checks that pyright knows the type of every public name, of its members and parameters.

usage: python tools/public_types.py      (where minrisk and pyright are installed)

`pyright --verifytypes` takes all modules without an underscore for public. Public are the names
that `minrisk` and `minrisk.plugins` export, and all of `minrisk.testing` and `minrisk.hf`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import minrisk
import minrisk.plugins


def main() -> None:
    symbols = pyright_symbols()
    public = [s for s in symbols if belongs_to(s["name"], public_names())]
    wrong = [s for s in public if not s["isTypeKnown"] or s["isTypeAmbiguous"]]
    for symbol in wrong:
        print(symbol["name"], *(found["message"] for found in symbol["diagnostics"]), sep="\n    ")
    print(f"public symbols: {len(public):,}; without a known type: {len(wrong)}")
    sys.exit(bool(wrong) or not public)


def pyright_symbols() -> list[dict[str, Any]]:
    command = ["pyright", "--verifytypes", "minrisk", "--ignoreexternal", "--outputjson"]
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    with tempfile.TemporaryDirectory() as empty:  # not the checkout, which hides the package
        done = subprocess.run(command, cwd=empty, env=os.environ | {"PATH": path},
                              stdout=subprocess.PIPE, text=True)
    found: list[dict[str, Any]] = json.loads(done.stdout)["typeCompleteness"]["symbols"]
    return found


def public_names() -> set[str]:
    """Where each name is defined, as pyright calls it."""
    exported = [getattr(module, name) for module in (minrisk, minrisk.plugins)
                for name in module.__all__]
    homes = {f"{value.__module__}.{value.__qualname__}" for value in exported
             if hasattr(value, "__qualname__")}
    return homes | {"minrisk.testing", "minrisk.hf"}


def belongs_to(name: str, owners: set[str]) -> bool:
    parts = name.split(".")
    return any(".".join(parts[:end]) in owners for end in range(1, len(parts) + 1))


if __name__ == "__main__":
    main()
