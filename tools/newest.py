"""Says which packages, newer than in the lock, made tests fail: puts them back one at a time.

usage: python tools/newest.py      (in the environment of `make test-newest`, after it has failed)

The tests that failed last are run again. If they still fail, each package whose version differs
from requirements/lock.txt gets its locked version for another run of them.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.metadata import distributions
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parent.parent
LOCK = ROOT / "requirements" / "lock.txt"
FAILED = ROOT / ".pytest_cache" / "v" / "cache" / "lastfailed"


def main() -> int:
    if failed_tests_pass():
        print("the failed tests pass when they are run again: they depend on time or luck")
        return 1
    newer = changed()
    print("newer than in the lock:", ", ".join(f"{name} {new} ({old})"
                                              for name, (old, new) in newer.items()) or "nothing")
    broke = [name for name, (old, new) in newer.items() if passes_with(name, old, new)]
    for name in broke:
        old, new = newer[name]
        print(f"the failed tests pass with {name} {old} and not with {new}")
    if not broke:
        print("no single package: with none of them put back do all of the failed tests pass")
    return 1


def changed() -> dict[str, tuple[str, str]]:
    """The locked and the installed version of each package where they differ."""
    installed = {canonicalize_name(d.name): d.version for d in distributions()}
    lines = LOCK.read_text(encoding="utf-8").splitlines()
    pins = [Requirement(line) for line in lines if not line.startswith("#")]
    locked = {canonicalize_name(pin.name): next(iter(pin.specifier)).version for pin in pins
              if pin.marker is None or pin.marker.evaluate()}
    return {name: (version, installed[name]) for name, version in locked.items()
            if name in installed and installed[name].partition("+")[0] != version}


def passes_with(name: str, old: str, new: str) -> bool:
    install(f"{name}=={old}")
    print(f"the failed tests with {name} {old}:", flush=True)
    found = failed_tests_pass()
    install(f"{name}=={new}")
    return found


def failed_tests_pass() -> bool:
    tests = json.loads(FAILED.read_text(encoding="utf-8"))
    return not subprocess.run([sys.executable, "-m", "pytest", "--tb=no", "-p", "no:cacheprovider",
                               *tests], cwd=ROOT).returncode


def install(package: str) -> None:
    environment = {name: value for name, value in os.environ.items()
                   if name not in ("PIP_CONSTRAINT", "PIP_BUILD_CONSTRAINT")}  # of the Makefile
    subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", package],
                   check=True, env=environment)


if __name__ == "__main__":
    sys.exit(main())
