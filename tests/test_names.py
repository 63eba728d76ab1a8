"""One word names one thing: no two classes or type aliases of the package share a name."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path

from project import ROOT

SOURCE = ROOT / "src" / "minrisk"


def shared_names(paths: Iterable[Path]) -> dict[str, list[str]]:
    """The files of every name of a class or type alias that occurs more than once."""
    files: dict[str, list[str]] = defaultdict(list)
    for path in paths:
        module = ast.parse(path.read_text(encoding="utf-8"))
        for name in (*class_names(module), *alias_names(module)):
            files[name].append(path.name)
    return {name: sorted(found) for name, found in files.items() if len(found) > 1}


def class_names(module: ast.Module) -> Iterator[str]:
    return (node.name for node in ast.walk(module) if isinstance(node, ast.ClassDef))


def alias_names(module: ast.Module) -> Iterator[str]:
    """`Rows = list[int]` or `Number = int | float`; constants are written in capitals."""
    for node in module.body:
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Subscript | ast.BinOp):
            names = (one.id for one in node.targets if isinstance(one, ast.Name))
            yield from (name for name in names if name[0].isupper() and not name.isupper())


def test_no_two_classes_or_type_aliases_share_a_name():
    assert shared_names(SOURCE.rglob("*.py")) == {}
