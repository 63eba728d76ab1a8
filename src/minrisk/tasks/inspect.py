"""`inspect` and `minrisk.inspect`: a page that shows why each sample was chosen."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from html import escape
from os import fspath
from typing import TYPE_CHECKING, Any, Literal, Unpack

from minrisk._core.decoding import MetricLike, StrategyLike
from minrisk._core.errors import InputError, brief
from minrisk._core.options import Options, checked, flag
from minrisk._core.strategy import Strategy, compares_texts
from minrisk._core.weights import checked_texts
from minrisk.evaluation.scoring import reference_lists, texts_of
from minrisk.io.inputs import InputFile
from minrisk.io.store import write_whole
from minrisk.io.text import FilePath
from minrisk.report.page import BuildViews, PageBuilder, ViewWriter
from minrisk.report.records import PageReader
from minrisk.report.systems import read_validation
from minrisk.report.views import CHOICE, REFERENCE, View
from minrisk.run.driver import Job
from minrisk.run.options import RunOptions
from minrisk.tasks.calls import Call
from minrisk.tasks.corpus import Segments, segments_of
from minrisk.tasks.decode import Decoding, WeightOptions
from minrisk.version import __version__

if TYPE_CHECKING:
    from minrisk.tasks.keywords import InspectKeywords

Unit = Literal["segment", "request"]  # what the page calls a record
_NOTEBOOK = 8 * 10**6  # largest page in bytes that is shown inside a notebook


@dataclass(frozen=True)
class PageOptions(Options):
    """What a page shows besides the segments."""

    show: int = flag(16, section="Output", metavar="K", ge=1,
                     help="Number of samples to show of each segment: the best, the worst, the "
                     "most probable and the best of other clusters.")
    title: str | None = flag(None, section="Output", metavar="TEXT",
                             help="Title of the page. [default: the name of INPUT]")
    reference_field: str = flag(
        REFERENCE, section="Input", metavar="FIELD",
        help="Field of INPUT with a human reference, or a list of them.")
    validation: str | None = flag(
        None, section="Input", metavar="FILE",
        help="File from `minrisk validate -o FILE`; adds the chart of strategies.")


class Inspecting:
    """A page about segments, and the run that produces it."""

    def __init__(self, decoding: Decoding, view: View, options: PageOptions,
                 note: str = "", unit: Unit = "segment") -> None:
        self._decoding, self._view = decoding, view
        self._facts = page_facts(
            view, options.title or title_of(decoding.corpus.files), decoding.strategy,
            decoding.signature(), options.validation) | {
                "unit": checked("unit", unit, Unit)} | ({"note": note} if note else {})

    def job(self, config: RunOptions, builder: PageBuilder) -> Job:
        """The job that sends views of the segments to the builder of the page."""
        views = BuildViews(self._decoding.strategy, config.batch_size, config.on_error,
                           view=self._view)
        job = self._decoding.job(views, ViewWriter(), config, settings={})
        return replace(job, stream=builder)

    def page(self, builder: PageBuilder, segments: int) -> Iterator[bytes]:
        """The bytes of the page, after the builder has received all segments."""
        self._view.check(segments)
        origins = {CHOICE: self._decoding.signature(), **self._view.origins}
        return builder.chunks(self._decoding.strategy.metric, origins, **self._facts)


def page_facts(view: View, title: str, strategy: Strategy, signature: str,
               validation: str | None = None) -> dict[str, Any]:
    """What the page says about the run as a whole."""
    return {"title": title, "strategy": strategy.name, "is_vote": strategy.metric.is_vote,
            "compares": compares_texts(strategy),
            "signature": signature, "version": __version__, "show": view.show,
            "validation": None if validation is None else read_validation(validation)}


def transposed(references: Sequence[str | Sequence[str]]) -> list[list[str]]:
    """Transpose references: from a list per segment to lists with one line per segment."""
    lists = [*reference_lists(references)]
    if len({len(own) for own in lists}) > 1:
        raise InputError("references: every segment needs the same number; for different numbers, "
                         "use the field `reference` of records")
    return [list(column) for column in zip(*lists, strict=True)]


def outputs_of(against: Mapping[str, Sequence[str]] | None) -> dict[str, Sequence[str]]:
    """The texts of further outputs, by name."""
    if not isinstance(against, Mapping | None):
        raise InputError(f"against must have outputs by name; got {brief(against)}")
    return {name: checked_texts(texts_of(lines), name) for name, lines in (against or {}).items()}


def title_of(files: Sequence[InputFile]) -> str:
    names = [file.name.rpartition("/")[2] for file in files]
    return ", ".join("standard input" if name == "-" else name for name in names) or "samples"


@dataclass(frozen=True, eq=False, repr=False)
class Report:
    """An HTML page about a run; `save` writes it, and notebooks show it.

    >>> report = inspect([["a cat", "a cat", "dogs"]])
    >>> report
    Report(1 segment, 0 failed, 0.1 MB)
    """

    segments: int
    failed: int
    page: bytes

    @property
    def html(self) -> str:
        """The whole page."""
        return self.page.decode("utf-8")

    @property
    def size(self) -> int:
        """Bytes of the page."""
        return len(self.page)

    def save(self, path: FilePath) -> None:
        """Write the page atomically.

        Raises:
            InputError: if the file cannot be written.
        """
        write_whole(fspath(path), [self.page])

    def __repr__(self) -> str:
        unit = "segment" if self.segments == 1 else "segments"
        return (f"Report({self.segments} {unit}, {self.failed} failed, "
                f"{self.size / 10**6:.1f} MB)")

    def _repr_html_(self) -> str:
        """The page in a sandboxed frame, which may only run its own scripts."""
        if self.size > _NOTEBOOK:
            return f"<p>{escape(repr(self))}: too large for a notebook; use save(path)</p>"
        return ('<iframe sandbox="allow-scripts allow-downloads" width="100%" height="640" '
                f'srcdoc="{escape(self.html)}"></iframe>')


def inspect(
    samples: Segments,
    *,
    metric: MetricLike | None = None,
    strategy: StrategyLike | None = None,
    against: Mapping[str, Sequence[str]] | None = None,
    references: Sequence[str | Sequence[str]] | None = None,
    note: str = "",
    unit: Unit = "segment",
    **options: Unpack[InspectKeywords],
) -> Report:
    """Decode segments, and create an HTML page that shows why each sample was chosen.

    Args:
        samples: segments, as in `decode_corpus`.
        metric: as in `minrisk.decode`.
        strategy: as in `minrisk.decode`.
        against: further outputs by name, each with a line (or a result of a call) per segment.
        references: a human reference per segment, or a list of them.
        reference_field: field of the segments with a human reference, or a list of them; default:
            "reference".
        validation: the file that `minrisk validate -o` wrote.
        show: number of samples per segment that the page shows; default: 16.
        title: title of the page; default: the name of the file.
        note: a line below the title.
        unit: the page's word for a record, "segment" or "request".
        weights, weights_temperature: as in `decode_corpus`.
        options: also of a strategy that is given by name or class, and of the run, as in
            `decode_corpus`.

    Returns:
        The report; its method `save` writes the page.

    Raises:
        InputError: if an argument is invalid, or every segment fails.

    >>> inspect([{"id": "one", "source": "eine Katze", "samples": ["a cat", "a cat", "dogs"]}])
    Report(1 segment, 0 failed, 0.1 MB)
    """
    call = Call("-", options)
    page, seed = call.take(PageOptions), call.seed()
    decoding = call.take(WeightOptions).decoding(
        segments_of(samples, call.config.engine), call.strategy(strategy, metric, seed), PageReader)
    view = View(show=page.show,
                against=outputs_of(against), field=page.reference_field,
                references=transposed(() if references is None else references), seed=seed or 0)
    inspecting = Inspecting(decoding, view, page, note, unit)
    with PageBuilder() as builder:
        done = call.complete(inspecting.job(call.config, builder))
        chunks = inspecting.page(builder, done.segments)
        return Report(done.segments, done.failed, b"".join(chunks))
