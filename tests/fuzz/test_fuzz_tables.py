"""Whatever types the columns of a Parquet file have, and whatever became of its bytes."""

from __future__ import annotations

import io
import json

import numpy as np
import pytest
from hypothesis import strategies as st

from fuzzing import fuzz, mutated
from minrisk.io.prompts import PromptReader
from minrisk.io.segments import SampleReader
from records import check_ids, files, parse, read

pyarrow = pytest.importorskip("pyarrow", reason="needs the extra minrisk[parquet]")
parquet = pytest.importorskip("pyarrow.parquet")

ARROW = {  # types of columns, and values that they hold
    "string": (pyarrow.string(), st.text(max_size=3)),
    "binary": (pyarrow.binary(), st.binary(max_size=3)),
    "dictionary": (pyarrow.dictionary(pyarrow.int8(), pyarrow.string()), st.sampled_from("ab")),
    "integer": (pyarrow.int64(), st.integers(-2, 3)),
    "unsigned": (pyarrow.uint64(), st.integers(0, 2**64 - 1)),
    "float": (pyarrow.float64(), st.floats()),
    "half": (pyarrow.float16(), st.sampled_from([0.5, -1.0]).map(np.float16)),
    "bool": (pyarrow.bool_(), st.booleans()),
    "null": (pyarrow.null(), st.none()),
    "decimal": (pyarrow.decimal128(5, 2), st.decimals(-9, 9, places=2)),
    "date": (pyarrow.date32(), st.dates()),
    "days": (pyarrow.date32(), st.integers(-2**31, 2**31 - 1)),
    "time": (pyarrow.time64("ns"), st.integers(0, 10**13)),
    "seconds": (pyarrow.timestamp("s", "UTC"), st.integers(-2**40, 2**40)),
    "nanoseconds": (pyarrow.timestamp("ns"), st.integers(-2**63 + 1, 2**63 - 1)),
    "duration": (pyarrow.duration("s"), st.integers(-2**40, 2**40)),
}


@st.composite
def columns(draw: st.DrawFn, rows: int) -> pyarrow.Array:
    """A column of any type: plain, of lists, of structures, of maps, or of lists of these."""
    kind, values = ARROW[draw(st.sampled_from(sorted(ARROW)))]
    for _ in range(draw(st.integers(0, 2))):
        kind, values = draw(st.sampled_from([
            (pyarrow.list_(kind), st.lists(values | st.none(), max_size=3)),
            (pyarrow.list_(kind), st.lists(values | st.none(), max_size=3)),
            (pyarrow.struct([("a", kind)]), st.fixed_dictionaries({"a": values | st.none()})),
            (pyarrow.map_(pyarrow.string(), kind),
             st.lists(st.tuples(st.sampled_from("kl"), values | st.none()), max_size=2)),
        ]))
    found = draw(st.lists(values | st.none(), min_size=rows, max_size=rows))
    return pyarrow.array(found, kind)


@st.composite
def tables(draw: st.DrawFn) -> bytes:
    rows = draw(st.integers(0, 3))
    names = draw(st.lists(st.sampled_from(["id", "source", "samples", "counts", "weights", "prompt",
                                           "references", "messages", "extra", ""]), min_size=1))
    texts = pyarrow.array([["one two", "one too"]] * rows, pyarrow.list_(pyarrow.string()))
    made = [texts if name == "samples" and draw(st.booleans()) else draw(columns(rows))
            for name in names]
    stream = io.BytesIO()
    parquet.write_table(pyarrow.table(made, names), stream, compression=draw(st.sampled_from(
        ["none", "snappy", "zstd"])))
    return draw(mutated(st.just(stream.getvalue())) if draw(st.booleans())
                else st.just(stream.getvalue()))


@fuzz(content=tables(), reader=st.sampled_from([SampleReader, PromptReader]))
def test_tables_are_records_or_errors(content, reader, tmp_path):
    path = tmp_path / "in.parquet"
    path.write_bytes(content)
    made = reader(files(path))
    raws, _ = read(made)
    assert [(raw.index, raw.line) for raw in raws] == [(n, n + 1) for n in range(len(raws))]
    records = parse(made, raws)
    check_ids(records)
    for record in records:
        assert (record.segment is None and record.prompt is None) == (record.error is not None)
        assert "b'" not in json.dumps(dict(record.fields))  # a value of Python's
