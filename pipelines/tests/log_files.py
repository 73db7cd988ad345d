"""A data directory of our own making, as a broker that was stopped cleanly leaves it."""

from __future__ import annotations

from pyspark_barnabas.jobs.index_check import OFFSET_ENTRY, TIME_ENTRY
from pyspark_barnabas.wire.batches import HEADER
from pyspark_barnabas.wire.encode import Record, build_batch

EPOCH_FIELD = slice(12, 16)


class LogFiles:
    """Writes logs below a directory; sizes and positions are bytes."""

    def __init__(self, directory):
        self.directory = directory
        directory.mkdir(exist_ok=True)
        (directory / "meta.properties").write_text("version=1\n")
        (directory / ".kafka_cleanshutdown").write_text("")

    def __str__(self):
        return str(self.directory)

    def path(self, name, base=0, kind="log"):
        return self.directory / name / f"{base:020}.{kind}"

    def write(self, name, batches, base=0):
        """Write a segment of `batches`, bytes each, with an index entry for every one of them."""
        path = self.path(name, base)
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(b"".join(batches))
        offsets, times, position, newest = b"", b"", 0, -1
        for data in batches:
            header = HEADER.unpack_from(data)
            last = header[0] + header[6] - base
            offsets += OFFSET_ENTRY.pack(last, position)
            if header[8] > newest:
                newest = header[8]
                times += TIME_ENTRY.pack(newest, last)
            position += len(data)
        self.path(name, base, "index").write_bytes(offsets)
        self.path(name, base, "timeindex").write_bytes(times)
        return path

    def checkpoint(self, name, *rows):
        """Write a file of Kafka's form: version, count, lines."""
        (self.directory / name).write_text("\n".join(["0", str(len(rows)), *rows, ""]))


def batch(offset, count=3, *, epoch=0, value=b"v" * 50, **settings):
    """Return a batch of `count` records from `offset` on, each a millisecond after the last."""
    records = [Record(b"k%d" % index, value, 1000 + offset + index) for index in range(count)]
    made = build_batch(records, base_offset=offset, **settings)
    made[EPOCH_FIELD] = epoch.to_bytes(4, "big", signed=True)
    return bytes(made)


def turn(path, position, mask=0x10):
    """Turn a bit of a file."""
    data = bytearray(path.read_bytes())
    data[position] ^= mask
    path.write_bytes(data)
