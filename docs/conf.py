"""The manual: Sphinx with MyST's Markdown and the theme furo. `make docs` builds it."""

from __future__ import annotations

import sys
from pathlib import Path

DOCS = Path(__file__).resolve().parent
sys.path.insert(0, str(DOCS / "_extensions"))

from minrisk.version import __version__  # noqa: E402

project = "minrisk"
author = "The minrisk maintainers"
copyright = author
version = release = __version__

extensions = ["myst_parser", "repository_links"]
exclude_patterns = ["_extensions"]
myst_enable_extensions = ["colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 4
nitpicky = True

html_theme = "furo"
html_title = f"minrisk {version}"
html_copy_source = False
