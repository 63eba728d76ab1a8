"""Writes the locks of requirements/: exact versions of everything that the Makefile installs.

usage: python tools/lock.py      (needs uv and the package index)

lock.txt has the newest versions, for Python 3.11 to 3.14 on any system. oldest.txt has those that
pyproject.toml names as the lowest, and oldest-core.txt those of the package without extras, whose
packages may ask for more; both are for Python 3.11. They are constraints: they install nothing, but
whatever is installed has the version that they name.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path

FOLDER = Path(__file__).resolve().parent.parent / "requirements"
CORE = ("build", "core")
TESTS = (*CORE, "test")
TOOLS = ("lint", "docs", "dist", "lock-tools")
# what the build of torch for CUDA asks for, which that for the CPU lacks
CUDA = re.compile(r"(nvidia|cuda)-")
HEADER = """\
# Written by `make lock`. Constraints: install a list with `-c` this file.
# torch is the one of torch.txt, which says how the build for the CPU is selected; packages of
# NVIDIA, which the build for CUDA asks for, are left out.
"""


def main() -> None:
    project = tomllib.loads((FOLDER.parent / "pyproject.toml").read_text("utf-8"))["project"]
    extras = in_all(project["optional-dependencies"])
    torch = (FOLDER / "torch.txt").read_text(encoding="utf-8").splitlines()
    write("lock.txt", [*TESTS, *TOOLS], torch, "--extra", "all", "--universal")
    write("oldest.txt", TESTS, torch + lowest(extras), "--extra", "all",
          "--resolution", "lowest-direct")
    write("oldest-core.txt", CORE, lowest(project["dependencies"]),
          "--resolution", "lowest-direct")


def in_all(extras: Mapping[str, list[str]]) -> list[str]:
    """What the extras need that `all` names.

    Others are of frameworks that need older packages than these: `make test-integrations` runs them
    in an environment of their own, with what is newest.
    """
    (line,) = extras["all"]
    return [need for name in re.findall(r"[\w-]+", line.partition("[")[2]) for need in extras[name]]


def lowest(requirements: Iterable[str]) -> list[str]:
    """Each lower bound as a pin, so that no other package can lift it.

    That of torch is what was run elsewhere: its old builds for the CPU are not on the index.
    """
    bounds = [re.match(r"([\w.-]+)(?:\[.*?\])?>=([\d.]+)", line) for line in requirements]
    return [f"{found[1]}=={found[2]}.*" for found in bounds if found and found[1] != "torch"]


def write(name: str, lists: Iterable[str], constraints: Iterable[str], *options: str) -> None:
    command = [Path(sys.executable).parent / "uv", "pip", "compile", "--quiet", "--no-header",
               "--no-annotate", "--python-version", "3.11", *options, "--constraints", "-",
               FOLDER.parent / "pyproject.toml", *(FOLDER / f"{name}.txt" for name in lists)]
    done = subprocess.run(command, input="\n".join(constraints), stdout=subprocess.PIPE, text=True)
    if done.returncode:
        sys.exit(f"requirements/{name} is as it was; raise a lower bound that does not resolve")
    lines = [line for line in done.stdout.splitlines(keepends=True) if not CUDA.match(line)]
    (FOLDER / name).write_text(HEADER + "".join(lines), encoding="utf-8")
    print(f"requirements/{name}: {len(lines)} packages")


if __name__ == "__main__":
    main()
