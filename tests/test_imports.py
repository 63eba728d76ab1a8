"""Who may import whom, and what a bare import loads."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path

import pytest

from project import ROOT, TESTS

SOURCE = ROOT / "src" / "minrisk"
PLAIN = {f"_core.{name}" for name in (
    "arrays", "errors", "options", "weights", "segment", "groups", "lazy", "process",
    "sqlite_cache", "sampler", "texts", "vote", "names", "fingerprint",
    "calibration", "token_confidence", "json_values", "native")} | {"version"}
PROTOCOLS = PLAIN | {f"_core.{name}" for name in (
    "metric", "adapters", "strategy", "pool", "batch", "registry", "signature")}
CORE = PROTOCOLS | {"_core.reference_parts", "_core.decoding"}

# package (of the core: module) -> what of minrisk it may import; "*" is everything
MAY_IMPORT = {
    "_core.__init__": set(),
    "_core.arrays": set(),
    "_core.errors": set(),
    "_core.options": {"_core.errors"},
    "_core.lazy": set(),
    "version": set(),
    "_core.process": {"_core.errors"},
    "_core.native": {"_core.errors"},
    "_core.texts": {"_core.errors"},
    "_core.names": set(),
    "_core.json_values": set(),
    "_core.sqlite_cache": {"_core.errors"},
    "_core.token_confidence": set(),
    "_core.weights": {"_core.arrays", "_core.errors"},
    "_core.segment": PLAIN,
    "_core.calibration": PLAIN,
    "_core.sampler": PLAIN,
    "_core.vote": {"_core.errors"},
    "_core.groups": PLAIN,
    "_core.metric": PLAIN | {"_core.registry"},
    # a function becomes a metric there
    "_core.fingerprint": {"_core.options"},
    "_core.adapters": PLAIN | {"_core.metric", "_core.registry", "metrics"},
    "_core.strategy": PLAIN | {"_core.metric", "_core.adapters", "_core.pool", "_core.batch"},
    "_core.pool": PLAIN | {"_core.metric"},
    "_core.batch": PLAIN | {"_core.metric", "_core.adapters", "_core.pool"},
    "_core.reference_parts": PROTOCOLS,
    "_core.registry": PLAIN,
    "_core.signature": PLAIN | {"_core.registry"},
    "_core.decoding": PROTOCOLS | {"strategies"},  # `abstain` measures
    "testing": PROTOCOLS,
    "_torch": PLAIN | {"_torch"},
    "metrics": PROTOCOLS | {"plugins", "metrics", "openai", "_native", "_torch"},
    "strategies": PROTOCOLS | {"plugins", "strategies"},
    "evaluation": PROTOCOLS | {"_core.decoding", "evaluation", "io", "run"},
    "openai": PLAIN | {"openai"},
    "samplers": PLAIN | {"samplers", "openai", "_torch", "_core.adapters"},
    "hf": PROTOCOLS | {"_core.decoding", "samplers", "_torch"},
    "io": PLAIN | {"io"},
    "run": CORE | {"run", "io"},
    "server": CORE | {"server", "openai", "io", "metrics", "strategies", "tasks"},
    "tasks": CORE | {"tasks", "report", "io", "run", "evaluation", "strategies", "version"},
    "integrations": CORE | {"integrations", "io", "tasks"},
    "report": CORE | {"report", "io", "run", "evaluation", "strategies"},
    "cli": {"*"},
    "__init__": {"*"},
    "plugins": PROTOCOLS,
    "__main__": {"cli", "version"},
}
NEVER_LOADED = ["numpy", "torch", "transformers", "ray", "fastapi", "starlette", "click", "yaml",
                "importlib.metadata", "sacrebleu", "fsspec", "pyarrow", "aiohttp", "asyncio"]


TORCH = {"torch", "transformers", "triton", "safetensors", "huggingface_hub",
         "sentence_transformers"}
MAY_NAME_TORCH = {"_torch", "metrics", "samplers", "hf"}


ALWAYS_THERE = {"minrisk", "numpy", "click", "yaml", "pytest", "packaging", "hypothesis"}
# of named tuples and of `os`; `causal` asks for the last one before it relies on it
DOCUMENTED = {"_fields", "_replace", "_exit", "_attn_implementation"}


def modules() -> list[Path]:
    return sorted(SOURCE.rglob("*.py"))


def package_of(path: Path) -> str:
    return package(path.relative_to(SOURCE).with_suffix("").parts)


def package(parts: Sequence[str]) -> str:
    return ".".join(parts[:2] if parts[0] == "_core" else parts[:1])


@cache
def nodes_of(path: Path) -> list[ast.AST]:
    return list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))


@cache
def named(path: Path) -> list[str]:
    """What a file names in its import statements, wherever they are."""
    return list(named_by(nodes_of(path)))


def named_by(nodes: Iterable[ast.AST]) -> Iterator[str]:
    for node in nodes:
        if isinstance(node, ast.ImportFrom) and node.module:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


def imported(path: Path) -> set[str]:
    """The parts of minrisk that a file names."""
    return {package(name.split(".")[1:]) for name in named(path) if name.startswith("minrisk.")}


@pytest.mark.parametrize("path", modules(), ids=lambda p: str(p.relative_to(SOURCE)))
def test_the_import_graph_is_the_one_of_the_design(path):
    allowed = MAY_IMPORT[package_of(path)]
    if "*" not in allowed:
        assert imported(path) <= allowed


def test_the_figure_of_the_packages_is_that_of_the_imports():
    sys.path.insert(0, str(ROOT / "tools"))
    import packages

    assert packages.FIGURE.read_text(encoding="utf-8") == packages.figure(), "run `make names`"


def test_torch_is_out_of_reach_of_the_core():
    """Neither by its own name nor through the package that holds it."""
    reach = {package_of(path) for path in modules()
             if "_torch" in imported(path) or TORCH & {name.split(".")[0] for name in named(path)}}
    assert reach == MAY_NAME_TORCH


def test_models_are_loaded_in_one_place():
    """Where it is seen to that none of their code is run."""
    loads = re.compile(r"from_pretrained\(|from_pretrained,|\bSentenceTransformer\b|torch\.load\(")
    found = {str(path.relative_to(SOURCE)) for path in modules()
             if loads.search(path.read_text(encoding="utf-8"))}
    assert found == {"_torch/loading.py", "_torch/weights.py"}


def test_private_names_of_other_packages_may_be_missing():
    """They are looked up by `getattr` with a default: the next release may not have them."""
    ours = {name for path in modules() for node in nodes_of(path) for name in defined(node)}
    foreign = {f"{path.relative_to(SOURCE)}: {node.attr}" for path in modules()
               for node in nodes_of(path) if isinstance(node, ast.Attribute)
               and re.match("_[a-z]", node.attr) and node.attr not in ours | DOCUMENTED}
    assert foreign == set()


def defined(node: ast.AST) -> Iterator[str]:
    """The names that a node defines, attributes of `self` among them."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        yield node.name
    elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
        yield node.id
    elif (isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)
          and isinstance(node.value, ast.Name) and node.value.id in ("self", "cls")):
        yield node.attr


