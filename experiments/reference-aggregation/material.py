"""The texts of a dataset: sources, references, samples and beams, generated if they are missing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from resumable import Fields, resume
from settings import Dataset, Settings

from minrisk import InputError
from minrisk._core.signature import signature
from minrisk.io.files import Input
from minrisk.io.segments import parse
from minrisk.samplers.hf import Transformers

_AT_ONCE = 8  # sources that are searched or sampled together, and lost together by a kill


@dataclass(frozen=True)
class Item:
    """A sentence to translate."""

    id: Any
    source: str
    reference: str | None


@dataclass(frozen=True)
class Material:
    """All texts of a dataset."""

    name: str
    items: list[Item]
    samples: list[list[str]]  # of each item, in the order drawn
    beams: dict[int, list[str]]  # by their number: the best of them, for some of the items

    def first(self, count: int | None) -> Material:
        """Only so many of its segments."""
        return replace(self, items=self.items[:count], samples=self.samples[:count],
                       beams={size: texts[:count] for size, texts in self.beams.items()})

    @property
    def sources(self) -> list[str]:
        return [item.source for item in self.items]

    @property
    def references(self) -> list[str]:
        found = [item.reference for item in self.items if item.reference is not None]
        if len(found) < len(self.items):
            raise InputError(f"dataset {self.name!r} has segments without a reference, and is for "
                             "validation only; name the others under `test`")
        return found


def material(dataset: Dataset, settings: Settings, work: Path) -> Material:
    records = _records(dataset, settings.limit)
    items = [Item(record.get("id", i), record["source"], record.get("reference"))
             for i, record in enumerate(records)]
    folder = work / dataset.name
    given = [_samples(record, i, settings.seed) for i, record in enumerate(records)
             if "samples" in record]
    beams = {size: [record[f"beam{size}"] for record in records if f"beam{size}" in record]
             or _searched(dataset, items[:limit], size, folder)
             for size, limit in settings.searches if dataset.name in settings.test}
    return Material(dataset.name, items, given or _drawn(dataset, items, settings, folder),
                    {size: texts for size, texts in beams.items() if texts})


def _records(dataset: Dataset, limit: int | None) -> list[Fields]:
    records = (_given(dataset) if dataset.samples else _texts(dataset))[:limit]
    if not records or any("source" not in record for record in records):
        raise InputError(f"dataset {dataset.name!r}: every segment needs a source")
    return records


def _given(dataset: Dataset) -> list[Fields]:
    source = Input(str(dataset.samples))
    return [parse(source.text(line), "name it as source and reference") for line in source]


def _texts(dataset: Dataset) -> list[Fields]:
    if not dataset.sacrebleu and not dataset.source:
        raise InputError(f"dataset {dataset.name!r} has neither samples, nor a source, nor a test "
                         "set of sacrebleu")
    if not dataset.sacrebleu and not dataset.reference:
        return [{"source": source} for source in _sources(str(dataset.source))]
    sources, references = (_test_set(*dataset.sacrebleu.split("/")) if dataset.sacrebleu
                           else (_file(str(dataset.source)), _file(str(dataset.reference))))
    if len(sources) != len(references):
        raise InputError(f"dataset {dataset.name!r} has {len(sources)} sources and "
                         f"{len(references)} references; check that they belong together")
    return [{"source": source, "reference": reference}
            for source, reference in zip(sources, references, strict=True)]


def _sources(path: str) -> list[str]:
    """A sentence a line, or the sources of JSON lines, each once."""
    if ".jsonl" not in Path(path).suffixes:
        return _file(path)
    lines = Input(path)
    return list(dict.fromkeys(parse(lines.text(line), "name it as source")["source"]
                              for line in lines))


def _test_set(name: str, pair: str) -> tuple[list[str], list[str]]:
    """Sources and first references; sacreBLEU fetches them once."""
    import sacrebleu

    return _file(sacrebleu.get_source_file(name, pair)), _file(
        sacrebleu.get_reference_files(name, pair)[0])


def _file(path: str) -> list[str]:
    lines = Input(path)
    return [lines.text(line) for line in lines]


def _samples(record: Fields, index: int, seed: int) -> list[str]:
    """One by one; those that come with counts in random order, so that the first are any."""
    if "counts" not in record:
        return list(record["samples"])
    each = np.repeat(np.array(record["samples"], dtype=object), record["counts"])
    return list(np.random.default_rng([seed, index]).permutation(each))


def _drawn(dataset: Dataset, items: Sequence[Item], settings: Settings,
           folder: Path) -> list[list[str]]:
    sampler = _sampler(dataset, epsilon=settings.epsilon)
    count = max(settings.samples)

    def draw(left: Sequence[Item]) -> Iterator[Fields]:
        for some, places in _batches(left, len(items)):
            for own in sampler.sample([item.source for item in some], count, settings.seed, places):
                yield {"samples": [one.text for one in own], "counts": [one.count for one in own]}

    made = signature(sampler, "sampler", n=count, seed=settings.seed)
    records = resume(folder / "samples.jsonl", made, items, draw).results
    return [_samples(record, i, settings.seed) for i, record in enumerate(records)]


def _searched(dataset: Dataset, items: Sequence[Item], beams: int, folder: Path) -> list[str]:
    """The best of so many beams for each item; none where there is no model."""
    if not dataset.model:
        return []
    sampler = _sampler(dataset, beams=beams)

    def search(left: Sequence[Item]) -> Iterator[Fields]:
        for some, places in _batches(left, len(items)):
            for [own] in sampler.sample([item.source for item in some], 1, indices=places):
                yield {"text": own.text}

    found = resume(folder / f"beam-{beams}.jsonl", signature(sampler, "sampler"), items, search)
    return [record["text"] for record in found.results]


def _sampler(dataset: Dataset, **options: Any) -> Transformers:
    if not dataset.model:
        raise InputError(f"dataset {dataset.name!r} has no samples; name the model to draw them")
    return Transformers(model=dataset.model, **dict(dataset.sampler) | options)


def _batches(left: Sequence[Item], total: int) -> Iterator[tuple[Sequence[Item], range]]:
    """Some of the items that are left, and their places among all."""
    for start in range(0, len(left), _AT_ONCE):
        some = left[start : start + _AT_ONCE]
        first = total - len(left) + start
        yield some, range(first, first + len(some))
