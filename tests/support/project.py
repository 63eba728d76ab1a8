"""Paths of the project, its modules by path, and code blocks of its documents."""

from __future__ import annotations

import os
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
# research data that is not part of the project
SHARED = Path(os.environ.get("MINRISK_DATA", ROOT.parent / "shared" / "data"))

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
