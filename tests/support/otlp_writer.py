"""Writes OpenTelemetry's MetricsData, field by field, for tests of what reads it."""

import struct

GAUGE, SUM, HISTOGRAM = 5, 7, 9
DELTA, CUMULATIVE = 1, 2


def varint(value: int) -> bytes:
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    found.append(value)
    return bytes(found)


def part(number: int, data: bytes | str) -> bytes:
    """Return a field with a length."""
    raw = data.encode() if isinstance(data, str) else data
    return varint(number << 3 | 2) + varint(len(raw)) + raw


def number_field(number: int, value: int) -> bytes:
    return varint(number << 3) + varint(value)


def fixed(number: int, value: float) -> bytes:
    """Return a float as a double, an integer as an sfixed64."""
    kind = "<d" if isinstance(value, float) else "<q"
    return varint(number << 3 | 1) + struct.pack(kind, value)


def attribute(name: str, value: str) -> bytes:
    return part(1, name) + part(2, part(1, value))


def point(value: float, **labels: str) -> bytes:
    found = fixed(3, 7) + fixed(4 if isinstance(value, float) else 6, value)
    return found + b"".join(part(7, attribute(*label)) for label in labels.items())


def gauge(name: str, *points: bytes) -> bytes:
    return part(1, name) + part(GAUGE, b"".join(part(1, one) for one in points))


def total(name: str, *points: bytes, temporality: int = DELTA, is_monotonic: bool = True) -> bytes:
    data = b"".join(part(1, one) for one in points)
    data += number_field(2, temporality) + number_field(3, is_monotonic)
    return part(1, name) + part(SUM, data)


def pushed(*metrics: bytes, **resource: str) -> bytes:
    """Return a push with these metrics."""
    attributes = b"".join(part(1, attribute(*one)) for one in resource.items())
    scope = b"".join(part(2, metric) for metric in metrics)
    return part(1, part(1, attributes) + part(2, part(1, part(1, "s")) + scope))
