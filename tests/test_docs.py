"""What the documents say is what happens."""

from __future__ import annotations

import re
import subprocess
import sys
from types import ModuleType

import minrisk
from conftest import ROOT
from minrisk.testing import check_metric, check_strategy


def blocks(document: str, language: str) -> list[str]:
    text = (ROOT / document).read_text(encoding="utf-8")
    return re.findall(rf"```{language}\n(.*?)```", text, flags=re.DOTALL)


def test_the_metric_and_the_strategy_of_the_contributing_guide_keep_the_contract(monkeypatch):
    example = ModuleType("example")
    monkeypatch.setitem(sys.modules, "example", example)  # where dataclasses look for it
    for code in blocks("CONTRIBUTING.md", "python"):
        exec(code, vars(example))
    check_metric(example.Length())
    check_strategy(example.Newest(example.Length(), last=2))
    check_strategy(example.Newest(minrisk.ChrF()))
