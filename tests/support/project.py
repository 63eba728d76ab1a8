"""Paths of the project, and code blocks of its documents."""

from __future__ import annotations

import re
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

SUPPORT = Path(__file__).resolve().parent  # on the path of tests, and of processes that they start
TESTS = SUPPORT.parent
ROOT = TESTS.parent
SHARED = ROOT.parent / "shared" / "data"  # research data that is not part of the project


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
    text = (ROOT / document).read_text(encoding="utf-8")
    return re.findall(rf"```{language}\n(.*?)```", text, flags=re.DOTALL)
