"""The reference when the manual is built: generated text, signatures, links, and how code looks."""

from __future__ import annotations

import inspect
from typing import Any

from docutils import nodes
from reference_text import written
from sphinx.application import Sphinx

LONG = 3500  # characters: about a screen and a half


def write(app: Sphinx, docname: str, source: list[str]) -> None:
    """Replace the blocks of a page that are written from the code."""
    source[0] = written(source[0])


def as_written(app: Sphinx, what: str, name: str, found: Any, options: Any, arguments: str,
               result: str) -> tuple[str, str] | None:
    """The signature with types as the source has them: their names, not what they stand for."""
    if arguments is None or what not in ("class", "function", "method"):
        return None
    try:
        signature = inspect.signature(found)
    except (TypeError, ValueError):
        return None
    parameters = [one.replace(annotation=Written(one.annotation))
                  if isinstance(one.annotation, str) else one
                  for one in signature.parameters.values() if one.name != "self"]
    own = signature.return_annotation
    is_shown = what != "class" and isinstance(own, str)
    return str(inspect.Signature(parameters)), own if is_shown else ""


class Written(str):
    """A type that is shown without quotation marks."""

    def __repr__(self) -> str:
        return str(self)


def punctuate(app: Sphinx, doctree: nodes.document) -> None:
    """A colon between a parameter and its description, where Sphinx has two hyphens."""
    for text in list(doctree.findall(nodes.Text)):
        if text == " -- ":
            text.parent.replace(text, nodes.Text(": "))


def mark_short_code(app: Sphinx, doctree: nodes.document) -> None:
    """A class for code in a sentence that is short enough to stay on one line."""
    for literal in doctree.findall(nodes.literal):
        if len(literal.astext()) <= 32:
            literal["classes"].append("short")


def list_sections(app: Sphinx, pagename: str, templatename: str, context: dict[str, Any],
                  doctree: nodes.document | None) -> None:
    """A list of the sections below the title of a long page, for windows without a right column."""
    if doctree is None or len(doctree.astext()) < LONG:
        return
    if len(list(doctree.findall(nodes.section))) > 2:  # with the page itself
        title, end, rest = context["body"].partition("</h1>")
        context["body"] = (f'{title}{end}<details class="sections"><summary>On this page</summary>'
                           f'{context["toc"]}</details>{rest}')


def public_home(app: Sphinx, env: Any, node: Any, content: Any) -> Any:
    """A link to a class by its private module leads to the public name."""
    name = node.get("reftarget", "").rpartition(".")[2]
    for module in ("minrisk", "minrisk.plugins", "minrisk.hf", "minrisk.testing"):
        target = f"{module}.{name}"
        domain = env.get_domain("py")
        if node.get("refdomain") == "py" and target in domain.objects:
            return domain.resolve_xref(env, node["refdoc"], app.builder, "obj", target, node,
                                       content)
    return None


def setup(app: Sphinx) -> dict[str, bool]:
    """Connect all of these."""
    app.connect("source-read", write)
    app.connect("autodoc-process-signature", as_written)
    app.connect("doctree-read", punctuate)
    app.connect("doctree-read", mark_short_code)
    app.connect("html-page-context", list_sections)
    app.connect("missing-reference", public_home)
    return {"parallel_read_safe": True}
