"""Keyed batches, whole compaction passes, and checks of a compacted log."""

from __future__ import annotations

import itertools

from protocol.record_batch import batches
from protocol.records import Record, build, read_records, stamp
from storage.compaction.cleanable import find_cleanable
from storage.compaction.one_pass import PassLimits, PassResult, compact
from storage.files.open_files import OpenFiles
from storage.log import Log
from storage.segments.checked_batches import InactiveFile
from storage.segments.log_file import LogFile
from tests.support.log_house import NOW, House, checkpoint, flush
from tests.support.memory_filesystem import MemoryFileSystem

SALT = bytes(16)
COMPACTED = {"cleanup_policy": ("compact",), "min_cleanable_dirty_ratio": 0.0}


def keyed(pairs, *, codec=0, pid=-1, epoch=-1, sequence=-1, timestamp=NOW, **build_options):
    """Return a batch of (key, value) pairs; a value of None deletes the key."""
    records = [
        Record(0, timestamp + n, key, value, (("h", b"1"),)) for n, (key, value) in enumerate(pairs)
    ]
    return memoryview(
        build(
            records,
            codec=codec,
            producer_id=pid,
            producer_epoch=epoch,
            base_sequence=sequence,
            **build_options,
        )
    )


ONE = len(keyed([(b"k01", b"010")]))
FIVE = COMPACTED | {"internal_segment_bytes": 5 * ONE, "index_interval_bytes": ONE}


def fill(
    log: Log, count: int, keys: int = 4, per_batch: int = 1, start: int = 0, pid=-1, **options
) -> None:
    """Append `count` records with the keys k00, k01, … in turn and their numbers as values.

    With a producer id, the first record has the sequence number 0.
    """
    numbers = iter(range(start, start + count))
    while taken := list(itertools.islice(numbers, per_batch)):
        if pid >= 0:
            options |= {"pid": pid, "epoch": 0, "sequence": taken[0] - start}
        pairs = [(b"k%02d" % (n % keys), b"%03d" % n) for n in taken]
        log.append(keyed(pairs, **options), NOW)


def limits(**changes) -> PassLimits:
    settings = {
        "map_bytes_max": 1 << 20,
        "map_load_factor": 0.9,
        "decompressed_bytes_max": 1 << 20,
        "salt": SALT,
        "proceed": lambda _: None,
    }
    return PassLimits(**(settings | changes))


def drive(steps) -> PassResult:
    """Run a pass to its end on this thread, its jobs included."""
    error = None
    while True:
        try:
            job = steps.throw(error) if error is not None else next(steps)
        except StopIteration as end:
            return end.value
        error = None
        try:
            job()
        except BaseException as caught:
            error = caught


def settle(house: House, log: Log) -> None:
    """Flush the log and advance its checkpoint, so that compaction may clean all of it."""
    flush(log)
    checkpoint(house, log)


def clean(house: House, log: Log, now_ms: int = NOW, **changes) -> PassResult:
    """Make the log durable and compact it once."""
    settle(house, log)
    result = drive(compact(log, find_cleanable(log, now_ms), limits(**changes), now_ms))
    house.manager.write_checkpoints()
    return result


def headers_of(log: Log):
    """Return the headers of all batches, read from the files."""
    return [header for segment in log.segments for _, header in segment.log_file.scan()]


def records_of(log: Log) -> list[Record]:
    """Return all records as a consumer gets them, from the log start to the high watermark."""
    found = []
    offset = log.start_offset
    while (piece := log.read(offset, 1 << 20)) is not None:
        data = bytes(piece.load())
        for position, header in batches(data):
            found += [
                record
                for record in read_records(data, position, size_max=1 << 20)
                if record.offset >= log.start_offset
            ]
            offset = header.next_offset
    return found


def newest(records) -> dict[bytes, tuple[int, bytes]]:
    """Return the table after these records: key -> (offset, value), without deleted keys."""
    table = {record.key: (record.offset, record.value) for record in records}
    return {key: entry for key, entry in table.items() if entry[1] is not None}


def keyed_house(count=23, keys=4, **options):
    config = {name: options.pop(name) for name in list(options) if name in FIVE}
    house = House()
    house.open()
    log = house.log(**(FIVE | config))
    fill(log, count, keys, **options)
    return house, log


def offsets(log):
    return [record.offset for record in records_of(log)]


def records_of_all(house, log):
    settle(house, log)
    return records_of(log)


def nothing(_):
    """Do nothing: the pass is not throttled."""


def placed(offset, batch):
    """Set the base offset of a batch, as the log does; the caller chooses the gaps."""
    stamp(batch, 0, offset, 0)
    return bytes(batch)


def source_of(*batches, base_offset=0, end_offset=1000, filesystem=None):
    filesystem = filesystem or MemoryFileSystem()
    file = filesystem.open(f"/{base_offset}.source", create=True)
    data = b"".join(batches)
    file.pwrite(data, 0)
    log_file = LogFile(OpenFiles(filesystem, 8), file.path, len(data))
    return InactiveFile(log_file, base_offset, end_offset)
