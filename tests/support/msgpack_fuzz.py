"""Bytes that are nearly msgpack requests: thousands in the suite, millions by hand.

    python -m tests.support.msgpack_fuzz 1000000

feeds that many to the dialect and prints how they ended and how much memory they leaked.
"""

import random
import sys
from collections import Counter
from collections.abc import Iterator
from typing import Any

import msgpack

from broker.handlers import HANDLERS
from protocol.kafka.schema import Array, Fixed, Sized, Struct, read_layout

HEADS = bytes([0x80, 0x8F, 0x90, 0x9F, 0xA0, 0xBF, *range(0xC0, 0xE0)])
SCALARS: list[Any] = [0, 1, -1, 2**31, 2**63 - 1, 2**64 - 1, 0.5, True, None, "", "t", b"", b"u"]
SCALARS += [[], {}, [[]], {"a": 1}, b"u" * 16, msgpack.ExtType(3, b"x")]
RECORDS: list[Any] = [None, b"x" * 70, [{"value": b"v", "headers": [["a", None]]}], [{}], [5]]


def value_of(wire_type: Any, rng: random.Random) -> Any:
    """Return a value that usually fits the wire type."""
    if rng.random() < 0.03:
        return rng.choice(SCALARS)
    match wire_type:
        case Fixed("?"):
            return rng.random() < 0.5
        case Fixed("16s"):
            return rng.randbytes(16)
        case Fixed():
            return rng.choice((0, 1, -1, 5))
        case Sized("records"):
            return rng.choice(RECORDS)
        case Sized("string"):
            return rng.choice(("", "t", "some-topic"))
        case Sized():
            return rng.randbytes(3)
        case Array():
            return [value_of(wire_type.element, rng) for _ in range(rng.randrange(3))]
        case Struct():
            fields = (*wire_type.fields, *wire_type.tagged)
            return {
                field.name: value_of(field.type, rng) for field in fields if rng.random() < 0.97
            }
    raise AssertionError(wire_type)


def inputs(rng: random.Random, count: int) -> Iterator[bytes]:
    """Yield requests of every API, most of them with a changed byte, cut, or spliced; and noise."""
    layouts = [(row.api_key, read_layout(row.request, row.max_version)) for row in HANDLERS]
    for number in range(count):
        api_key, layout = rng.choice(layouts)
        body = value_of(layout, rng)
        data = bytearray(msgpack.packb([api_key.name.lower(), number % 2**31, "c", body]))
        way = rng.randrange(6)
        if way == 1:
            data = bytearray(rng.randbytes(rng.randrange(60)))
        elif way >= 2:
            for _ in range(rng.randrange(1, 4)):
                data[rng.randrange(len(data))] = (
                    rng.choice(HEADS) if way < 5 else rng.randrange(256)
                )
        if way == 3:
            del data[rng.randrange(len(data)) :]
        yield bytes(data)


def main(count: int) -> None:
    """Feed `count` inputs to the dialect; print how they ended."""
    import resource

    from broker.lifecycle.serving import dialects_of
    from broker.runtime.clock import SystemClock
    from protocol.errors import ProtocolError

    dialect = dialects_of(SystemClock())["MSGPACK"]
    ends: Counter[str] = Counter()
    for number, data in enumerate(inputs(random.Random(1), count)):
        try:
            dialect.decode_request(memoryview(bytearray(data)))
            ends["decoded"] += 1
        except ProtocolError as error:
            ends[type(error).__name__] += 1
        if number in (count // 10, count - 1):
            print(number, ends, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, "KiB at most")


if __name__ == "__main__":
    main(int(sys.argv[1]))
