"""Reads the MetricsData of OpenTelemetry: the numbers of gauges and sums, and their labels.

    MetricsData ── ResourceMetrics ─┬─ Resource: attributes
                                    └─ ScopeMetrics ── Metric: name ─┬─ Gauge ─┬── NumberDataPoint:
                                                                     └─ Sum ───┘   value, attributes

A message of protobuf is a row of fields: a number, a wire type, a value. This reader knows the
fields above by their numbers and skips all others by their lengths, so its depth is that of the
picture, whatever a client nests. It reads at most `FIELDS_MAX` fields and `POINTS_MAX` points,
leaves out the rest, and yields after each few, so a large push is read in steps. Clients of Kafka
push gauges and sums alone; histograms and summaries are left out.

Decision 0122 says why this is no library.
"""

from __future__ import annotations

import struct
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from typing import Final

FIELDS_MAX: Final = 100_000  # of one push, some 3,000 points
FIELDS_A_STEP: Final = 500
POINTS_A_STEP: Final = 50
POINTS_MAX: Final = 2_000  # of one push, four times what a client may have
LEAF_FIELDS_MAX: Final = 64  # of a metric, a point, an attribute
TREE_FIELDS_MAX: Final = 400  # of a point or a resource with all that is in it
NAME_MAX: Final = 200  # characters of a metric's name, an attribute's name and its value
ATTRIBUTES_MAX: Final = 16  # of a point, and of a resource

VARINT, FIXED64, LENGTH, FIXED32 = 0, 1, 2, 5
GAUGE, SUM = 5, 7  # fields of Metric
DATA: Final = frozenset((5, 7, 9, 10, 11))
_DELTA: Final = 1  # AggregationTemporality
_double = struct.Struct("<d")
_int64 = struct.Struct("<q")

Labels = tuple[tuple[str, str], ...]
Steps = Generator[int, None, None]


class MalformedMetricsError(ValueError):
    """The bytes are no MetricsData."""


@dataclass(frozen=True, slots=True)
class Point:
    """One number; `is_delta` says that it counts since the push before."""

    name: str
    labels: Labels
    value: float
    is_delta: bool
    is_counter: bool  # it never falls


