"""Who may import whom, and what a bare import loads."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from conftest import ROOT

SOURCE = ROOT / "src" / "minrisk"
PLAIN = {"arrays", "errors", "options", "segment", "groups", "kmeans", "lazy", "version", "threads",
         "progress", "references", "transfer", "kernels"}
PROTOCOLS = PLAIN | {"metric", "rows", "strategy", "pool", "registry", "signature"}

# package -> modules of minrisk that it may import; "*" is everything
MAY_IMPORT = {
    "arrays": set(),
    "errors": set(),
    "options": {"errors"},
    "lazy": set(),
    "version": set(),
    "threads": {"errors"},
    "progress": set(),
    "transfer": set(),
    "kernels": set(),
    "kmeans": {"arrays"},
    "segment": PLAIN,
    "references": PLAIN,
    "groups": PLAIN,
    "metric": PLAIN,
    "rows": PLAIN,
    "strategy": PLAIN | {"metric"},
    "pool": PLAIN | {"metric"},
    "shards": PROTOCOLS,
    "recipe": PLAIN,
    "registry": PLAIN | {"recipe"},
    "signature": PLAIN,
    "decoding": PROTOCOLS,
    "scoring": PROTOCOLS | {"decoding"},
    "testing": PROTOCOLS,
    "metrics": PROTOCOLS | {"metrics", "_native"},
    "strategies": PROTOCOLS | {"strategies"},
    "validation": PROTOCOLS | {"validation", "io"},
    "sampling": PLAIN | {"sampling"},
    "hf": PROTOCOLS | {"decoding", "sampling"},
    "io": PLAIN | {"io", "sampling"},
    "pipeline": PROTOCOLS | {"pipeline", "io", "sampling", "shards", "decoding"},
    "cli": {"*"},
    "__init__": {"*"},
    "__main__": {"cli"},
}
NEVER_LOADED = ["torch", "transformers", "ray", "fastapi", "starlette", "click", "yaml",
                "importlib.metadata", "sacrebleu", "fsspec", "pyarrow"]


def modules() -> list[Path]:
    return sorted(SOURCE.rglob("*.py"))


def package_of(path: Path) -> str:
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def imported(path: Path) -> set[str]:
    """The parts of minrisk that a file names in its import statements."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module:
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        else:
            continue
        found |= {name.split(".")[1] for name in names if name.startswith("minrisk.")}
    return found


@pytest.mark.parametrize("path", modules(), ids=lambda p: str(p.relative_to(SOURCE)))
def test_the_import_graph_is_the_one_of_the_design(path):
    allowed = MAY_IMPORT[package_of(path)]
    if "*" not in allowed:
        assert imported(path) <= allowed


def test_a_bare_import_loads_nothing_heavy():
    code = f"import sys, minrisk; print([m for m in {NEVER_LOADED} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_everything_public_is_there():
    import minrisk

    for name in minrisk.__all__:
        assert hasattr(minrisk, name)
