"""The settings of a configuration file: datasets, utilities, judges and sizes."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Self

from minrisk import InputError
from minrisk._core.errors import unknown
from minrisk._core.metric import AnyMetric
from minrisk._core.registry import METRICS

Named = str | Mapping[str, Any]  # a metric by its name, or with options


@dataclass(frozen=True)
class Dataset:
    """Sources and the samples of a model, or the model itself; for tests with references."""

    name: str
    samples: str | None = None  # JSON lines with source, reference and samples
    source: str | None = None  # a sentence a line, or JSON lines with sources
    reference: str | None = None
    sacrebleu: str | None = None  # a test set and a language pair of sacreBLEU: wmt22/en-de
    model: str | None = None  # for beams, and for samples where there are none
    sampler: Mapping[str, Any] = field(default_factory=dict)  # further options of sampling


@dataclass(frozen=True)
class Utility:
    """A metric to decode by."""

    name: str
    metric: AnyMetric
    expected: AnyMetric | None = None  # the same metric, which averages otherwise
    coarse: AnyMetric | None = None  # a cheaper one, as a baseline and as a first stage
    curves: Mapping[str, int] = field(default_factory=dict)  # the most effective references
    limit: int | None = None  # segments of each dataset


@dataclass(frozen=True)
class Settings:
    """The whole experiment."""

    name: str
    datasets: tuple[Dataset, ...]
    utilities: tuple[Utility, ...]
    judges: Mapping[str, AnyMetric]  # the first is that of Table 1
    validation: tuple[str, ...]  # datasets of the figures
    test: tuple[str, ...]  # datasets of the tables
    samples: tuple[int, ...] = (1024, 256)
    effective: tuple[int, ...] = ()  # numbers of references on the curves; n, n/2, ... 1 if none
    keep: int = 20
    top: int = 20
    corrected: int = 16  # references that correct a control variate, where there is one
    beams: tuple[int, ...] = (5, 10, 15, 20, 25)  # the first is that of all tables
    beam_limit: int | None = None  # segments of each dataset for the others
    epsilon: float = 0.02
    limit: int | None = None  # segments of each dataset
    resamples: int = 1000
    seed: int = 0

    @classmethod
    def read(cls, path: Path, work: Path, limit: int | None = None) -> Self:
        found = _loaded(path)
        try:
            return cls._of(found | ({"limit": limit} if limit else {}), work)
        except (KeyError, TypeError) as error:
            raise InputError(f"{path}: {error} is missing or of the wrong kind; "
                             "here.yaml beside this program shows all there is") from None

    @classmethod
    def _of(cls, given: dict[str, Any], work: Path) -> Self:
        _check("setting", given, {f.name for f in fields(cls)})
        datasets = tuple(Dataset(name, **own) for name, own in given.pop("datasets").items())
        names = [one.name for one in datasets]
        return cls(
            datasets=datasets,
            utilities=tuple(_utility(name, own, work)
                            for name, own in given.pop("utilities").items()),
            judges={name: metric(own, work) for name, own in given.pop("judges").items()},
            validation=tuple(given.pop("validation", names)),
            test=tuple(given.pop("test", names)),
            **{key: tuple(value) if isinstance(value, list) else value
               for key, value in given.items()})

    @property
    def searches(self) -> list[tuple[int, int | None]]:
        """Numbers of beams, and how many segments are searched with each."""
        return [(size, self.beam_limit if i else None) for i, size in enumerate(self.beams)]

    def dataset(self, name: str) -> Dataset:
        for one in self.datasets:
            if one.name == name:
                return one
        raise unknown("dataset", name, [one.name for one in self.datasets])


def metric(named: Named, work: Path) -> AnyMetric:
    """By its name; one that can keep embeddings keeps them in the work folder."""
    options = {"name": named} if isinstance(named, str) else dict(named)
    name = options.pop("name")
    if "cache" in {f.name for f in fields(METRICS.recipe(name).cls)}:
        options.setdefault("cache", str(work / "embeddings"))
    made: AnyMetric = METRICS.make(name, **options)
    return made


def _utility(name: str, own: Any, work: Path) -> Utility:
    if isinstance(own, str):
        return Utility(name, metric(own, work))
    _check(f"option of utility {name!r}:", own, {f.name for f in fields(Utility)} - {"name"})
    plain = {key: own[key] for key in ("curves", "limit") if key in own}
    return Utility(name, **plain, **{key: metric(value, work) for key, value in own.items()
                                     if key not in plain})


def _check(kind: str, given: Mapping[str, Any], known: set[str]) -> None:
    for key in given:
        if key not in known:
            raise unknown(kind, key, known)


def _loaded(path: Path) -> dict[str, Any]:
    import yaml

    try:
        text = path.read_text(encoding="utf-8")
        found = yaml.safe_load(re.sub(r"\$\{(\w+)\}", lambda m: _variable(m[1], path), text))
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}") from None
    except yaml.YAMLError as error:
        raise InputError(f"{path}: found invalid YAML: {' '.join(str(error).split())}") from None
    if not isinstance(found, dict):
        raise InputError(f"{path}: found {type(found).__name__}, wanted a mapping of settings")
    return {"name": path.stem} | found


def _variable(name: str, path: Path) -> str:
    if name not in os.environ:
        raise InputError(f"{path} needs the environment variable {name}: "
                         "a folder, as the comment in the file says")
    return os.environ[name]
