"""`minrisk.inspect`: a page that shows why each sample was chosen."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from os import PathLike, fspath
from typing import Any

from minrisk._core.decoding import MetricLike, StrategyLike, resolve_strategy
from minrisk._core.errors import InputError
from minrisk._core.segment import Segment
from minrisk._core.signature import signature
from minrisk._core.strategy import Strategy
from minrisk.io.inputs import InputFile, expand
from minrisk.io.objects import ObjectReader
from minrisk.io.record import AUTO, Reader
from minrisk.pipeline.job import RunConfig, Work, open_run
from minrisk.pipeline.stages import Write
from minrisk.pipeline.workers import WorkerPool
from minrisk.report.page import PageBuilder, save_page
from minrisk.report.stages import BuildViews, LogprobReader, ViewWriter
from minrisk.report.systems import read_validation
from minrisk.report.views import REFERENCE, View
from minrisk.version import __version__

Path = str | PathLike[str]
Samples = Path | Iterable[Mapping[str, Any] | Sequence[str] | Segment]
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

    def save(self, path: Path) -> None:
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
    samples: Samples,
    *,
    metric: MetricLike | None = None,
    strategy: StrategyLike | None = None,
    against: Mapping[str, Sequence[str]] | None = None,
    references: Sequence[str | Sequence[str]] | None = None,
    validation: Path | None = None,
    show: int = 16,
    title: str | None = None,
    note: str = "",
    seed: int = 0,
    **options: Any,
) -> Report:
    """Decode segments, and make a page that shows why each sample was chosen.

    Args:
        samples: a file as `minrisk decode` reads it, or records of the same fields, or lists of
            samples, or `minrisk.Segment` objects.
        metric: as for `minrisk.decode`.
        strategy: as for `minrisk.decode`.
        against: further outputs by name, a line per segment.
        references: a human reference per segment, or a list of them; the field `reference` of the
            records counts too.
        validation: the file that `minrisk validate -o` wrote.
        show: number of samples of a segment that the page holds.
        title: of the page; the name of the file unless given.
        note: a further line below the title.
        seed: seed of random choices.
        options: of a strategy that is given by name or class.

    Returns:
        The report, with the method `save`.

    Raises:
        InputError: if an argument is invalid, or every segment fails.

    >>> inspect([{"id": "one", "source": "eine Katze", "samples": ["a cat", "a cat", "dogs"]}])
    Report(1 segment, 0 failed, 0.1 MB)
    """
    if show < 1:
        raise InputError(f"show must be at least 1; got {show}")
    chosen = resolve_strategy(strategy, metric, options)
    view = View(show=show, against=dict(against or {}), references=columns_of(references or ()),
                field=REFERENCE, seed=seed)
    files, reader = _reader(samples)
    facts = page_facts(chosen, view, title or title_of(files),
                       None if validation is None else fspath(validation), weights=AUTO)
    facts |= {"note": note} if note else {}
    config = RunConfig("-")
    with PageBuilder() as builder:
        pool = config.pool(BuildViews(chosen, view=view), Write(ViewWriter()))
        work = page_work(files, reader, pool, builder, facts["signature"])
        with open_run(config, work) as run:
            for _ in run.results():
                pass
            counts = run.sink.counts
        view.check(counts["segments"])
        return Report(counts["segments"], counts["failed"],
                      b"".join(builder.chunks(chosen.metric, **facts)))


def page_work(files: Sequence[InputFile], reader: Reader, pool: WorkerPool, builder: PageBuilder,
              signature: str) -> Work:
    """The work of a page: its input, its stages and its output."""
    return Work(files=files, reader=lambda files, number: reader, pools=[pool], settings={},
                signatures=[signature], stream=builder)


def page_facts(strategy: Strategy, view: View, title: str, validation: str | None = None,
               **options: Any) -> dict[str, Any]:
    """What the page says of the run as a whole; options are those of its signature."""
    return {"title": title, "strategy": strategy.name, "signature": signature(strategy, **options),
            "version": __version__, "show": view.show,
            "validation": None if validation is None else read_validation(validation)}


def columns_of(references: Sequence[str | Sequence[str]]) -> list[list[str]]:
    """From the references of each segment to lists with a line per segment."""
    lists = [[own] if isinstance(own, str) else list(own) for own in references]
    if len({len(own) for own in lists}) > 1:
        raise InputError("references: every segment must have as many as the others; "
                         "records may have any number of them in their field `reference`")
    return [list(column) for column in zip(*lists, strict=True)]


def _reader(samples: Samples) -> tuple[tuple[InputFile, ...], Reader]:
    """The files, and the reader of the files or objects."""
    if isinstance(samples, str | PathLike):
        files = tuple(map(InputFile.at, expand([fspath(samples)])))
        return files, LogprobReader(files)
    return (), ObjectReader(samples, LogprobReader(()))


def title_of(files: Sequence[InputFile]) -> str:
    names = [file.name.rpartition("/")[2] for file in files]
    return ", ".join("standard input" if name == "-" else name for name in names) or "samples"
