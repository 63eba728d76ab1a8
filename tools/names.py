"""Writes the files that repeat the registry for editors and type checkers.

usage: python tools/names.py      (needs minrisk, not its extras)

At run time the registry of metrics, strategies and samplers and the fields of their dataclasses are
the only list of names. Editors read files: the stub of `minrisk`, the names that arguments may have
and the keywords that calls take. tests/test_public.py says when one of them is old.
"""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Iterable, Iterator
from itertools import groupby
from pathlib import Path
from textwrap import fill
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import minrisk
from minrisk._core.metric import Metric
from minrisk._core.registry import REGISTRIES, SAMPLERS, STRATEGIES
from minrisk._core.strategy import Strategy
from minrisk.run.options import RunOptions

SOURCE = Path(__file__).resolve().parent.parent / "src" / "minrisk"
WRITTEN = "Written by `make names`."


def main() -> None:
    for path, text in files().items():
        (SOURCE / path).write_text(text, encoding="utf-8")


def files() -> dict[str, str]:
    """The text of each file, by its path in the package."""
    return {"__init__.pyi": stub(), "_core/names.py": names(), "_api/option_types.py": options()}


def stub() -> str:
    public = sorted((minrisk._modules()[name], name) for name in minrisk.__all__)
    imports = [f"from {module} import {', '.join(name for _, name in found)}"
               for module, found in groupby(public, lambda pair: pair[0])]
    return "\n".join([f"# {WRITTEN}", "", *imports, "", _listed("__all__ = ", minrisk.__all__), ""])


def names() -> str:
    literals = [_listed(f"{registry.kind.title()}Name = Literal", registry.builtin)
                for registry in REGISTRIES]
    return "\n".join([f'"""The names of the registry, for type checkers. {WRITTEN}"""', "",
                      "from typing import Literal", "", *literals, ""])


def options() -> str:
    classes = {
        "JobKeywords": ("a run", [RunOptions], {"output"}),
        "StrategyKeywords": ("the strategies of minrisk, but for the metric and the seed",
                             map(STRATEGIES.get, STRATEGIES.builtin), {"metric", "seed"}),
        "SamplerKeywords": ("the samplers of minrisk", map(SAMPLERS.get, SAMPLERS.builtin), set()),
    }
    return "\n".join([
        f'"""Keywords of calls that are options of runs, strategies and samplers. {WRITTEN}"""', "",
        "from typing import Literal, TypedDict", "",
        "from minrisk._core.decoding import MetricLike, StrategyLike", "",
        *(_typed_dict(name, *found) for name, found in classes.items())])


def _listed(head: str, names: Iterable[str]) -> str:
    body = fill(", ".join(f'"{name}"' for name in names), 100, initial_indent="    ",
                subsequent_indent="    ", break_on_hyphens=False)
    return f"{head}[\n{body},\n]"


def _typed_dict(name: str, what: str, classes: Iterable[type], without: set[str]) -> str:
    found: dict[str, dict[str, None]] = {}
    for cls in classes:
        hints = get_type_hints(cls)
        for field in dataclasses.fields(cls):
            if field.name not in without:
                found.setdefault(field.name, {}).update(dict.fromkeys(_types(hints[field.name])))
    lines = [f"    {key}: {' | '.join(sorted(kinds, key='None'.__eq__))}"
             for key, kinds in found.items()]
    return "\n".join(["", f"class {name}(TypedDict, total=False):",
                      f'    """Options of {what}."""', "", *lines, ""])


def _types(hint: Any) -> Iterator[str]:
    """How the types that a field may have are written."""
    if isinstance(hint, types.UnionType) or get_origin(hint) is Union:
        for part in get_args(hint):
            yield from _types(part)
    elif get_origin(hint) is Literal:
        yield f"Literal[{', '.join(map(repr, get_args(hint)))}]".replace("'", '"')
    elif get_origin(hint) is Metric or hint is Metric:
        yield "MetricLike"
    elif hint is Strategy:
        yield "StrategyLike"
    else:
        yield "None" if hint is type(None) else hint.__name__


if __name__ == "__main__":
    main()
