"""What others leave in a data directory while the broker is down: Kafka, a crash, an operator.

    of a crash           the beginning of a write at the end of a log
    of a compaction      `.cleaned` and `.swap` files, whole and torn, with their sources
    of a deletion        `.deleted` files, directories of deleted, moved and stray partitions
    of older brokers     indexes of aborted transactions, checkpoints of replication, an empty clean
                         mark, a meta.properties with comments
    of an operator       files and directories that belong to nobody, a topic that is unknown
    of a controller      records in the metadata log (`tests.simulation.left_metadata`)
    caches               lost, cut, or of another version (`tests.simulation.left_caches`)

None of it may cost a record, an offset or a start: Kafka handles each of these, and the broker
promises that caches cost time only (design.md, I4).
"""

from __future__ import annotations

import random
import struct
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from storage.files import filenames
from storage.files.filenames import Kind
from storage.files.text_files import encode_offsets, encode_partition_metadata
from tests.simulation import left_caches
from tests.simulation.bit_flip import batches_below
from tests.simulation.left_caches import bytes_of, put
from tests.simulation.left_metadata import leave_metadata
from tests.support.memory_inodes import Directory, Inode

COUNTS: Final = (1, 3, 6)
METADATA_WEIGHT: Final = 3
IDENTITY_WEIGHT: Final = 3
TOGETHER: Final = (filenames.LOG, filenames.OFFSET_INDEX, filenames.TIME_INDEX)
FAR: Final = 9_000_000  # an offset that no log of a history reaches
UNKNOWN_TOPIC: Final = "nowhere"
UNKNOWN_ID: Final = bytes(15) + b"\x77"
ABORTED: Final = struct.Struct(">hqqqq")  # version, producer id, first, last, last stable offset


class Place(NamedTuple):
    """A partition's directory with records."""

    name: str
    directory: Directory
    bases: list[int]  # of its segments


def leave_files(
    home: Directory, rng: random.Random, *, has_flips: bool = False, only_reads: bool = False
) -> str:
    """Leave files of some kinds in a data directory; say which.

    The recovery points of a directory that `has_flips` stay: without them, a flipped bit looks like
    the end of what a crash has left, and what is behind it goes into quarantine, as in Kafka. A
    broker that `only_reads` makes no logs for topics that Kafka has left in the metadata log.
    """
    kinds = LEFT if has_flips else (*LEFT, _of_home(left_caches.spoil_points))
    if only_reads:
        kinds = (*kinds, *[_of_home(left_caches.lose_identity)] * IDENTITY_WEIGHT)
    else:
        kinds = (*kinds, *[_of_home(leave_metadata)] * METADATA_WEIGHT)
    places = list(_places(home))
    said = []
    for _ in range(rng.choice(COUNTS)):
        leave = rng.choice(kinds)
        said.append(leave(home, rng.choice(places) if places else None, rng))
    return f"leaves {', '.join(one for one in said if one) or 'nothing'}"


def _places(home: Directory) -> Iterator[Place]:
    for name, node in sorted(home.live.items(), key=lambda entry: entry[0]):
        parsed = filenames.parse(name)
        if parsed is None or parsed.kind is not Kind.PARTITION or not isinstance(node, Directory):
            continue
        if parsed.topic in (filenames.METADATA_TOPIC, UNKNOWN_TOPIC):
            continue
        of = [filenames.parse(file) for file in node.live]
        bases = [one.base_offset for one in of if one and one.file == "log" and not one.transit]
        if bases:
            yield Place(name, node, sorted(bases))


# -- In a partition -----------------------------------------------------------------------------


def _copy(place: Place, base: int, transit: str) -> None:
    """Put copies of a segment's files beside them, under the names of a transit."""
    for file in TOGETHER:
        node = place.directory.live.get(filenames.segment_file(base, file))
        if isinstance(node, Inode):
            put(place.directory, filenames.segment_file(base, file, transit), bytes(node.live))


def _deleted(_home: Directory, place: Place | None, rng: random.Random) -> str:
    if place is None:
        return ""
    _copy(place, rng.choice(place.bases), filenames.DELETED)
    return f"a deleted segment of {place.name}"


def _cleaned(_home: Directory, place: Place | None, rng: random.Random) -> str:
    """Leave a copy that was not finished."""
    if place is None:
        return ""
    base = rng.choice(place.bases)
    log = bytes_of(place.directory, filenames.log_name(base))
    name = filenames.segment_file(base, filenames.LOG, filenames.CLEANED)
    put(place.directory, name, log[: rng.randint(0, len(log))])
    if rng.random() < 0.5:
        name = filenames.segment_file(base, filenames.TRANSACTION_INDEX, filenames.CLEANED)
        put(place.directory, name, b"")
    if rng.random() < 0.3:  # some of its files have the next name already
        _copy(place, base, filenames.SWAP)
    return f"an unfinished copy of {place.name}"


def _swap(_home: Directory, place: Place | None, rng: random.Random) -> str:
    """Leave a copy of one or two closed segments that is complete, or torn beside its source.

    A cleaner makes one at a time.
    """
    if place is None or len(place.bases) < 2:
        return ""
    if any(name.endswith(filenames.SWAP) for name in place.directory.live):
        return ""
    first = rng.randrange(len(place.bases) - 1)
    several = place.bases[first:-1][: rng.choice((1, 2))]
    logs = [bytes_of(place.directory, filenames.log_name(base)) for base in several]
    content = b"".join(logs)
    if not all(logs):
        return ""
    if rng.random() < 0.3:
        content = content[: rng.randrange(len(content))]
    name = filenames.segment_file(several[0], filenames.LOG, filenames.SWAP)
    put(place.directory, name, content)
    return f"a copy of {len(several)} segments of {place.name}"


