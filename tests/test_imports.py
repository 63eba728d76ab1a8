"""Who may import whom, and what a bare import loads."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from conftest import ROOT

SOURCE = ROOT / "src" / "minrisk"
PLAIN = {"arrays", "errors", "options", "segment", "groups", "kmeans", "lazy", "version", "threads",
         "progress", "references", "foreign", "unicode", "store"}
PROTOCOLS = PLAIN | {"metric", "adapters", "rows", "strategy", "pool", "registry", "signature"}

# package -> modules of minrisk that it may import; "*" is everything
MAY_IMPORT = {
    "arrays": set(),
    "errors": set(),
    "options": {"errors"},
    "lazy": set(),
    "foreign": {"errors"},
    "version": set(),
    "threads": {"errors"},
    "progress": set(),
    "unicode": set(),
    "store": {"errors"},
    "kmeans": {"arrays"},
    "segment": PLAIN,
    "references": PLAIN,
    "groups": PLAIN,
    "metric": PLAIN | {"registry"},
    "adapters": PLAIN | {"metric", "registry", "metrics"},  # a function becomes a metric there
    "rows": PLAIN,
    "strategy": PLAIN | {"metric", "adapters"},
    "pool": PLAIN | {"metric", "adapters"},
    "shards": PROTOCOLS,
    "recipe": PLAIN,
    "registry": PLAIN | {"recipe"},
    "signature": PLAIN | {"adapters"},
    "decoding": PROTOCOLS | {"recipe"},
    "scoring": PROTOCOLS | {"decoding"},
    "testing": PROTOCOLS,
    "_torch": PLAIN | {"_torch"},
    "metrics": PROTOCOLS | {"metrics", "_native", "_torch"},
    "strategies": PROTOCOLS | {"strategies"},
    "validation": PROTOCOLS | {"validation", "io"},
    "openai": PLAIN | {"openai"},
    "sampling": PLAIN | {"sampling", "openai", "_torch"},
    "hf": PROTOCOLS | {"decoding", "sampling", "_torch"},
    "io": PLAIN | {"io", "sampling"},
    "pipeline": PROTOCOLS | {"pipeline", "io", "sampling", "shards", "decoding"},
    "cli": {"*"},
    "__init__": {"*"},
    "plugins": PROTOCOLS | {"sampling"},
    "__main__": {"cli"},
}
NEVER_LOADED = ["numpy", "torch", "transformers", "ray", "fastapi", "starlette", "click", "yaml",
                "importlib.metadata", "sacrebleu", "fsspec", "pyarrow", "aiohttp", "asyncio"]


TORCH = {"torch", "transformers", "triton", "safetensors", "huggingface_hub",
         "sentence_transformers"}
MAY_NAME_TORCH = {"_torch", "metrics", "sampling", "hf"}


def modules() -> list[Path]:
    return sorted(SOURCE.rglob("*.py"))


def package_of(path: Path) -> str:
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def named(path: Path) -> Iterator[str]:
    """What a file names in its import statements, wherever they are."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


def imported(path: Path) -> set[str]:
    """The parts of minrisk that a file names."""
    return {name.split(".")[1] for name in named(path) if name.startswith("minrisk.")}


@pytest.mark.parametrize("path", modules(), ids=lambda p: str(p.relative_to(SOURCE)))
def test_the_import_graph_is_the_one_of_the_design(path):
    allowed = MAY_IMPORT[package_of(path)]
    if "*" not in allowed:
        assert imported(path) <= allowed


def test_torch_is_out_of_reach_of_the_core():
    """Neither by its own name nor through the room that holds it."""
    reach = {package_of(path) for path in modules()
             if "_torch" in imported(path) or TORCH & {name.split(".")[0] for name in named(path)}}
    assert reach == MAY_NAME_TORCH


def test_models_are_loaded_in_one_place():
    """Where it is seen to that none of their code is run."""
    loads = re.compile(r"from_pretrained\(|from_pretrained,|\bSentenceTransformer\b|torch\.load\(")
    found = {str(path.relative_to(SOURCE)) for path in modules()
             if loads.search(path.read_text(encoding="utf-8"))}
    assert found == {"_torch/loading.py", "_torch/weights.py"}


def test_a_bare_import_loads_nothing_heavy():
    code = f"import sys, minrisk; print([m for m in {NEVER_LOADED} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
