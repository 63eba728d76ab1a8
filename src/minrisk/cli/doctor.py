"""`minrisk doctor`: what is installed, and whether scores are correct on this machine."""

from __future__ import annotations

import json
import math
import os
import platform
import re
from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module, metadata
from importlib.util import find_spec
from pathlib import Path
from time import perf_counter
from typing import Any

import click

from minrisk._core.decoding import make_metric
from minrisk._core.errors import MinriskError
from minrisk._core.metric import AnyMetric
from minrisk._core.process import threads
from minrisk.cli import WRONG_NUMBERS
from minrisk.io.store import work_cache
from minrisk.version import __version__

_TOLERANCE = 256 * 2.0**-52  # relative: the order of summation depends on CPU and compiler
_TEXTS = {  # hypothesis and reference
    "German": ("ein kleiner Hund läuft über die Straße", "ein kleiner Hund rennt über die Straße"),
    "Japanese": ("猫が座った", "猫は座った"),
    "shifted words": ("a b c", "c a b d"),
}
# metric, options, texts, and the score of sacreBLEU 2.6; TER is negated, because higher utilities
# are better
_GOLDEN: tuple[tuple[str, Mapping[str, Any], str, float], ...] = (
    ("chrf", {}, "German", 77.55471246711515),
    ("chrf", {}, "Japanese", 32.666666666666664),
    ("chrf", {"word_order": 2}, "German", 77.21365339795541),
    ("bleu", {}, "German", 41.11336169005196),
    ("bleu", {}, "shifted words", 45.13864405503391),
    ("ter", {}, "German", -14.285714285714285),
    ("ter", {}, "shifted words", -50.0),
)
_EXTRA = re.compile(r"""extra == ["']([\w-]+)["']""")
_OUR_VARIABLES = re.compile(r"MINRISK_|OPENAI_(API_KEY|BASE_URL)$|XDG_CACHE_HOME$|HF_HOME$")


@click.command()
@click.option("--json", "machine", is_flag=True, help="Print one JSON object.")
def doctor(machine: bool) -> int:
    """Show what is installed, and check scores on this machine.

    Shows versions, the native core, the GPU and caches; paste the output into bug reports. It names
    environment variables, but never shows their values. The exit code is 3 if a score differs from
    the expected one.

    \b
    minrisk doctor
    minrisk doctor --json
    """
    findings = _findings()
    click.echo(json.dumps(findings, indent=1) if machine else "\n".join(_lines(findings)))
    is_wrong = any(golden["is_right"] is False for golden in findings["golden_values"])
    return WRONG_NUMBERS if is_wrong else 0


def _findings() -> dict[str, Any]:
    return {
        "minrisk": __version__,
        "python": platform.python_version(),
        "system": platform.platform(),
        "packages": {name: _version(name)  # None: not installed
                     for name in sorted({"numpy", "click", "pyyaml", *_extras()})},
        "extras": _extras(),
        "native_core": _native_core(),
        "cpu": {"machine": platform.machine(), "threads": threads()},
        "gpu": _gpu(),
        "golden_values": list(_golden_values()),
        "caches": {str(path): _size(path) for path in _caches() if path.is_dir()},
        "environment": sorted(name for name in os.environ if _OUR_VARIABLES.match(name)),
    }


def _extras() -> dict[str, list[str]]:
    """The extras that need each package, from the metadata of the installed minrisk."""
    try:
        needed = metadata.requires("minrisk") or []
    except metadata.PackageNotFoundError:  # minrisk runs from source, without being installed
        return {}
    extras: dict[str, list[str]] = {}
    for line in needed:
        package = re.split(r"[^\w.-]", line, maxsplit=1)[0].lower()
        extras.setdefault(package, []).extend(_EXTRA.findall(line))
    return {package: extras[package] for package in sorted(extras) if package != "minrisk"}


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _native_core() -> dict[str, Any]:
    """The kernels that this CPU can run, or why there are none."""
    wanted = os.environ.get("MINRISK_CORE")
    if wanted == "plain":
        return {"kernel": "plain", "available": [], "problem": "MINRISK_CORE selects plain Python"}
    try:
        native: Any = import_module("minrisk._native")
    except ImportError as error:
        return {"kernel": "plain", "available": [], "problem": str(error)}
    return {"kernel": wanted or native.simd(), "available": native.available_simd(),
            "problem": None}


