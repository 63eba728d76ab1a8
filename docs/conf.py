"""The manual: Sphinx with MyST's Markdown and the theme furo. `make docs` builds it."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path

DOCS = Path(__file__).resolve().parent
sys.path.insert(0, str(DOCS / "_extensions"))

from minrisk.version import __version__  # noqa: E402

project = "minrisk"
author = "The minrisk maintainers"
copyright = author
version = release = __version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "mathml", "reference",
              "repository_links"]
exclude_patterns = ["_extensions", "_static"]
myst_enable_extensions = ["colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 4
nitpicky = True
nitpick_ignore_regex = [("py:class", ".*")]  # types of NumPy, and private ones, in signatures

default_role = "code"  # docstrings have plain backticks
autodoc_typehints = "none"  # the reference shows types as they are written
autoclass_content = "both"
autodoc_member_order = "bysource"
autodoc_mock_imports = [name for name in ("torch", "transformers", "safetensors", "sentencepiece")
                        if find_spec(name) is None]  # minrisk.hf imports them
napoleon_google_docstring = True
napoleon_numpy_docstring = False
add_module_names = False
toc_object_entries_show_parents = "hide"
smartquotes = False  # -- is part of a flag

html_theme = "furo"
html_title = f"minrisk {version}"
html_copy_source = False
html_static_path = ["_static"]
html_css_files = ["manual.css"]