class OtlpReader:
    """Reads one push; its results are complete at the end of `read`."""

    __slots__ = (
        "_data", "_fields_read", "_step_ends", "_tree_ends", "is_cut", "points", "resource",
    )  # fmt: skip

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._fields_read = 0
        self._step_ends = FIELDS_A_STEP
        self._tree_ends = 0
        self.points: list[Point] = []
        self.resource: dict[str, str] = {}
        self.is_cut = False  # there was more than is read

    def read(self) -> Steps:
        """Read everything; yields between steps. Raises MalformedMetricsError."""
        for number, wire, start, end in self._fields(0, len(self._data)):
            if self._is_enough():
                return
            if self._is_step():
                yield 0
            if number == 1 and wire == LENGTH:
                yield from self._resource_metrics(start, end)

    def _resource_metrics(self, start: int, end: int) -> Steps:
        for number, wire, begin, stop in self._fields(start, end):
            if self._is_enough():
                return
            if self._is_step():
                yield 0
            if wire == LENGTH and number == 1:
                self._begin_tree()
                for field, kind, at, until in self._leaf(begin, stop):
                    if field == 1 and kind == LENGTH:
                        self._attribute(at, until, self.resource)
            elif wire == LENGTH and number == 2:
                yield from self._scope_metrics(begin, stop)

    def _scope_metrics(self, start: int, end: int) -> Steps:
        for number, wire, begin, stop in self._fields(start, end):
            if self._is_enough():
                return
            if self._is_step():
                yield 0
            if number == 2 and wire == LENGTH:
                yield from self._metric(begin, stop)

    def _metric(self, start: int, end: int) -> Steps:
        name = ""
        data: tuple[int, int, int] | None = None
        self._begin_tree()
        for number, wire, begin, stop in self._leaf(start, end):
            if wire != LENGTH:
                continue
            if number == 1:
                name = self._text(begin, stop)
            elif number in DATA:
                data = (number, begin, stop)  # of several, the last holds
        if data is not None and data[0] in (GAUGE, SUM):
            yield from self._numbers(name, data[1], data[2], is_sum=data[0] == SUM)

    def _numbers(self, name: str, start: int, end: int, *, is_sum: bool) -> Steps:
        temporality = 0
        is_monotonic = False
        places: list[tuple[int, int]] = []
        for number, wire, begin, stop in self._fields(start, end):
            if self._is_enough():
                break
            if self._is_step():
                yield 0
            if number == 1 and wire == LENGTH:
                places.append((begin, stop))
            elif is_sum and wire == VARINT and number == 2:
                temporality = begin
            elif is_sum and wire == VARINT and number == 3:
                is_monotonic = bool(begin)
        for count, (begin, stop) in enumerate(places):
            if self._is_enough():
                return
            if self._is_step() or count % POINTS_A_STEP == POINTS_A_STEP - 1:
                yield 0
            value, labels = self._point(begin, stop)
            if value is not None:
                is_delta = temporality == _DELTA
                self.points.append(Point(name, labels, value, is_delta, is_monotonic))

    def _point(self, start: int, end: int) -> tuple[float | None, Labels]:
        value: float | None = None
        labels: dict[str, str] = {}
        self._begin_tree()
        for number, wire, begin, stop in self._leaf(start, end):
            if wire == FIXED64 and number == 4:
                value = _double.unpack_from(self._data, begin)[0]
            elif wire == FIXED64 and number == 6:
                value = _int64.unpack_from(self._data, begin)[0]
            elif wire == LENGTH and number == 7:
                self._attribute(begin, stop, labels)
        return value, tuple(labels.items())

    def _attribute(self, start: int, end: int, labels: dict[str, str]) -> None:
        """Add a KeyValue to `labels`, if there is room and the name is new."""
        name = value = ""
        for number, wire, begin, stop in self._leaf(start, end):
            if wire != LENGTH:
                continue
            if number == 1:
                name = self._text(begin, stop)
            elif number == 2:
                value = self._any_value(begin, stop)
        if len(labels) < ATTRIBUTES_MAX:
            labels.setdefault(name, value)

    def _any_value(self, start: int, end: int) -> str:
        value = ""
        for number, wire, begin, stop in self._leaf(start, end):
            if number == 1 and wire == LENGTH:
                value = self._text(begin, stop)
            elif number == 2 and wire == VARINT:
                value = "true" if begin else "false"
            elif number == 3 and wire == VARINT:
                value = str(begin - (1 << 64) if begin >> 63 else begin)
            elif number == 4 and wire == FIXED64:
                value = str(_double.unpack_from(self._data, begin)[0])
        return value

    def _is_step(self) -> bool:
        """Whether so many fields were read that a step ends; the next one then begins."""
        if self._fields_read < self._step_ends:
            return False
        self._step_ends = self._fields_read + FIELDS_A_STEP
        return True

    def _is_enough(self) -> bool:
        """Whether no more is to be read."""
        if self._fields_read > FIELDS_MAX or len(self.points) >= POINTS_MAX:
            self.is_cut = True
        return self.is_cut

    def _begin_tree(self) -> None:
        """Begin to count the fields of a metric, a point or a resource: they are one step."""
        self._tree_ends = self._fields_read + TREE_FIELDS_MAX

    def _leaf(self, start: int, end: int) -> Iterator[tuple[int, int, int, int]]:
        """Yield the fields of a message that has few, as have the messages in it."""
        for count, field in enumerate(self._fields(start, end)):
            if count == LEAF_FIELDS_MAX or self._fields_read > self._tree_ends:
                self.is_cut = True
                return
            yield field

    def _text(self, start: int, end: int) -> str:
        try:
            return self._data[start:end].decode()[:NAME_MAX]
        except UnicodeDecodeError as error:
            raise MalformedMetricsError(f"a string at byte {start} is not UTF-8") from error

    def _fields(self, start: int, end: int) -> Iterator[tuple[int, int, int, int]]:
        """Yield number, wire type, and where the value is; of a varint its value, and its end."""
        at = start
        while at < end:
            tag, at = self._varint(at, end)
            number, wire = tag >> 3, tag & 7
            if not number:
                raise MalformedMetricsError(f"field number 0 at byte {at}")
            if wire == LENGTH:
                length, at = self._varint(at, end)
                stop = at + length
                begin = at
            elif wire == VARINT:
                begin, stop = self._varint(at, end)
            elif wire == FIXED64:
                begin, stop = at, at + 8
            elif wire == FIXED32:
                begin, stop = at, at + 4
            else:
                raise MalformedMetricsError(f"wire type {wire} at byte {at}; expected 0, 1, 2 or 5")
            if stop > end:
                raise MalformedMetricsError(
                    f"a field ends at byte {stop}, behind its message, which ends at {end}"
                )
            self._fields_read += 1
            yield number, wire, begin, stop
            at = stop

    def _varint(self, at: int, end: int) -> tuple[int, int]:
        data = self._data
        value = shift = 0
        while at < end:
            byte = data[at]
            at += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value & 0xFFFF_FFFF_FFFF_FFFF, at
            shift += 7
            if shift > 63:
                break
        raise MalformedMetricsError(f"a number that does not end at byte {at}")
