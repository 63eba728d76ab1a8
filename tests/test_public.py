"""What `import minrisk` shows, and what it does not load."""

from __future__ import annotations

import ast
import dataclasses
import doctest
import re
import subprocess
import sys
from importlib import import_module
from typing import get_args

import pytest

import minrisk
import minrisk.plugins
from minrisk._core.decoding import MetricName, SamplerName, StrategyName
from minrisk._core.registry import METRICS, SAMPLERS, STRATEGIES
from project import ROOT

INIT = ROOT / "src" / "minrisk" / "__init__.py"
# whose public names have docstrings with an example that runs
DOCUMENTED = [
    "_api.decoding", "_api.inspecting", "_api.parts", "_api.results", "_api.sampling",
    "_api.validation", "io.text_files",
    "_core.adapters", "_core.decoding", "_core.errors", "_core.groups", "_core.metric",
    "_core.strategy", "_core.options", "_core.sampler", "samplers.ct2", "samplers.openai",
    "plugins", "evaluation.scoring", "evaluation.validation", "_core.segment",
    "_core.signature", "_core.references", "_core.pool", "_core.threads", "io.references",
    "testing", "strategies.adaptive",
    "strategies.aggregate", "strategies.cascade", "strategies.centroid",
    "strategies.confident", "strategies.control_variate", "strategies.diverse",
    "strategies.low_rank", "strategies.medoids", "strategies.n_by_s",
    "strategies.prune", "strategies.quality_then_mbr", "strategies.rerank",
    "strategies.standard", "strategies.uncertain",
    "metrics.bertscore", "metrics.bleu", "metrics.bleurt", "metrics.cached", "metrics.chrf",
    "metrics.combined", "metrics.comet", "metrics.comet.unified", "metrics.command",
    "metrics.edit", "metrics.embedding", "metrics.exact_match", "metrics.metricx", "metrics.mqm",
    "metrics.python", "metrics.rouge", "metrics.symmetric", "metrics.ter", "samplers.hf",
    "evaluation.metric_bias", "metrics.cider", "metrics.cutoff", "metrics.documents",
    "metrics.outcomes", "metrics.wer", "strategies.cluster",
    "metrics.json_match", "metrics.symbolic", "_core.vote", "metrics.judge", "metrics.logprob",
    "metrics.reward", "strategies.mbr_bon", "strategies.universal_self_consistency"]


def test_what_is_visible_is_what_is_exported():
    assert dir(minrisk) == sorted(minrisk.__all__)
    assert len(set(minrisk.__all__)) == len(minrisk.__all__)


def test_editors_see_the_names_that_run():
    """Those under TYPE_CHECKING, those of the table, and `__all__`."""
    seen = {"__version__": "minrisk.version"}
    for node in ast.parse(INIT.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.If):
            seen |= {alias.name: part.module for part in node.body for alias in part.names}
    table = {name: f"minrisk.{module}" for name, module in minrisk._MODULES.items()}
    assert seen == table | {"__version__": "minrisk.version"}
    assert set(seen) == set(minrisk.__all__)


@pytest.mark.parametrize("name", minrisk.__all__)
def test_everything_that_is_exported_is_there(name):
    assert getattr(minrisk, name) is not None


def test_what_is_not_exported_is_told():
    with pytest.raises(AttributeError, match="module 'minrisk' has no attribute 'decod'"):
        minrisk.decod  # noqa: B018


@pytest.mark.parametrize("registry", [METRICS, STRATEGIES, SAMPLERS], ids=lambda r: r.kind)
def test_everything_with_a_name_is_exported_by_its_class(registry):
    for name in registry.builtin:
        cls = registry.get(name)
        assert getattr(minrisk, cls.__name__) is cls


def test_names_that_editors_complete_are_those_of_the_registry():
    assert list(get_args(MetricName)) == list(METRICS.builtin)
    assert list(get_args(StrategyName)) == list(STRATEGIES.builtin)
    assert list(get_args(SamplerName)) == list(SAMPLERS.builtin)


def test_a_name_that_was_changed_tells_the_new_one():
    with pytest.raises(AttributeError, match=r"decode_shards was renamed to minrisk.decode_parts"):
        minrisk.decode_shards  # noqa: B018


def test_plugins_have_what_they_export():
    for name in minrisk.plugins.__all__:
        assert hasattr(minrisk.plugins, name)
    needed = {"Metric", "Strategy", "Sampler", "Sample", "option", "Groups", "Pool", "bind",
              "segment_rng"}
    assert needed <= set(minrisk.plugins.__all__)


def loaded_after(code: str) -> set[str]:
    done = subprocess.run([sys.executable, "-c", f"{code}\nimport sys\nprint(*sys.modules)"],
                          capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_a_bare_import_loads_next_to_nothing():
    found = loaded_after("import minrisk")
    assert not {"numpy", "difflib", "minrisk._core.segment", "minrisk._native"} & found
    assert {name for name in found if name.startswith("minrisk.")} == {
        "minrisk.version"}


def test_all_names_together_load_no_optional_package():
    found = loaded_after("from minrisk import *")
    assert not {"torch", "transformers", "ray", "click", "sacrebleu", "fsspec", "pyarrow"} & found


def test_a_name_stays_what_it_is_when_its_module_is_imported():
    """A submodule takes the place of a function of its name in the package."""
    code = ("import minrisk\nimport minrisk._core.signature, minrisk.cli\n"
            "minrisk.decode(['a', 'b'])\n"
            "assert all(not hasattr(getattr(minrisk, n), '__path__') for n in minrisk.__all__)\n"
            "assert all(type(getattr(minrisk, n)).__name__ != 'module' for n in minrisk.__all__)")
    loaded_after(code)


@pytest.mark.parametrize("name", DOCUMENTED)
def test_examples_in_docstrings_run(name):
    found = doctest.testmod(import_module(f"minrisk.{name}"),
                            optionflags=doctest.IGNORE_EXCEPTION_DETAIL | doctest.ELLIPSIS)
    assert found.failed == 0


def test_every_public_name_is_documented_with_an_example():
    homes = {name: minrisk._MODULES.get(name) for name in minrisk.__all__}
    for name, home in homes.items():
        if home in DOCUMENTED:
            docs = [getattr(minrisk, name).__doc__, getattr(minrisk, name).__init__.__doc__]
            assert any(">>>" in (doc or "") for doc in docs), name


@pytest.mark.parametrize("registry", [METRICS, STRATEGIES, SAMPLERS], ids=lambda r: r.kind)
def test_every_option_is_documented(registry):
    for name in registry.builtin:
        cls = registry.get(name)
        if cls.__module__.removeprefix("minrisk.") in DOCUMENTED:
            documented = documented_options(cls)
            for field in dataclasses.fields(cls):
                assert field.name in documented, f"{cls.__name__}.{field.name}"


def documented_options(cls: type) -> set[str]:
    """The names in the section Args; `as in` another class, they have to be in that one's too."""
    entries = re.findall(r"^ {8}(\w[\w, ]*): (?:as in `(\w+)`\.$)?",
                         cls.__doc__.partition("Args:")[2].partition("Raises:")[0], re.MULTILINE)
    for names, other in entries:
        assert not other or set(names.split(", ")) <= documented_options(getattr(minrisk, other))
    return {name for names, _ in entries for name in names.split(", ")}
