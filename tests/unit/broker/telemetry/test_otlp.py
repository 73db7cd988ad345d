"""OTLP: what is read, what is refused, and that no push costs more than its bound."""

import math
import random
from itertools import chain

import pytest

from broker.telemetry import otlp
from broker.telemetry.otlp import MalformedMetricsError, OtlpReader, Point
from tests.support.otlp_writer import (
    CUMULATIVE,
    HISTOGRAM,
    attribute,
    fixed,
    gauge,
    number_field,
    part,
    point,
    pushed,
    total,
    varint,
)


def read(data: bytes) -> OtlpReader:
    reader = OtlpReader(data)
    for _ in reader.read():
        pass
    return reader


def test_gauges_and_sums_are_read() -> None:
    reader = read(
        pushed(
            gauge("g", point(1.5, topic="t"), point(-3)),
            total("c", point(4)),
            total("d", point(2.5), temporality=CUMULATIVE, is_monotonic=False),
            group_id="g1",
        )
    )
    assert reader.points == [
        Point("g", (("topic", "t"),), 1.5, is_delta=False, is_counter=False),
        Point("g", (), -3, is_delta=False, is_counter=False),
        Point("c", (), 4, is_delta=True, is_counter=True),
        Point("d", (), 2.5, is_delta=False, is_counter=False),
    ]
    assert reader.resource == {"group_id": "g1"}
    assert not reader.is_cut


def test_numbers_that_are_not_finite_are_read() -> None:
    values = [
        one.value for one in read(pushed(gauge("g", point(math.inf), point(math.nan)))).points
    ]
    assert values[0] == math.inf
    assert math.isnan(values[1])


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (part(1, "é"), "é"),
        (number_field(2, 1), "true"),
        (number_field(3, 5), "5"),
        (number_field(3, (1 << 64) - 1), "-1"),
        (fixed(4, 1.5), "1.5"),
        (part(7, b"\xff"), ""),
        (b"", ""),
    ],
)
def test_values_of_attributes_become_text(value: bytes, text: str) -> None:
    one = fixed(4, 0.0) + part(7, part(1, "a") + part(2, value))
    assert read(pushed(gauge("g", one))).points[0].labels == (("a", text),)


def test_what_is_not_known_is_skipped() -> None:
    histogram = part(1, "h") + part(HISTOGRAM, part(1, b"\xff\xff"))
    replaced = gauge("g", point(1)) + part(HISTOGRAM, b"")
    without = gauge("g", number_field(8, 1))
    unknown = number_field(99, 7) + varint(98 << 3 | 5) + b"1234" + part(97, "x")
    reader = read(unknown + pushed(histogram, replaced, without, gauge("g", point(1)) + unknown))
    assert [one.value for one in reader.points] == [1]


DAMAGED = {
    "a length behind the end": part(1, b"x" * 9)[:-1],
    "a length that does not end": b"\x0a" + b"\xff" * 11,
    "a tag that does not end": b"\xff",
    "field number 0": b"\x00\x00",
    "a group": b"\x0b",
    "a wire type of none": b"\x0f",
    "a double cut short": pushed(gauge("g", fixed(4, 1.0)[:-1])),
    "a name that is not UTF-8": pushed(part(1, b"\xff") + part(5, part(1, point(1)))),
    "a label that is not UTF-8": pushed(gauge("g", part(7, part(1, b"\xff")))),
    "an inner length behind the end": part(1, part(2, b"\x12\x7f")),
}


@pytest.mark.parametrize("name", DAMAGED)
def test_damage_is_refused(name: str) -> None:
    with pytest.raises(MalformedMetricsError):
        read(DAMAGED[name])


def test_a_push_cut_anywhere_is_refused_or_ends_between_two_fields() -> None:
    whole = pushed(gauge("g", point(1.5, topic="t")), total("c", point(4)), client="c")
    refused = 0
    for end in range(1, len(whole)):
        with pytest.raises(MalformedMetricsError):
            read(whole[:end])
        refused += 1
    assert refused == len(whole) - 1


