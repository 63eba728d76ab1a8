"""The claims of the paper, tested on our measurements: numbers with intervals."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import fmean
from typing import Any

import paper
from formatting import difference, digits, with_interval
from intervals import every, exceeds, of_difference, of_ratio, of_row, of_share, within
from methods import AGGREGATION, CONTROL, N_BY_S, STANDARD, TO_FINE
from paper import LEXICAL
from results import AVERAGE, BEAM, SAMPLE, Results, Row

ENOUGH, FEW, MANY, MARGIN = 0.97, 16, 10, 0.1  # accuracy, references, times, share of a gain
RULE = ("In brackets are 95% intervals. A claim holds (yes) if all of its interval agrees with it, "
        "fails (no) if none of it does, and is undecided (-) otherwise; one of several parts holds "
        "if all of them do, and fails if one fails. Accuracies have Wilson's interval; their "
        "differences, always on the same segments, that of Bonett and Price; scores that of the "
        "paired bootstrap over segments; ratios of times the range over segments, of which there "
        "must be six. They are not corrected for how many they are.")
Found = dict[str, list[bool]]  # of each dataset, whether each of its segments came out right


def claims(results: Results, times: dict[str, Any]) -> Iterator[Row]:
    """Those that can be asked of what there is."""
    for claim in _measured(results):
        yield claim | {"machine": results.machines}
    for time in times.values():
        for claim in _cost(time):
            yield claim | {"machine": time["machine"]["name"]}


def _measured(results: Results) -> Iterator[Row]:
    utilities = [u.name for u in results.settings.utilities]
    trained = [name for name in utilities if name != LEXICAL]
    yield from _lexical(results)
    yield from _dominance(results)
    for utility in trained:
        yield from _trained(results, utility)
    for utility in trained:
        yield from _corrected(results, utility)
    for utility in utilities:
        yield from _to_fine(results, utility)
    yield from _more(results)
    for utility in utilities:
        yield from _beam(results, utility)


def _claim(claim: str, paper: str, found: str, holds: bool | None, segments: int) -> Row:
    return {"claim": claim, "paper": paper, "found": found,
            "holds": {True: "yes", False: "no", None: "-"}[holds], "segments": segments}


def _lexical(results: Results) -> Iterator[Row]:
    own = _at(results, LEXICAL, AGGREGATION, 1)
    if own:
        whole = _joined(own)
        distinct = _joined(_at(results, LEXICAL, AGGREGATION, 1, "among_distinct"))
        yield _claim(f"{LEXICAL}: one aggregate keeps top-{results.settings.top} accuracy above "
                     f"{ENOUGH}", paper.span(paper.accuracy(LEXICAL, AGGREGATION, 1, 20)),
                     f"{_share(whole)}; {_each(own)}; {_share(distinct)} of distinct texts",
                     exceeds(of_share(whole), ENOUGH), len(whole))


def _dominance(results: Results) -> Iterator[Row]:
    sizes = {size for utility, _, curve, size in results.outcomes
             if (utility, curve) == (LEXICAL, N_BY_S)}
    pairs = {size: _paired(*(_at(results, LEXICAL, curve, size)
                             for curve in (AGGREGATION, N_BY_S))) for size in sizes}
    if pairs:
        verdicts = [exceeds(of_difference(*both)) for both in pairs.values()]
        first = pairs[min(pairs)]
        yield _claim(f"{LEXICAL}: aggregation is more accurate than N-by-S, at every s", "yes",
                     f"significantly at {verdicts.count(True)} of {len(verdicts)} s, significantly "
                     f"less at {verdicts.count(False)}; at s = {min(pairs)} by "
                     f"{_difference(*first)}", every(verdicts), len(first[0]))


def _trained(results: Results, utility: str) -> Iterator[Row]:
    own, lexical = (_at(results, name, AGGREGATION, 1) for name in (utility, LEXICAL))
    if own and lexical:
        rivals, found = _paired(lexical, own)
        theirs, least = (paper.accuracy(name, AGGREGATION, 1, 20) for name in (utility, LEXICAL))
        yield _claim(f"{utility} loses more accuracy by one aggregate than {LEXICAL}",
                     f"{paper.span(theirs)}: {fmean(least) - fmean(theirs):.3f} more",
                     f"{_difference(rivals, found)} more: {_share(found)} against "
                     f"{_share(rivals)}",
                     exceeds(of_difference(rivals, found)), len(found))


def _corrected(results: Results, utility: str) -> Iterator[Row]:
    own, *others = (_at(results, utility, curve, FEW, "first")
                    for curve in (CONTROL, N_BY_S, AGGREGATION))
    if own and all(others):
        rivals = dict(zip((N_BY_S, AGGREGATION), (_paired(own, one) for one in others),
                          strict=True))
        yield _claim(f"{utility}: at {FEW} references a control variate finds the exact choice "
                     "more often than the paper's methods do", "(ours)",
                     f"{_share(_joined(own))}: " + ", ".join(
                         f"{_difference(*both)} more than {name}"
                         for name, both in rivals.items()),
                     every(exceeds(of_difference(*both)) for both in rivals.values()),
                     len(_joined(own)))


def _to_fine(results: Results, utility: str) -> Iterator[Row]:
    gains = {row["judge"]: -row["difference"] for row in _tests(results, utility, SAMPLE)}
    rows = _tests(results, utility, TO_FINE)
    if rows:
        alike = [exceeds(of_row(row)) for row in rows].count(None)
        yield _claim(f"{utility}: aggregate-to-fine with {results.settings.keep} is as good as "
                     f"standard MBR, within {MARGIN:.0%} of what that gains over one sample",
                     "no significant difference for most judges",
                     f"no significant difference for {alike} of {len(rows)} judges: " + "; ".join(
                         f"{row['judge']} {difference(row, row['score'])}, gain "
                         f"{gains[row['judge']]:.{digits(row['score'])}f}" for row in rows),
                     every(within(of_row(row), MARGIN * abs(gains[row["judge"]]))
                           for row in rows), rows[0]["segments"])


def _more(results: Results) -> Iterator[Row]:
    judge = next(iter(results.settings.judges))
    for row in results.more_samples:
        if row["method"] == STANDARD and row["judge"] == judge:
            yield _claim(f"{row['utility']}: {row['samples']} samples improve standard MBR "
                         f"({judge})", paper.gain(row["utility"]), difference(row, row["after"]),
                         exceeds(of_row(row)), row["segments"])


def _beam(results: Results, utility: str) -> Iterator[Row]:
    rows = [_reversed(row) for row in _tests(results, utility, BEAM)]
    if rows:
        yield _claim(f"standard MBR by {utility} is better than beam search, by every judge but "
                     "itself", "yes, by BLEURT-20", ", ".join(
                         f"{row['judge']} {difference(row, row['score'])}" for row in rows),
                     every(exceeds(of_row(row)) for row in rows), rows[0]["segments"])


def _cost(time: dict[str, Any]) -> Iterator[Row]:
    """How many times what aggregation costs: the utility alone, features included."""
    for utility, ways in time["utilities"].items():
        exact, aggregate = (ways["minrisk"][name] for name in (STANDARD, AGGREGATION))
        if "each_s" not in exact:  # measured before there were intervals
            continue
        ratio = of_ratio(exact["each_s"], aggregate["each_s"])
        yield _claim(f"{utility}: standard MBR costs more than {MANY} times what aggregation does",
                     paper.cost(utility), "{} times, on {}".format(with_interval(
                         exact["utility_s"] / aggregate["utility_s"], ratio, ".1f"),
                         time["machine"]["name"]),
                     exceeds(ratio, MANY), len(exact["each_s"]))


def _tests(results: Results, utility: str, method: str) -> list[Row]:
    """Of all segments with the most samples, by judges that are not the utility."""
    most = max(results.settings.samples)
    return [row for row in results.quality if (row["utility"], row["method"], row["samples"],
            row["dataset"]) == (utility, method, most, AVERAGE) and row["judge"] != utility]


def _reversed(row: Row) -> Row:
    """The difference of standard MBR from the method, rather than that of the method from it."""
    return row | {"difference": -row["difference"], "difference_low": -row["difference_high"],
                  "difference_high": -row["difference_low"]}


def _at(results: Results, utility: str, curve: str, effective: int, field: str = "among") -> Found:
    return {place[1]: [getattr(one, field) for one in found]
            for place, found in results.outcomes.items()
            if (place[0], *place[2:]) == (utility, curve, effective)}


def _joined(found: Found) -> list[bool]:
    return [right for own in found.values() for right in own]


def _paired(found: Found, rivals: Found) -> tuple[list[bool], list[bool]]:
    """On the segments of both, which are the first of each dataset."""
    both = [pair for name in found if name in rivals
            for pair in zip(found[name], rivals[name], strict=False)]
    return [own for own, _ in both], [rival for _, rival in both]


def _share(found: Sequence[bool]) -> str:
    return with_interval(fmean(found), of_share(found))


def _difference(found: Sequence[bool], rivals: Sequence[bool]) -> str:
    return with_interval(fmean(found) - fmean(rivals), of_difference(found, rivals))


def _each(found: Found) -> str:
    return ", ".join(f"{fmean(own):.3f} ({name})" for name, own in found.items())
