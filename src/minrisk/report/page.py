"""From records to views, and to a self-contained HTML file of template, scripts and data.

Text from samples cannot inject markup: it is embedded as base64, and the scripts only make text
nodes of it. The Content-Security-Policy allows only the scripts of this folder, by their hash, and
no network requests.
"""

from __future__ import annotations

import json
import os
import tempfile
import zlib
from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from html import escape
from importlib.resources import files
from typing import IO, Any, Self

from minrisk._core.batch import Batch
from minrisk._core.errors import InputError, Wording
from minrisk._core.metric import AnyMetric
from minrisk._core.strategy import averages_scores, compares_texts
from minrisk.evaluation.metric_bias import Origin
from minrisk.io.records import Record
from minrisk.io.writers import Writer
from minrisk.report.records import PageRecord, as_recorded
from minrisk.report.systems import Systems
from minrisk.report.views import View, failed_row
from minrisk.run.stages import Decode
from minrisk.strategies.confident import Confident

SCRIPTS = ("data.js", "state.js", "dom.js", "charts.js", "list.js", "segment.js", "corpus.js",
           "main.js")
WORDS = {  # what the page calls a record, the whole set, and the input of the model
    "segment": {"unit": "segment", "units": "segments", "all": "corpus", "input": "source",
                "run": "The run"},
    "request": {"unit": "request", "units": "requests", "all": "summary", "input": "prompt",
                "run": "The last requests"},
}
LARGE = 50 * 10**6  # bytes from which a browser needs seconds to open a page
_PART = 1 << 18  # bytes of details decompressed together, in a few milliseconds
_CHUNK = 1 << 20  # bytes read per call
_ROW = ("id", "source", "text", "count", "utility", "margin", "confidence", "entropy", "largest",
        "mean", "clusters", "distinct", "samples", "truncated", "answer", "unanswered", "request",
        "error")


@dataclass(frozen=True)
class BuildViews(Decode):
    """Decodes segments, and builds their views."""

    view: View = field(kw_only=True)

    def _rank(self, batch: Sequence[Record]) -> Sequence[Record]:
        segments = Batch(found for record in batch if (found := record.segment) is not None)
        compares = compares_texts(self.strategy)
        strategy = (Confident(self.strategy, seed=self.view.seed) if compares else self.strategy)
        rankings = [as_recorded(ranking, record.fields)
                    for record, ranking in zip(batch, strategy.rank(segments), strict=True)]
        return [record.extended(PageRecord, ranking=ranking,
                                view=self.view.segment(record, ranking, pool, compares,
                                                       averages_scores(self.strategy)))
                for record, ranking, pool
                in zip(batch, rankings, segments.pools(self.strategy.metric), strict=True)]


@dataclass(frozen=True)
class ViewWriter(Writer):
    """Writes a line per segment: the row of the list, a tab, and the details, both as JSON."""

    def __call__(self, record: Record) -> str:
        assert isinstance(record, PageRecord)
        assert record.view is not None
        row, details = record.view
        return f"{compact_json(row)}\t{compact_json(details)}\n"

    def failed(self, record: Record) -> str:
        return f"{compact_json(failed_row(record))}\t{{}}\n"

    def counts(self, record: Record) -> Mapping[str, int]:
        return {"pairs": record.ranking.pairs if record.ranking else 0}


def compact_json(value: Any) -> str:
    """JSON on one line, without a literal tab."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


class PageBuilder:
    """Collects the lines of `ViewWriter` in order: rows in memory, details on disk."""

    def __init__(self) -> None:
        self.columns: dict[str, list[Any]] = {name: [] for name in _ROW}
        self.systems = Systems()
        self.biased: dict[str, list[str]] = {}  # from `Systems.compared`, set by `chunks`
        self._waiting: list[str] = []
        self._size = 0
        self._parts: list[int] = []  # number of the first segment of each part
        self._file: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the builder

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def write(self, line: str) -> None:
        row, details = line.rstrip("\n").split("\t")
        fields: dict[str, Any] = json.loads(row)
        self.systems.add(fields)
        for name, column in self.columns.items():
            column.append(fields.get(name))
        if not self._waiting:
            self._parts.append(self.systems.segments - 1)
        self._waiting.append(details)
        self._size += len(details)
        if self._size >= _PART:
            self._flush()

    def chunks(self, metric: AnyMetric, origins: Mapping[str, Origin | None],
               **facts: Any) -> Iterator[bytes]:
        """The bytes of the page, in pieces."""
        if self._waiting:
            self._flush()
        systems = self.systems.compared(metric, origins)
        self.biased = systems["biased"]
        requests = self.columns["request"]
        words = WORDS["request" if requests and None not in requests else facts["unit"]]
        index = compact_json({**facts, "metric": metric.name, "is_error": metric.is_error,
                              "words": words, "columns": self.columns, "parts": self._parts,
                              "systems": systems})
        head, end = _template(str(facts["title"]), words, _element("index", index))
        yield head
        self._file.seek(0)
        while piece := self._file.read(_CHUNK):
            yield piece
        yield end

    def _flush(self) -> None:
        part = _element(f"part-{len(self._parts) - 1}", f"[{','.join(self._waiting)}]")
        self._file.write(part)
        self._waiting, self._size = [], 0


def policy(style: str, script: str) -> str:
    """The Content-Security-Policy of a page with this style and script."""
    return (f"default-src 'none'; script-src {_hash(script)}; style-src {_hash(style)}; "
            "img-src data:; base-uri 'none'; form-action 'none'")


def _hash(text: str) -> str:
    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"


def _template(title: str, words: Mapping[str, str], index: bytes) -> tuple[bytes, bytes]:
    """The page before the details, and after them."""
    style = asset("style.css")
    script = "(() => {\n'use strict';\n" + "\n".join(map(asset, SCRIPTS)) + "})();\n"
    values = {"POLICY": policy(style, script), "STYLE": style, "SCRIPT": script,
              "TITLE": escaped(title)}
    for name, word in words.items():
        values |= {name: word, name.capitalize(): word.capitalize()}
    head, end = _filled(asset("page.html"), values).encode().split(b"%DETAILS%")
    return head.replace(b"%INDEX%", index), end


def _filled(template: str, values: Mapping[str, str]) -> str:
    for name, value in values.items():
        template = template.replace(f"%{name}%", value)
    return template


def escaped(text: str) -> str:
    """The text, escaped for HTML and for the placeholders of the template."""
    return escape(text.encode("utf-8", "replace").decode()).replace("%", "&#37;")


def asset(name: str) -> str:
    return (files("minrisk.report") / "assets" / name).read_text(encoding="utf-8")


def _element(name: str, content: str) -> bytes:
    """An element with data, compressed by zlib, that a script finds by its name."""
    # lone surrogates, which UTF-8 cannot encode, become JSON escapes
    data = zlib.compress(content.encode("utf-8", "backslashreplace"))
    return b'<script type="text/plain" id="%s">%s</script>\n' % (name.encode(), b64encode(data))


def check_target(path: str) -> None:
    if path in ("", "-") or path.endswith("/") or os.path.isdir(path):
        raise InputError(Wording("output= must be a file name; got {path!r}", path=path))