def _swapped_index(_home: Directory, place: Place | None, rng: random.Random) -> str:
    """Leave an index whose log file has its name already."""
    if place is None:
        return ""
    base = rng.choice(place.bases)
    name = filenames.segment_file(base, rng.choice(TOGETHER[1:]))
    data = bytes_of(place.directory, name)
    if name not in place.directory.live:
        return ""
    left_caches.remove(place.directory, name)
    put(place.directory, f"{name}.{filenames.SWAP}", data)
    return f"an index of {place.name} under another name"


def _orphan(_home: Directory, place: Place | None, rng: random.Random) -> str:
    if place is None:
        return ""
    kinds = (*TOGETHER[1:], filenames.TRANSACTION_INDEX)
    put(place.directory, filenames.segment_file(FAR, rng.choice(kinds)), bytes(24))
    return f"an index without a log in {place.name}"


def _torn(home: Directory, place: Place | None, rng: random.Random) -> str:
    """Leave a part of a write at the end of a log, as a crash does."""
    if place is None:
        return ""
    name = filenames.log_name(place.bases[-1])
    log = bytes_of(place.directory, name)
    last = list(batches_below(bytearray(log), filenames.OFFSET_MAX))
    if not last or last[-1].end != len(log):
        return ""
    batch = bytearray(log[last[-1].begin :])
    batch[0:8] = last[-1].next_offset.to_bytes(8, "big")
    part = batch[: rng.randrange(1, len(batch))] if rng.random() < 0.7 else bytes(len(batch))
    put(place.directory, name, log + part)
    left_caches.remove(home, filenames.CLEAN_SHUTDOWN)
    return f"{len(part)} bytes of a write to {place.name}"


def _aborted(_home: Directory, place: Place | None, rng: random.Random) -> str:
    """Leave an index of aborted transactions: empty, or with one of the first record."""
    if place is None:
        return ""
    base = rng.choice(place.bases)
    has_records = bool(bytes_of(place.directory, filenames.log_name(base)))
    entry = ABORTED.pack(0, 1, base, base, base) if has_records and rng.random() < 0.7 else b""
    put(place.directory, filenames.transaction_index_name(base), entry)
    return f"an index of aborted transactions of {place.name}"


def _foreign(_home: Directory, place: Place | None, rng: random.Random) -> str:
    """Leave what belongs to nobody in a partition's directory."""
    if place is None:
        return ""
    names = (
        "notes.txt",
        "00000000000000000000.log.bak",
        filenames.quarantine_name(0, 10, 1_600_000_000_000),
        f"{filenames.log_name(0)}.tmp",
        filenames.LEADER_EPOCH_CHECKPOINT + ".tmp",
        "99999999999999999999.log",
    )
    put(place.directory, rng.choice(names), b"x")
    return f"a file of nobody in {place.name}"


# -- Beside the partitions ----------------------------------------------------------------------


def _moved(home: Directory, place: Place | None, rng: random.Random) -> str:
    """Leave directories of partitions that were being deleted or moved."""
    del place
    transit = rng.choice(("delete", "delete", "stray", "future"))
    name = f"gone-{rng.randrange(3)}.{rng.randbytes(16).hex()}-{transit}"
    return _add_partition(home, name)


def _unknown_topic(home: Directory, place: Place | None, rng: random.Random) -> str:
    """Leave a partition that no record of the metadata log knows."""
    del place
    name = f"{UNKNOWN_TOPIC}-{rng.randrange(2)}"
    return _add_partition(home, name)


def _add_partition(home: Directory, name: str) -> str:
    directory = Directory()
    put(directory, filenames.PARTITION_METADATA, encode_partition_metadata(UNKNOWN_ID))
    put(directory, filenames.log_name(0), b"")
    home.put(name, directory)
    return f"the directory {name}"


def _nobody(home: Directory, place: Place | None, rng: random.Random) -> str:
    del place
    name = rng.choice(
        ("lost+found", "notes.txt", "a-007", "..-1", f"{'t' * 250}-0", "t-2147483648")
    )
    if name == "lost+found":
        home.put(name, Directory())
    else:
        put(home, name, b"x")
    return name


def _replication(home: Directory, place: Place | None, rng: random.Random) -> str:
    del rng
    topic = place.name.rpartition("-")[0] if place else "t"
    put(home, filenames.REPLICATION_CHECKPOINT, encode_offsets({(topic, 0): 1}))
    return "a checkpoint of replication"


Leave = Callable[[Directory, Place | None, random.Random], str]


def _cache(leave: Callable[[Directory, random.Random], str]) -> Leave:
    """Return the leaving of a cache of one partition."""
    return lambda _home, place, rng: (
        f"{leave(place.directory, rng)} of {place.name}" if place else ""
    )


def _of_home(leave: Callable[[Directory, random.Random], str]) -> Leave:
    return lambda home, _place, rng: leave(home, rng)


LEFT: Final[tuple[Leave, ...]] = (
    _deleted,
    _cleaned,
    _swap,
    _swap,
    _swapped_index,
    _orphan,
    _torn,
    _aborted,
    _foreign,
    _moved,
    _unknown_topic,
    _nobody,
    _replication,
    _cache(left_caches.spoil_identity),
    _cache(left_caches.spoil_epochs),
    _cache(left_caches.spoil_snapshot),
    _cache(left_caches.spoil_history),
    _of_home(left_caches.spoil_cleaned),
    _of_home(left_caches.change_clean_mark),
    _of_home(left_caches.retell_meta_properties),
    _of_home(left_caches.leave_snapshot_parts),
)
