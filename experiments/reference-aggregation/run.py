"""The paper, reproduced: every table and figure from one configuration file.

usage: python experiments/reference-aggregation/run.py CONFIG [--work FOLDER] [--output FOLDER]
           [--processes N]

It goes on where it stopped: samples, beams, embeddings and every decoded segment are kept in the
work folder.
"""

from __future__ import annotations

import argparse
import json
import sys
import warnings
from pathlib import Path

from claims import claims
from decoding import Decoded, decode
from figures import draw
from material import Material, material
from page import write_page
from results import (
    Results,
    accuracy_rows,
    beam_rows,
    more_rows,
    outcomes,
    quality_rows,
    statistics_row,
)
from resumable import say
from settings import Settings, Utility

from minrisk import MinriskError

HERE = Path(__file__).parent


def main(arguments: list[str] | None = None) -> int:
    given = _parse(arguments)
    # a metric warns of all pairs on a CPU, which are what this is about
    warnings.filterwarnings("ignore", "the .* pairs of a segment take about")
    try:
        settings = Settings.read(given.config, given.work, given.limit)
        output = given.output or HERE / "results" / settings.name
        reproduce(settings, given.work, output, given.processes)
    except MinriskError as error:
        say(f"run.py: error: {error}")
        return 2
    return 0


def reproduce(settings: Settings, work: Path, output: Path, processes: int = 1) -> None:
    materials = {name: material(settings.dataset(name), settings, work)
                 for name in dict.fromkeys([*settings.validation, *settings.test])}
    results = Results(settings)
    results.statistics += [statistics_row(own) for own in materials.values()]
    for utility in settings.utilities:
        _decode(utility, materials, settings, work, results, processes)
    results.beams += beam_rows([materials[name] for name in settings.test], settings)
    times = {path.stem: json.loads(path.read_text(encoding="utf-8"))
             for path in sorted(output.glob("time-*.json"))}
    results.claims += claims(results, times)
    results.write(output)
    draw(results.accuracy, settings.top, output)
    write_page(results, times, output)
    say(f"wrote {output}")


def _decode(utility: Utility, materials: dict[str, Material], settings: Settings, work: Path,
            results: Results, processes: int) -> None:
    most = max(settings.samples)
    found: dict[int, list[Decoded]] = {}
    for name, own in materials.items():
        for count in settings.samples if name in settings.test else [most]:
            has_curves = name in settings.validation and count == most
            decoded = decode(utility, own.first(utility.limit), count, settings, work, has_curves,
                             processes)
            if has_curves:
                results.outcomes |= (points := dict(outcomes(decoded)))
                results.accuracy += accuracy_rows(points, count, settings.top,
                                                  decoded.machine)
            if name in settings.test:
                found.setdefault(count, []).append(decoded)
    for decoded_sets in found.values():
        results.quality += quality_rows(decoded_sets, settings)
    for count in settings.samples:
        if count != most and most in found:
            results.more_samples += more_rows(found[most], found[count], settings)


def _parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("config", type=Path, help="here.yaml, paper.yaml, or one of your own")
    parser.add_argument("--work", type=Path, default=Path("build/reference-aggregation"),
                        help="folder for what is kept between runs")
    parser.add_argument("--output", type=Path, help="folder of the results; beside this program")
    parser.add_argument("--processes", type=int, default=1, metavar="N",
                        help="that decode segments side by side, on one GPU too")
    parser.add_argument("--limit", type=int, help="only so many segments of each dataset")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
