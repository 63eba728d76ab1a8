"""The job of `inspect`: decode segments, and make a page of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from minrisk._core.errors import InputError
from minrisk._core.options import Options, checked, flag
from minrisk._core.strategy import Strategy, compares_texts
from minrisk.io.inputs import InputFile
from minrisk.report.page import BuildViews, PageBuilder, ViewWriter
from minrisk.report.systems import read_validation
from minrisk.report.views import CHOICE, REFERENCE, View
from minrisk.run.driver import Job
from minrisk.run.options import RunOptions
from minrisk.tasks.decoding import Decoding
from minrisk.version import __version__

Unit = Literal["segment", "request"]  # what the page calls a record


@dataclass(frozen=True)
class PageOptions(Options):
    """What a page shows, beside the segments."""

    show: int = flag(16, section="Output", metavar="K", ge=1,
                     help="Number of samples of each segment: the best, and with them the worst, "
                     "the most probable and the best of other clusters.")
    title: str | None = flag(None, section="Output", metavar="TEXT",
                             help="Title of the page; the name of INPUT unless given.")
    reference_field: str = flag(
        REFERENCE, section="Input", metavar="FIELD",
        help="Field of INPUT with a human reference, or a list of them.")
    validation: str | None = flag(
        None, section="Input", metavar="FILE",
        help="Results of `minrisk validate -o FILE`, for the chart of strategies.")


class Inspecting:
    """A page about segments, and the run that makes it."""

    def __init__(self, decoding: Decoding, view: View, options: PageOptions,
                 note: str = "", unit: Unit = "segment") -> None:
        self._decoding, self._view = decoding, view
        self._facts = page_facts(
            view, options.title or title_of(decoding.corpus.files), decoding.strategy,
            decoding.signature, options.validation) | {
                "unit": checked("unit", unit, Unit)} | ({"note": note} if note else {})

    def job(self, config: RunOptions, builder: PageBuilder) -> Job:
        """The views of segments go to the builder of the page."""
        views = BuildViews(self._decoding.strategy, config.batch_size, config.on_error,
                           view=self._view)
        job = self._decoding.job(views, config, config.write(ViewWriter()), settings={})
        return replace(job, stream=builder)

    def page(self, builder: PageBuilder, segments: int) -> Iterator[bytes]:
        """The page, when all of its segments are in the builder."""
        self._view.check(segments)
        origins = {CHOICE: self._decoding.signature, **self._view.origins}
        return builder.chunks(self._decoding.strategy.metric, origins, **self._facts)


def page_facts(view: View, title: str, strategy: Strategy, signature: str,
               validation: str | None = None) -> dict[str, Any]:
    """What the page says of the run as a whole."""
    return {"title": title, "strategy": strategy.name, "is_vote": strategy.metric.is_vote,
            "compares": compares_texts(strategy),
            "signature": signature, "version": __version__, "show": view.show,
            "validation": None if validation is None else read_validation(validation)}


def columns_of(references: Sequence[str | Sequence[str]]) -> list[list[str]]:
    """From the references of each segment to lists with a line per segment."""
    lists = [[own] if isinstance(own, str) else list(own) for own in references]
    if len({len(own) for own in lists}) > 1:
        raise InputError("references: every segment must have as many as the others; "
                         "records may have any number of them in their field `reference`")
    return [list(column) for column in zip(*lists, strict=True)]


def title_of(files: Sequence[InputFile]) -> str:
    names = [file.name.rpartition("/")[2] for file in files]
    return ", ".join("standard input" if name == "-" else name for name in names) or "samples"
