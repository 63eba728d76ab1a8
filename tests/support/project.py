"""Paths of the project, and code blocks of its documents."""

from __future__ import annotations

import re
from pathlib import Path

SUPPORT = Path(__file__).resolve().parent  # on the path of tests, and of processes that they start
TESTS = SUPPORT.parent
ROOT = TESTS.parent
SHARED = ROOT.parent / "shared" / "data"  # research data that is not part of the project


def blocks(document: str, language: str) -> list[str]:
    """The pieces of code in a document."""
    text = (ROOT / document).read_text(encoding="utf-8")
    return re.findall(rf"```{language}\n(.*?)```", text, flags=re.DOTALL)
