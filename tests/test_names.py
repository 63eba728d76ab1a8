"""One word names one thing: no two classes of the package share a name."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

from project import ROOT

SOURCE = ROOT / "src" / "minrisk"


def shared_names(paths: Iterable[Path]) -> dict[str, list[str]]:
    """The files of every class name that occurs more than once."""
    files: dict[str, list[str]] = defaultdict(list)
    for path in paths:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                files[node.name].append(path.name)
    return {name: sorted(found) for name, found in files.items() if len(found) > 1}


def test_no_two_classes_share_a_name():
    assert shared_names(SOURCE.rglob("*.py")) == {}


def test_a_shared_name_is_found(tmp_path):
    (tmp_path / "one.py").write_text("class Pool: ...\nclass Groups: ...\n")
    (tmp_path / "two.py").write_text("def f():\n    class Pool: ...\n")
    assert shared_names(tmp_path.glob("*.py")) == {"Pool": ["one.py", "two.py"]}
