"""What the documents say is what happens."""

from __future__ import annotations

import re
import sys
from types import ModuleType

import minrisk
from minrisk.testing import check_metric, check_strategy
from project import ROOT, SUPPORT, TESTS, blocks


def test_the_glossary_has_words_that_the_code_uses():
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    rows = text.partition("| word | meaning |\n|---|---|\n")[2].splitlines()
    words = [row.split("|")[1].strip() for row in rows]
    assert words == sorted(set(words), key=str.lower)
    code = "\n".join(path.read_text(encoding="utf-8").lower()
                     for path in (ROOT / "src" / "minrisk").rglob("*.py"))
    assert [word for word in words
            if not re.search(re.escape(word.lower()).replace(r"\ ", "[ _-]?"), code)] == []


def test_the_metric_and_the_strategy_of_the_manual_keep_the_contract(monkeypatch):
    example = ModuleType("example")
    monkeypatch.setitem(sys.modules, "example", example)  # where dataclasses look for it
    for code in blocks("docs/extend.md", "python"):
        if "@dataclass" in code:
            exec(code, vars(example))
    check_metric(example.Length())
    check_strategy(example.Newest(example.Length(), last=2))
    check_strategy(example.Newest(minrisk.ChrF()))


def test_the_contributing_guide_names_every_module_and_folder_of_the_tests():
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    for path in SUPPORT.glob("*.py"):
        assert f"`{path.stem}`" in text
        assert path.read_text(encoding="utf-8").startswith('"""'), f"{path} does not say what it is"
    for path in TESTS.glob("*/"):
        assert f"`{path.name}`" in text or path.name.startswith("_")
