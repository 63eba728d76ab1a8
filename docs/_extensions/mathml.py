r"""Formulas as MathML, which browsers show by themselves.

MathJax, Sphinx's usual way, is loaded from another site: without a network, or in a folder of pages
that was sent to somebody, a reader would see TeX.
"""

from __future__ import annotations

from html import escape
from typing import Any

from docutils import nodes
from docutils.utils.math import MathError
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.application import Sphinx
from sphinx.util import logging


def inline(writer: Any, node: nodes.math) -> None:
    writer.body.append(f'<span class="math">{converted(node)}</span>')
    raise nodes.SkipNode


def block(writer: Any, node: nodes.math_block) -> None:
    writer.body.append(f'<div class="math">{converted(node, as_block=True)}</div>\n')
    raise nodes.SkipNode


def converted(node: nodes.Element, as_block: bool = False) -> str:
    """MathML; the TeX itself, with a warning, where docutils does not know a command."""
    try:
        return tex2mathml(node.astext(), as_block)
    except MathError as error:
        logging.getLogger(__name__).warning("%s", error, location=node)
        return escape(node.astext())


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_html_math_renderer("mathml", (inline, None), (block, None))
    app.config.html_math_renderer = "mathml"
    return {"parallel_read_safe": True}
