"""What a validation found, as text: a table, and what follows from it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from minrisk.evaluation.summary import Summary, TrialSummary


def report_lines(summary: Summary, top: int, signature: str) -> Iterator[str]:
    """The head of the table, its rows, and recommendations."""
    rows = [("strategy", "budget", "top-1", f"top-{top}", "lost", "up to", "pairs", "ms"),
            *(_cells(row) for row in summary.rows)]
    yield from aligned(rows, labels=2)
    yield (f"\nMeans over {summary.segments} segments of {summary.references:,.0f} references. "
           f"top-1, top-{top}: how often the string that\nexact MBR picks is the first, "
           f"or among the first {top}. lost: exact utility, against that string; up\n"
           "to: the upper end of its 95% interval over segments, which must be tolerated.\n"
           f"ms: median per segment, features included.\n{signature}\n")
    yield from _recommendations(summary)


def aligned(rows: Sequence[Sequence[str]], labels: int = 1) -> list[str]:
    """The rows of a table as lines: first the columns of labels, then those of numbers.

    >>> aligned([["system", "score"], ["a", "9.5"]])
    ['system  score', 'a         9.5']
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join([*map(str.ljust, cells[:labels], widths),
                       *map(str.rjust, cells[labels:], widths[labels:])]).rstrip()
            for cells in rows]


def _cells(row: TrialSummary) -> tuple[str, ...]:
    return (row.trial.strategy, row.trial.budget, f"{row.first:.1%}", f"{row.among:.1%}",
            f"{row.lost:.3g}", f"{row.lost_high:.3g}", f"{row.pairs:,.0f}",
            f"{1000 * row.seconds:.1f}")


def _recommendations(summary: Summary) -> Iterator[str]:
    yield (f"Exact MBR gains {summary.gain:.3g} over a sample at random; "
           f"a loss of {summary.tolerance:.3g} is tolerated.")
    yield f"By time:  {_by_time(summary)}"
    yield f"By pairs: {_by_pairs(summary)}"


def _by_time(summary: Summary) -> str:
    fastest, exact = summary.fastest, summary.exact
    if fastest is exact:
        return f"standard, which is exact and the fastest anyway: {_ms(exact)} a segment."
    if summary.recommended is exact:
        return (f"standard, which is exact and takes {_ms(exact)} a segment; the fastest,\n"
                f"          {fastest.trial.label} with {_ms(fastest)}, is not twice as fast.")
    return (f"{fastest.trial.label}, {_ms(fastest)} a segment instead of {_ms(exact)}; "
            f"it loses {_lost(fastest)}.")


def _by_pairs(summary: Summary) -> str:
    fewest, exact = summary.fewest_pairs, summary.exact
    if fewest is exact:
        return "standard; nothing with fewer pairs stays within the tolerance."
    return (f"{fewest.trial.label}, {fewest.pairs / exact.pairs:.2%} of standard's; "
            f"it loses {_lost(fewest)}.")


def _lost(row: TrialSummary) -> str:
    return f"{row.lost:.3g} ({row.lost_low:.3g} to {row.lost_high:.3g})"


def _ms(row: TrialSummary) -> str:
    return f"{1000 * row.seconds:.3g} ms"
