"""The digest of a task's rows: equal for the same rows, however they are cut, and for no others."""

from __future__ import annotations

import random
from itertools import pairwise

import pyarrow as pa
import pytest
from test_outbox import HEADERS

from pyspark_barnabas.sink.rows_digest import RowsDigest

ROWS = [
    (b"k%d" % n if n % 3 else None, b"v" * (n % 7) if n % 5 else None,
     [{"key": "h", "value": b"x" if n % 2 else None}] * (n % 3))
    for n in range(60)
]  # fmt: skip


def digest(rows, cuts=(), topic="t"):
    made = RowsDigest()
    keys, values, headers = zip(*rows, strict=True)
    columns = {
        "key": pa.array(keys, pa.binary()),
        "value": pa.array(values, pa.binary()),
        "headers": pa.array(headers, HEADERS),
    }
    edges = [0, *cuts, len(rows)]
    for start, end in pairwise(edges):
        made.add(topic, **{name: column[start:end] for name, column in columns.items()})
    return made.value()


def test_it_does_not_matter_how_the_rows_are_cut_into_tables():
    dice = random.Random(1)
    wanted = digest(ROWS)
    for _ in range(50):
        assert digest(ROWS, sorted(dice.choices(range(len(ROWS) + 1), k=4))) == wanted


KEY, VALUE = b"k", b"v"
NAMED, EMPTY, NULL = ([{"key": "h", "value": value}] for value in (b"x", b"", None))


@pytest.mark.parametrize(
    ("rows", "others"),
    [
        ([(b"a", b"b", []), (b"c", b"d", [])], [(b"c", b"d", []), (b"a", b"b", [])]),
        ([(b"ab", b"c", [])], [(b"a", b"bc", [])]),
        ([(KEY, b"ab", []), (KEY, b"c", [])], [(KEY, b"a", []), (KEY, b"bc", [])]),
        ([(None, VALUE, [])], [(b"", VALUE, [])]),
        ([(KEY, None, [])], [(KEY, b"", [])]),
        ([(KEY, VALUE, [])] * 2, [(KEY, VALUE, [])]),
        ([(KEY, VALUE, NAMED)], [(KEY, VALUE, [])]),
        ([(KEY, VALUE, NAMED), (KEY, VALUE, [])], [(KEY, VALUE, []), (KEY, VALUE, NAMED)]),
        ([(KEY, VALUE, NAMED)], [(KEY, VALUE, NULL)]),
        ([(KEY, VALUE, EMPTY)], [(KEY, VALUE, NULL)]),
        ([(KEY, VALUE, [{"key": "hx", "value": b""}])], [(KEY, VALUE, NAMED)]),
    ],
)  # fmt: skip
def test_other_rows_have_another(rows, others):
    assert digest(rows) != digest(others)


def test_null_headers_are_no_headers_as_in_the_record():
    assert digest([(KEY, VALUE, None)]) == digest([(KEY, VALUE, [])])


def test_topics_are_told_apart_and_their_order_does_not_matter():
    assert digest(ROWS, topic="t") != digest(ROWS, topic="u")
    column = pa.array([VALUE], pa.binary())
    one, other = RowsDigest(), RowsDigest()
    for made, topics in ((one, "tu"), (other, "ut")):
        for topic in topics:
            made.add(topic, value=column)
    assert one.value() == other.value()


def test_bytes_below_a_null_do_not_count():
    offsets = pa.py_buffer(b"\0\0\0\0\1\0\0\0\3\0\0\0")
    column = pa.Array.from_buffers(
        pa.binary(), 2, [pa.py_buffer(b"\1"), offsets, pa.py_buffer(b"abc")]
    )
    assert column.to_pylist() == [b"a", None]
    one, other = RowsDigest(), RowsDigest()
    one.add("t", value=column)
    other.add("t", value=pa.array([b"a", None], pa.binary()))
    assert one.value() == other.value()


def test_all_null_and_no_rows():
    made, empty = RowsDigest(), RowsDigest()
    made.add("t", key=pa.nulls(3, pa.binary()))
    empty.add("t", key=pa.nulls(0, pa.binary()))
    assert made.value() != empty.value()
