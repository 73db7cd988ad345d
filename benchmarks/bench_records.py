"""The cost of record batches: checking, stamping, walking, unpacking and building them, one core.

    python -m benchmarks.bench_records [--rounds N]

Every figure is the best of some rounds, without the influence of other work on the machine.
Produced batches are checked at three sizes: a small one is all Python, a large one all CRC.
Unpacking and packing is measured on a batch of typical log lines.
"""

import argparse
import random
import timeit
from collections.abc import Callable

from crc32c import crc32c

from benchmarks import interpreter
from protocol.compression import NAMES, compress, decompress
from protocol.framing import FramePool, FrameReader
from protocol.record_batch import HEADER_SIZE
from protocol.record_walks import offset_of_timestamp
from protocol.records import (
    Record,
    batches,
    build,
    read_header,
    read_records,
    stamp,
    verify,
    verify_produced,
)

SIZE_MAX = 1 << 30
MIB = 1 << 20
NOW_MS = 1_700_000_000_000


def lines(count: int) -> list[Record]:
    """Return records with lines of an access log as values, all different."""
    choose = random.Random(1)
    return [
        Record(
            n,
            NOW_MS + n,
            b"%d" % choose.getrandbits(32),
            b'10.0.%d.%d - - [20/Nov/2026:22:54:21 +0000] "GET /item/%d HTTP/1.1" 200 %d "-" "kcat"'
            % (*choose.randbytes(2), choose.getrandbits(20), choose.getrandbits(14)),
        )
        for n in range(count)
    ]


def best_us(call: Callable[[], object], rounds: int, seconds: float = 0.02) -> float:
    """Return the microseconds of one call, the best of `rounds` of about `seconds` each."""
    once = min(timeit.repeat(call, number=1, repeat=3))
    calls = max(1, int(seconds / once))
    return min(timeit.repeat(call, number=calls, repeat=rounds)) / calls * 1e6


def say(what: str, microseconds: float, byte_count: int = 0, records: int = 0) -> None:
    """Print one row, with rates if they are given."""
    row = f"{what:<44}{microseconds:>12.2f} us"
    if byte_count:
        row += f"{byte_count / microseconds:>10.0f} MB/s"
    if records:
        row += f"{microseconds / records:>10.3f} us a record"
    print(row)


def measure_batches(rounds: int) -> None:
    """The data path: batches that are checked and stamped, never unpacked."""
    for size in (100, 16_384, MIB):
        batch = memoryview(build([Record(0, NOW_MS, None, bytes(size - HEADER_SIZE - 12))]))
        name = f"{len(batch)} bytes"
        checked = batch[21:]
        say(f"CRC-32C alone, {name}", best_us(lambda: crc32c(checked, 0, 0), rounds), size)  # noqa: B023
        say(
            f"verify_produced, {name}",
            best_us(lambda: verify_produced(batch, SIZE_MAX), rounds),  # noqa: B023
            size,
        )
        say(f"verify, {name}", best_us(lambda: verify(batch), rounds), size)  # noqa: B023
    say("read_header", best_us(lambda: read_header(batch), rounds))
    say("stamp", best_us(lambda: stamp(batch, 0, 10**9, 3), rounds))
    many = memoryview(build([Record(0, NOW_MS, None, bytes(100))]) * 5000)
    say("batches, 5000 of 170 bytes", best_us(lambda: list(batches(many)), rounds), len(many), 5000)


def measure_records(rounds: int) -> None:
    """Batches that are unpacked, packed and built: a thousand lines each."""
    taken = lines(1000)
    for codec, name in enumerate(NAMES):
        batch = build(taken, codec=codec)
        size = len(batch)
        say(
            f"read_records, {name}, {size} bytes",
            best_us(lambda: list(read_records(batch, size_max=SIZE_MAX)), rounds),  # noqa: B023
            records=len(taken),
        )
    batch = build(taken)
    say("build, none", best_us(lambda: build(taken), rounds), records=len(taken))
    say(
        "offset_of_timestamp, half way",
        best_us(lambda: offset_of_timestamp(batch, NOW_MS + 500, SIZE_MAX), rounds),
        records=500,
    )
    body = bytes(batch[HEADER_SIZE:])
    for codec, name in list(enumerate(NAMES))[1:]:
        packed = compress(codec, body)
        say(f"compress {name}", best_us(lambda: compress(codec, body), rounds), len(body))  # noqa: B023
        say(
            f"decompress {name}, {len(body) / len(packed):.1f} to 1",
            best_us(lambda: decompress(codec, packed, SIZE_MAX), rounds),  # noqa: B023
            len(body),
        )


def measure_frames(rounds: int) -> None:
    """Frames from received bytes."""
    reader = FrameReader(SIZE_MAX, FramePool())
    for size in (100, 16_384):
        data = memoryview(size.to_bytes(4, "big") + bytes(size))
        say(f"a frame of {size} bytes", best_us(lambda: reader.receive(data), rounds), size)  # noqa: B023
    whole = memoryview(MIB.to_bytes(4, "big") + bytes(MIB))
    pieces = [whole[start : start + 262_144] for start in range(0, len(whole), 262_144)]
    say(
        "a frame of 1 MiB in pieces of 256 KiB",
        best_us(lambda: [reader.receive(piece) for piece in pieces], rounds),
        MIB,
    )


def main() -> None:
    """Measure everything and print one row for each figure."""
    interpreter.announce()
    parser = argparse.ArgumentParser(description="What record batches cost.")
    parser.add_argument("--rounds", type=int, default=9)
    rounds = parser.parse_args().rounds
    measure_batches(rounds)
    measure_records(rounds)
    measure_frames(rounds)


if __name__ == "__main__":
    main()
