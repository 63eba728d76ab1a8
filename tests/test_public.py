"""What `import minrisk` shows, and what it does not load."""

from __future__ import annotations

import dataclasses
import doctest
import subprocess
import sys
from importlib import import_module

import pytest

import minrisk
import minrisk.plugins
from minrisk._core.options import documented
from minrisk._core.registry import REGISTRIES
from project import ROOT

sys.path.insert(0, str(ROOT / "tools"))
import names as written

SOURCE = ROOT / "src" / "minrisk"
WITH_EXAMPLES = sorted(
    ".".join(path.relative_to(SOURCE).with_suffix("").parts).removesuffix(".__init__")
    for path in SOURCE.rglob("*.py") if ">>> " in path.read_text(encoding="utf-8"))
WITH_EXAMPLES.remove("hf")  # whose example needs a model


def test_what_editors_read_is_what_the_registry_says():
    for path, text in written.files().items():
        assert (SOURCE / path).read_text(encoding="utf-8") == text, "run `make names`"


def test_what_is_visible_is_what_is_exported():
    assert dir(minrisk) == sorted(minrisk.__all__)
    assert len(set(minrisk.__all__)) == len(minrisk.__all__)


@pytest.mark.parametrize("name", minrisk.__all__)
def test_everything_that_is_exported_is_there(name):
    assert getattr(minrisk, name) is not None


def test_what_is_not_exported_is_told():
    with pytest.raises(AttributeError, match="'decod'"):
        minrisk.decod  # noqa: B018


@pytest.mark.parametrize("registry", REGISTRIES, ids=lambda r: r.kind)
def test_everything_with_a_name_is_exported_by_its_class(registry):
    for name in registry.builtin:
        cls = registry.get(name)
        assert getattr(minrisk, cls.__name__) is cls


def test_a_name_that_was_changed_tells_the_new_one():
    with pytest.raises(AttributeError, match="decode_parts"):
        minrisk.decode_shards  # noqa: B018


def test_plugins_have_what_they_export():
    for name in minrisk.plugins.__all__:
        assert hasattr(minrisk.plugins, name)
    needed = {"Metric", "Strategy", "Sampler", "Sample", "option", "Groups", "Pool", "bind",
              "segment_rng", "PartialError", "Samples", "UnusableError"}
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


@pytest.mark.parametrize("name", WITH_EXAMPLES)
def test_examples_in_docstrings_run(name):
    found = doctest.testmod(import_module(f"minrisk.{name}"),
                            optionflags=doctest.IGNORE_EXCEPTION_DETAIL | doctest.ELLIPSIS)
    assert found.failed == 0


def test_every_public_name_is_documented_with_an_example():
    def has_example(name):
        found = getattr(minrisk, name)
        return any(">>>" in (doc or "") for doc in (found.__doc__, found.__init__.__doc__))

    assert [name for name in minrisk.__all__ if not has_example(name)] == ["__version__"]


@pytest.mark.parametrize("registry", REGISTRIES, ids=lambda r: r.kind)
def test_every_option_is_documented(registry):
    for name in registry.builtin:
        cls = registry.get(name)
        for field in dataclasses.fields(cls):
            assert documented(cls).get(field.name), f"{cls.__name__}.{field.name}"
