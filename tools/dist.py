"""Builds sdist and wheels, checks them, and runs the core tests on what they install.

usage: python tools/dist.py [PYTHON...]      (each of 3.11 to 3.14 that is found, unless named)

Wheels are built from the sdist: one for 3.11, and one with the stable ABI for all later Pythons.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DIST = ROOT / "dist"
VERSIONS = ("3.11", "3.12", "3.13", "3.14")
MAX_BYTES = {".gz": 6 * 2**20, ".whl": 3 * 2**20}  # an sdist has tests with their golden values
ABSENT = {".ci", ".github", "benchmarks", "experiments", "docker", "build", "dist", ".venv"}
RELEASE = {"MINRISK_REQUIRE_NATIVE": "1"}  # a failed compile is an error
LIBRARIES = (".so", ".pyd")


def main(named: list[str]) -> None:
    os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    pythons = find_pythons(named)
    shutil.rmtree(DIST, ignore_errors=True)
    with tempfile.TemporaryDirectory() as scratch:
        sdist = build_sdist()
        oldest = next(iter(pythons.values()))
        check_failed_compile(sdist, oldest, Path(scratch))
        wheels = {version: build_wheel(sdist, python, Path(scratch, version))
                  for version, python in pythons.items() if is_built_for(version, pythons)}
        check_contents(sdist, list(wheels.values()))
        for version, python in pythons.items():
            wheel = wheels.get(version) or next(w for w in wheels.values() if "-abi3-" in w.name)
            test_installed(wheel, python, Path(scratch, "installed", version))
    for path in (sdist, *wheels.values()):
        print(f"{path.stat().st_size:>9,}  {path.relative_to(ROOT)}")
    print(f"core tests passed on Python {', '.join(pythons)}; "
          f"not found: {', '.join(v for v in VERSIONS if v not in pythons) or 'none'}")


def find_pythons(named: list[str]) -> dict[str, str]:
    """The interpreters by version, oldest first."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"), "versions")
    installed = [str(path) for v in VERSIONS for path in sorted(pyenv.glob(f"{v}.*/bin/python"))]
    found = {}
    for python in named or [*(f"python{version}" for version in VERSIONS), *installed]:
        if path := shutil.which(python):
            answer = subprocess.run([path, "--version"], capture_output=True, text=True).stdout
            found[".".join(answer.split(".")[:2]).removeprefix("Python ")] = path
    if not set(VERSIONS) & found.keys():
        sys.exit(f"found no Python of {', '.join(VERSIONS)}; make dist PYTHONS=PATH names one")
    return {version: found[version] for version in VERSIONS if version in found}


def is_built_for(version: str, pythons: dict[str, str]) -> bool:
    """3.11 has its own wheel; the oldest of the others has one for all of them."""
    return version == "3.11" or version == next(v for v in pythons if v != "3.11")


def build_sdist() -> Path:
    run(sys.executable, "-m", "build", "--sdist", "--outdir", DIST, ROOT)
    [sdist] = DIST.glob("*.tar.gz")
    return sdist


def check_failed_compile(sdist: Path, python: str, scratch: Path) -> None:
    """Without a compiler, a release has no wheel, and others have one of plain Python."""
    missing = {"CXX": str(scratch / "missing-compiler")}
    if pip_wheel(sdist, python, scratch / "release", RELEASE | missing):
        sys.exit("a release was built although its core could not be compiled")
    print("  no wheel of a release without a compiler")
    [plain] = pip_wheel(sdist, python, scratch / "plain", missing | {"MINRISK_REQUIRE_NATIVE": "0"})
    if not plain.name.endswith("-py3-none-any.whl") or native_libraries(plain):
        sys.exit(f"{plain.name} should be of plain Python, for want of a compiler")


def build_wheel(sdist: Path, python: str, scratch: Path) -> Path:
    """In dist/, on Linux with the oldest platform tag (manylinux) that its symbols allow."""
    built = pip_wheel(sdist, python, scratch, RELEASE)
    if not built:
        sys.exit(f"{(scratch / 'pip.log').read_text()}\nno wheel could be built with {python}")
    if "-abi3-" in built[0].name:
        run("abi3audit", "--strict", built[0])
    if sys.platform == "linux":
        run("auditwheel", "repair", "--wheel-dir", scratch / "repaired", built[0])
        built = list((scratch / "repaired").glob("*.whl"))
    return Path(shutil.copy(built[0], DIST))


def pip_wheel(sdist: Path, python: str, folder: Path, variables: dict[str, str]) -> list[Path]:
    """The wheel, or none where it could not be built; pip.log says why."""
    folder.mkdir(parents=True)
    command = [sys.executable, "-m", "pip", "--python", python, "wheel", "--no-deps",
               "--wheel-dir", folder, sdist]
    print("$", *command, flush=True)
    with open(folder / "pip.log", "w") as log:
        subprocess.run(command, env=os.environ | variables, stdout=log, stderr=log)
    return list(folder.glob("*.whl"))


def check_contents(sdist: Path, wheels: list[Path]) -> None:
    """A wheel holds the package, its core and nothing else; neither holds research data."""
    run(sys.executable, "-m", "twine", "check", "--strict", sdist, *wheels)
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
        package = {name.partition("/src/")[2] for name in archive.getnames()
                   if "/src/minrisk/" in name and archive.getmember(name).isfile()}
    for wheel in wheels:
        files = {name for name in zipfile.ZipFile(wheel).namelist()
                 if not name.endswith("/") and ".dist-info/" not in name}
        if len(native_libraries(wheel)) != 1 or files - package != set(native_libraries(wheel)):
            sys.exit(f"{wheel.name} has other files than the package: {sorted(files - package)}")
        if absent := package - files:
            sys.exit(f"{wheel.name} lacks {sorted(absent)}")
    if wrong := ABSENT & {name.split("/")[0] for name in names}:
        sys.exit(f"{sdist.name} should not have {sorted(wrong)}")
    for path in (sdist, *wheels):
        size, most = path.stat().st_size, MAX_BYTES[path.suffix]
        if size > most:
            sys.exit(f"{path.name} has {size:,} bytes; at most {most:,}")


def native_libraries(wheel: Path) -> list[str]:
    return [name for name in zipfile.ZipFile(wheel).namelist() if name.endswith(LIBRARIES)]


def test_installed(wheel: Path, python: str, folder: Path) -> None:
    """The core tests in an environment with this wheel and what the tests need."""
    run(python, "-m", "venv", "--without-pip", folder)
    own = folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    run(sys.executable, "-m", "pip", "--quiet", "--python", own, "install", wheel,
        "-r", ROOT / "requirements" / "core.txt")
    where = subprocess.run([own, "-c", "import minrisk._native as n; print(n.__file__)"],
                           capture_output=True, text=True, check=True).stdout
    if not where.startswith(str(folder)):
        sys.exit(f"the tests would import {where}")
    run(own, "-m", "pytest", "-p", "no:cacheprovider", "@tests/core.txt")


def run(*command: object) -> None:
    print("$", *command, flush=True)
    subprocess.run([str(word) for word in command], cwd=ROOT, check=True)


if __name__ == "__main__":
    main(sys.argv[1:])
