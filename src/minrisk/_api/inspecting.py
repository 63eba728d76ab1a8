"""`minrisk.inspect`: a page that shows why each sample was chosen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from os import fspath
from typing import Unpack

from minrisk._api.decoding import Segments, make_decoding
from minrisk._api.keywords import DecodeKeywords
from minrisk._api.runs import complete, run_config
from minrisk._core.decoding import MetricLike, StrategyLike
from minrisk.evaluation.scoring import texts_of
from minrisk.io.text import FilePath
from minrisk.report.inspecting import Inspecting, PageOptions, Unit, columns_of
from minrisk.report.page import PageBuilder, save_page
from minrisk.report.records import PageReader
from minrisk.report.views import REFERENCE, View
from minrisk.tasks.decoding import Weights

_NOTEBOOK = 8 * 10**6  # bytes of a page that is shown inside a notebook


@dataclass(frozen=True, eq=False, repr=False)
class Report:
    """A page about a run; `save` writes it, and notebooks show it.

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
        """Write the page, whole or not at all.

        Raises:
            InputError: if the file cannot be written.
        """
        save_page(iter([self.page]), fspath(path))

    def __repr__(self) -> str:
        unit = "segment" if self.segments == 1 else "segments"
        return (f"Report({self.segments} {unit}, {self.failed} failed, "
                f"{self.size / 10**6:.1f} MB)")

    def _repr_html_(self) -> str:
        """The page in a frame that may run its scripts and nothing else."""
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
    reference_field: str = REFERENCE,
    validation: FilePath | None = None,
    show: int = 16,
    title: str | None = None,
    note: str = "",
    unit: Unit = "segment",
    weights: Weights = "auto",
    weights_temperature: float | None = None,
    **options: Unpack[DecodeKeywords],
) -> Report:
    """Decode segments, and make a page that shows why each sample was chosen.

    Args:
        samples: as the segments of `decode_corpus`.
        metric: as for `minrisk.decode`.
        strategy: as for `minrisk.decode`.
        against: further outputs by name, a line (or a result of a call) per segment.
        references: a human reference per segment, or a list of them.
        reference_field: field of the segments with a human reference, or a list of them.
        validation: the file that `minrisk validate -o` wrote.
        show: number of samples of a segment that the page holds.
        title: of the page; the name of the file unless given.
        note: a further line below the title.
        unit: the page's word for a record, "segment" or "request".
        weights, weights_temperature: as of `decode_corpus`.
        options: of a strategy that is given by name or class, and of the run, as of
            `decode_corpus`.

    Returns:
        The report, with the method `save`.

    Raises:
        InputError: if an argument is invalid, or every segment fails.

    >>> inspect([{"id": "one", "source": "eine Katze", "samples": ["a cat", "a cat", "dogs"]}])
    Report(1 segment, 0 failed, 0.1 MB)
    """
    page = PageOptions(show, title, reference_field,
                       None if validation is None else fspath(validation))
    config = run_config("-", options)
    decoding = make_decoding(samples, metric, strategy, weights, weights_temperature, None, options,
                             PageReader)
    view = View(show=page.show,
                against={name: texts_of(lines) for name, lines in (against or {}).items()},
                field=page.reference_field,
                references=columns_of(references or ()), seed=options.get("seed", 0))
    inspecting = Inspecting(decoding, view, page, note, unit)
    with PageBuilder() as builder:
        done = complete(config, inspecting.job(config, builder), options.get("progress", False))
        chunks = inspecting.page(builder, done.segments)
        return Report(done.segments, done.failed, b"".join(chunks))