def _gpu() -> dict[str, Any]:
    """The GPUs that torch finds; importing torch may take seconds."""
    if find_spec("torch") is None:
        return {"problem": "torch is not installed", "devices": []}
    start = perf_counter()
    try:
        cuda: Any = import_module("torch.cuda")
        devices = [cuda.get_device_name(i) for i in range(cuda.device_count())]
    except Exception as error:  # report a broken installation of torch
        return {"problem": f"torch cannot be used: {error}", "devices": []}
    return {"problem": None if devices else "torch sees no GPU", "devices": devices,
            "seconds_to_import": round(perf_counter() - start, 1)}


def _golden_values() -> Iterator[dict[str, Any]]:
    for name, options, texts, expected in _GOLDEN:
        hypothesis, reference = _TEXTS[texts]
        yield {"metric": name, "options": dict(options), "texts": texts, "hypothesis": hypothesis,
               "reference": reference, "expected": expected,
               **_comparison(make_metric(name, **options), hypothesis, reference, expected)}


def _comparison(metric: AnyMetric, hypothesis: str, reference: str,
                expected: float) -> dict[str, Any]:
    try:
        score = float(metric.scores(metric.features([hypothesis]),
                                    metric.features([reference]))[0, 0])
    except MinriskError as error:  # such as a package that only the Python fallback needs
        return {"found": None, "is_right": None, "problem": str(error)}
    return {"found": score, "is_right": math.isclose(score, expected, rel_tol=_TOLERANCE),
            "problem": None}


def _caches() -> Iterator[Path]:
    yield Path(work_cache())
    home = os.environ.get("HF_HOME") or os.path.join(Path(work_cache()).parents[1], "huggingface")
    yield Path(home, "hub")


def _size(folder: Path) -> int:
    """The bytes of the files in a folder, without links, of which the hub's cache has many."""
    return sum(os.lstat(os.path.join(place, name)).st_size
               for place, _, names in os.walk(folder) for name in names
               if not os.path.islink(os.path.join(place, name)))


def _lines(found: Mapping[str, Any]) -> Iterator[str]:
    yield f"minrisk {found['minrisk']}, Python {found['python']}, {found['system']}"
    packages = found["packages"].items()
    yield "packages: " + ", ".join(f"{name} {version}" for name, version in packages if version)
    missing = [f"{name} ({_shown_extras(found['extras'].get(name, []))})"
               for name, version in packages if not version]
    if missing:
        yield f"not installed: {', '.join(missing)}"
    core = found["native_core"]
    yield f"native core: {core['problem'] or 'loaded'}"
    yield f"kernel: {core['kernel']}; this CPU can run {', '.join(core['available']) or 'none'}"
    yield f"CPU: {found['cpu']['machine']}, {found['cpu']['threads']} threads"
    yield f"GPU: {_gpu_line(found['gpu'])}"
    yield from map(_golden_line, found["golden_values"])
    for path, size in found["caches"].items():
        yield f"cache: {path}, {size / 2**20:.1f} MiB"
    if not found["caches"]:
        yield f"cache: none; neither {' nor '.join(map(str, _caches()))} is a folder"
    yield f"environment variables: {', '.join(found['environment']) or 'none'}"


def _shown_extras(extras: Sequence[str]) -> str:
    return " or ".join(f"minrisk[{extra}]" for extra in extras) or "needed"


def _gpu_line(gpu: Mapping[str, Any]) -> str:
    seconds = gpu.get("seconds_to_import")
    line = gpu["problem"] or ", ".join(gpu["devices"])
    return line if seconds is None else f"{line} (torch was imported in {seconds} s)"


def _golden_line(golden: Mapping[str, Any]) -> str:
    options = "".join(f" {key}={value}" for key, value in golden["options"].items())
    name = f"{golden['metric']}{options} of {golden['texts']}"
    if golden["problem"]:
        return f"{name}: not computed: {golden['problem']}"
    verdict = "as expected" if golden["is_right"] else f"WRONG, expected {golden['expected']!r}"
    return f"{name}: {golden['found']!r}, {verdict}"
