"""Writes the files that repeat the registry for editors and type checkers.

usage: python tools/names.py      (needs minrisk, not its extras)

At run time the registry of metrics, strategies and samplers and the fields of their dataclasses are
the only list of names. Editors read files: the stub of `minrisk`, the names that arguments may have
and the keywords that calls take. tests/test_public.py says when one of them is old.
"""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from pathlib import Path
from textwrap import fill
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import minrisk
from minrisk._core.metric import Metric
from minrisk._core.registry import REGISTRIES, SAMPLERS, STRATEGIES
from minrisk._core.strategy import Strategy
from minrisk.run.options import RunOptions
from minrisk.tasks.decode import DecodeOutput, SegmentOptions, WeightOptions
from minrisk.tasks.export import TrainingOutput
from minrisk.tasks.inspect import PageOptions
from minrisk.tasks.sample import PromptOptions, SampleOutput
from minrisk.tasks.translate import TranslationOutput
from minrisk.tasks.validate import StudyScope

SOURCE = Path(__file__).resolve().parent.parent / "src" / "minrisk"
WRITTEN = "Written by `make names`."
_OF_OUTPUT = {"format", "nbest", "utilities", "matrix"}  # options that need `output`


def main() -> None:
    for path, text in files().items():
        (SOURCE / path).write_text(text, encoding="utf-8")


def files() -> dict[str, str]:
    """The text of each file, by its path in the package."""
    return {"__init__.pyi": stub(), "_core/names.py": names(), "tasks/keywords.py": keywords()}


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


def keywords() -> str:
    run, strategies = _fields(RunOptions), map(STRATEGIES.get, STRATEGIES.builtin)
    seed = {"seed": "int"}
    ranked = "RunKeywords, StrategyKeywords"
    decode, export = _fields(SegmentOptions, DecodeOutput), _fields(SegmentOptions, TrainingOutput)
    sample = _without(_fields(PromptOptions), {"num_samples", "seed"})
    classes = [  # name, bases, what it has the options of, options
        ("RunKeywords", "TypedDict", "a run",
         _without(run, {"output", "quiet"}) | {"progress": "ShowProgress"}),
        ("StrategyKeywords", "TypedDict",
         "the strategies of minrisk, but for the metric and the seed",
         _without(_fields(*strategies), {"metric", "seed"})),
        ("SamplerKeywords", "TypedDict", "the samplers of minrisk",
         _fields(*map(SAMPLERS.get, SAMPLERS.builtin))),
        ("DecodeKeywords", ranked, "`decode_corpus`", _without(decode, _OF_OUTPUT) | seed),
        ("DecodeOutputKeywords", "DecodeKeywords", "`decode_corpus` with an output",
         _only(decode, _OF_OUTPUT)),
        ("ExportKeywords", ranked, "`export`", _without(export, _OF_OUTPUT) | seed),
        ("ExportOutputKeywords", "ExportKeywords", "`export` with an output",
         _only(export, _OF_OUTPUT)),
        ("InspectKeywords", ranked, "`inspect`", _fields(WeightOptions, PageOptions) | seed),
        ("ValidateKeywords", "RunKeywords", "`validate`", _fields(WeightOptions, StudyScope)),
        ("SampleKeywords", "RunKeywords, SamplerKeywords", "`sample`",
         sample | {"reference_options": "Mapping[str, Any] | None"}),
        ("SampleOutputKeywords", "SampleKeywords", "`sample` with an output",
         _fields(SampleOutput)),
        ("TranslateKeywords", "SampleKeywords, StrategyKeywords", "`translate` and `answer`",
         _fields(TranslationOutput)),
    ]
    return "\n".join([
        f'"""Options that calls take as keywords, for editors and type checkers. {WRITTEN}"""', "",
        "from collections.abc import Mapping",
        "from typing import Any, Literal, TypedDict", "",
        "from minrisk._core.decoding import MetricLike, StrategyLike",
        "from minrisk.io.text import FilePath",
        "from minrisk.tasks.calls import ShowProgress", "",
        *(_typed_dict(*found) for found in classes)])


def _listed(head: str, names: Iterable[str]) -> str:
    body = fill(", ".join(f'"{name}"' for name in names), 100, initial_indent="    ",
                subsequent_indent="    ", break_on_hyphens=False)
    return f"{head}[\n{body},\n]"


def _typed_dict(name: str, bases: str, what: str, options: Mapping[str, str]) -> str:
    lines = [f"    {option}: {kind}" for option, kind in options.items()]
    return "\n".join(["", f"class {name}({bases}, total=False):",
                      f'    """Options of {what}."""', "", *lines, ""])


def _fields(*classes: type) -> dict[str, str]:
    """The options of dataclasses, with their types as they are written."""
    found: dict[str, dict[str, None]] = {}
    for cls in classes:
        hints = get_type_hints(cls)
        for field in dataclasses.fields(cls):
            spec = field.metadata.get("flag")
            is_path = spec is not None and spec.metavar == "FILE"
            kinds = ["FilePath" if is_path and kind == "str" else kind
                     for kind in _types(hints[field.name])]
            found.setdefault(field.name, {}).update(dict.fromkeys(kinds))
    return {name: " | ".join(sorted(kinds, key="None".__eq__)) for name, kinds in found.items()}


def _without(options: Mapping[str, str], names: set[str]) -> dict[str, str]:
    return {name: kind for name, kind in options.items() if name not in names}


def _only(options: Mapping[str, str], names: set[str]) -> dict[str, str]:
    return {name: kind for name, kind in options.items() if name in names}


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