def test_a_file_of_tests_is_skipped_without_a_package_that_it_needs():
    """Without `importorskip` its error would end the collection of all tests."""
    ours = {path.stem for folder in (TESTS, ROOT / "tools") for path in folder.rglob("*.py")}
    there = ours | ALWAYS_THERE | sys.stdlib_module_names
    needed = {}
    for path in sorted(TESTS.rglob("test_*.py")):
        text = path.read_text(encoding="utf-8")
        skips = set(re.findall(r'importorskip\(\s*"(\w+)', text))
        roots = {name.split(".")[0] for name in named_by(ast.parse(text).body)}
        needed[path.name] = roots - there - skips
    assert {name: packages for name, packages in needed.items() if packages} == {}


def test_attributes_are_cached_without_a_lock():
    """A worker that is forked while another thread holds a lock would wait for it for ever."""
    assert [path for path in modules() if "functools.cached_property" in named(path)] == []


def test_a_bare_import_loads_nothing_heavy():
    code = f"import sys, minrisk; print([m for m in {NEVER_LOADED} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize(("command", "without"), [
    (["--version"], "numpy"),
    (["decode", "--help"], "asyncio, concurrent.futures, minrisk.evaluation, minrisk.openai"),
])
def test_a_command_loads_what_it_needs(command, without):
    code = f"import sys, minrisk.cli; minrisk.cli.main({command}); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not set(without.split(", ")) & set(done.stdout.splitlines()[-1].split())
