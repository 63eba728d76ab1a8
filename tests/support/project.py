"""Paths of the project, code blocks of its documents, and the files that these name."""

from __future__ import annotations

import json
import re
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

SUPPORT = Path(__file__).resolve().parent  # on the path of tests, and of processes that they start
TESTS = SUPPORT.parent
ROOT = TESTS.parent
DOCS = ROOT / "docs"
SHARED = ROOT.parent / "shared" / "data"  # research data that is not part of the project

_FENCE = re.compile(r"^(`{3,})(\S*).*\n((?:.*\n)*?)\1$", flags=re.MULTILINE)


def load_module(path: Path) -> ModuleType:
    """A module by its path, under a name that no other module has."""
    spec = spec_from_file_location("_".join(path.with_suffix("").parts[-3:]), path)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    sys.modules[spec.name] = module  # where its dataclasses look for it
    spec.loader.exec_module(module)
    return module


def blocks(document: str, language: str) -> list[str]:
    """The pieces of code in a document."""
    return [block.code for block in fenced_blocks(ROOT / document) if block.language == language]


class FencedBlock(NamedTuple):
    """A piece of code in a document."""

    language: str
    code: str
    output: str | None  # the block of text after it, which is what it prints


def fenced_blocks(path: Path) -> list[FencedBlock]:
    """All pieces of code in a document, in order."""
    found = _FENCE.findall(path.read_text(encoding="utf-8"))
    after = [*found[1:], ("", "", "")][:len(found)]
    return [FencedBlock(language, code, following if kind == "text" else None)
            for (_, language, code), (_, kind, following) in zip(found, after, strict=True)]


def write_example_files(folder: Path) -> Path:
    """Write the files that the commands of the README and of the manual name."""
    samples = ["the cat sat", "the cat sat down", "a cat sat", "dogs"]
    lines = [json.dumps({"id": i, "source": f"Satz {i}", "reference": "the cat sat", "samples":
                         samples[i:] + samples[:i]}) for i in range(3)]
    (folder / "samples.jsonl").write_text("\n".join(lines), encoding="utf-8")
    (folder / "big").mkdir()
    (folder / "big" / "1.jsonl").write_text("\n".join(lines), encoding="utf-8")
    (folder / "hyps.txt").write_text("\n".join(samples * 2), encoding="utf-8")
    (folder / "src.txt").write_text("die Katze saß\nHunde\n", encoding="utf-8")
    for name in ("ref", "beam", "mbr"):
        (folder / f"{name}.txt").write_text("\n".join(samples), encoding="utf-8")
    (folder / "run.yaml").write_text("strategy: aggregate\ngroups: 2\n", encoding="utf-8")
    return folder