def test_any_bytes_are_read_or_refused() -> None:
    rng = random.Random(7)
    whole = bytearray(pushed(gauge("g", point(1.5, topic="t")), total("c", point(4)), client="c"))
    outcomes = set()
    for _ in range(3_000):
        damaged = bytearray(whole)
        for _ in range(rng.randint(1, 4)):
            damaged[rng.randrange(len(damaged))] = rng.randrange(256)
        try:
            read(bytes(damaged))
            outcomes.add("read")
        except MalformedMetricsError:
            outcomes.add("refused")
    assert outcomes == {"read", "refused"}


TREE = part(7, part(2, number_field(2, 1) * 60) * 60) * 60  # attributes of values of fields
BOMBS = {
    "a point of 216,000 fields": pushed(gauge("g", TREE)),
    "a resource of 216,000 fields": part(1, part(1, TREE.replace(b"\x3a", b"\x0a"))),
    "a million points": pushed(gauge("g", *[b""] * 500_000)),
    "a million metrics": pushed(*[b""] * 500_000),
    "a million resources": part(1, b"") * 500_000,
    "a million scopes": part(1, part(2, b"") * 500_000),
    "a million attributes": pushed(gauge("g", part(7, b"") * 500_000)),
    "a million attributes of a resource": part(1, part(1, part(1, b"") * 500_000)),
    "a million names": pushed(part(1, "") * 500_000),
    "a million series": pushed(gauge("g", *[point(1, a=str(n)) for n in range(100_000)])),
}


@pytest.mark.parametrize("name", BOMBS)
def test_no_push_is_read_beyond_the_bound(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Counted in fields, the steps are short and their sum is bounded; the rest is left out."""
    monkeypatch.setattr(otlp, "FIELDS_MAX", 10_000)
    reader = OtlpReader(BOMBS[name])
    before, longest = 0, 0
    for _ in chain(reader.read(), ("the end",)):
        longest = max(longest, reader._fields_read - before)
        before = reader._fields_read
    assert reader.is_cut
    assert reader._fields_read <= otlp.FIELDS_MAX + 2 * otlp.LEAF_FIELDS_MAX
    assert longest <= otlp.FIELDS_A_STEP + 2 * otlp.TREE_FIELDS_MAX


@pytest.mark.parametrize("shift", range(7))
def test_steps_end_whatever_the_number_of_fields_is(shift: int) -> None:
    """Metrics of ten fields each pass over any one number of fields."""
    metrics = [gauge("g", point(1, a="b"))] * 2_000
    reader = OtlpReader(part(1, part(2, part(3, "x") * shift + b"".join(map(metric, metrics)))))
    before, longest = 0, 0
    for _ in reader.read():
        longest = max(longest, reader._fields_read - before)
        before = reader._fields_read
    assert longest <= otlp.FIELDS_A_STEP + 2 * otlp.LEAF_FIELDS_MAX
    assert len(reader.points) == otlp.POINTS_MAX


def metric(content: bytes) -> bytes:
    return part(2, content)


def test_nesting_is_that_of_the_format() -> None:
    deep = b""
    for _ in range(5_000):
        deep = part(5, part(1, deep))  # arrays in arrays, which are not read
    reader = read(pushed(gauge("g", fixed(4, 1.0) + part(7, part(1, "a") + part(2, deep)))))
    assert reader.points[0].labels == (("a", ""),)


def test_names_and_labels_are_bounded() -> None:
    labels = {f"label{n}": "v" * 1_000 for n in range(40)}
    (found,) = read(pushed(gauge("n" * 1_000, point(1, **labels)))).points
    assert len(found.name) == otlp.NAME_MAX
    assert len(found.labels) == otlp.ATTRIBUTES_MAX
    assert all(len(value) == otlp.NAME_MAX for _, value in found.labels)
    twice = fixed(4, 1.0) + part(7, attribute("a", "1")) + part(7, attribute("a", "2"))
    assert read(pushed(gauge("g", twice))).points[0].labels == (("a", "1"),)
