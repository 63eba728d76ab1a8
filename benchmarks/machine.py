"""Where a number was measured, in the same words for every benchmark and experiment."""

from __future__ import annotations

import hashlib
import os
import platform
import re
import sys
from datetime import date
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import minrisk

# the research data: samples of translations, judgements and answers (benchmarks/README.md)
DATA = Path(os.environ.get("MINRISK_DATA",
                           Path(__file__).resolve().parents[2] / "shared" / "data"))


def cpu() -> str:
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def cores() -> int:
    """Those that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def processor() -> str:
    return f"{cpu()}, {cores()} cores"


def with_gpu() -> str:
    """The processor, and the GPU if torch is at work and has one."""
    torch = sys.modules.get("torch")
    has_gpu = torch is not None and torch.cuda.is_available()
    return f"{torch.cuda.get_device_name()} ({processor()})" if has_gpu else processor()


def native_core() -> str:
    """A digest of the native core's code that scores texts, by which tests find numbers of an older
    core; bindings and sampling are left out.
    """
    folder = Path(__file__).resolve().parents[1] / "cpp"
    code = "".join(path.read_text(encoding="utf-8") for path in sorted(folder.glob("*.[ch]pp"))
                   if not path.name.startswith(("module", "sampling")))
    return hashlib.sha256(re.sub(r"//.*|\s+", "", code).encode()).hexdigest()[:16]


def installed(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def describe(*packages: str) -> dict[str, Any]:
    """The machine as it is now, and the versions of what was measured."""
    return {"date": date.today().isoformat(),
            "cpu": cpu(), "cores": cores(), "load": round(os.getloadavg()[0], 1),
            "system": f"{platform.system()} {platform.machine()}",
            "python": platform.python_version(), "minrisk": minrisk.__version__,
            **{name: installed(name) for name in packages}}
