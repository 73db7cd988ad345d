"""Segments of an old Kafka: messages of magic 0 and 1 among batches of magic 2.

Whole messages are never damage; a damaged one is found wherever a damaged batch would be.
"""

import pytest

from protocol.legacy_batches import batches_any, read_records_any
from storage.errors import DamagedLog
from tests.support.compacting import COMPACTED, clean, keyed, settle
from tests.support.log_house import (
    NOW,
    House,
    append,
    apply_retention,
    batch,
    checkpoint,
    delete_records,
    flush,
)
from tests.support.lookups import first_found
from tests.support.old_messages import END_OFFSET, message, new_batch, segments

FILES = {base: b"".join(parts) for base, parts in segments(NOW).items()}
HUGE = {"internal_segment_bytes": 10**6, "index_interval_bytes": 300}


def house_with_old_segments(*, files=FILES, clean_stop=False, **config):
    """An open log whose files an old Kafka wrote."""
    house = House()
    house.open()
    house.log(**(HUGE | config))
    house.kill()
    for name in (*house.names("log"), *house.names("index")):
        house.filesystem.unlink(house.path(name))
    for base, data in files.items():
        house.filesystem.replace(house.path(f"{base:020}.log"), data)
    log = house.restart(**(HUGE | config))
    if clean_stop:
        settle(house, log)
        house.stop()
        log = house.restart(**(HUGE | config))
    return house, log


def read(log, start=None, size_max=500):
    offset, found = log.start_offset if start is None else start, {}
    while (piece := log.read(offset, size_max)) is not None:
        data = piece.load()
        for position, header in batches_any(data):
            for record in read_records_any(data, position, size_max=1 << 20):
                if record.offset >= offset:
                    found[record.offset] = record.timestamp
            end = header.next_offset
        assert end > offset
        offset = end
    return found


@pytest.mark.parametrize("clean_stop", [False, True])
@pytest.mark.parametrize("size_max", [1, 300, 10_000])
def test_every_offset_is_served_after_any_stop(clean_stop, size_max):
    house, log = house_with_old_segments(clean_stop=clean_stop)
    for report in house.manager.reports:
        assert not report.damage
        assert not [line for line in report.warnings if "rebuilt" not in line]
    assert len(house.manager.reports) == (not clean_stop)
    assert (log.start_offset, log.end_offset, log.failed) == (0, END_OFFSET, None)
    assert not house.names("quarantine")
    for start in range(END_OFFSET):
        assert list(read(log, start, size_max)) == list(range(start, END_OFFSET))
    for base, data in FILES.items():
        assert house.filesystem.live_bytes(house.path(f"{base:020}.log")) == data


def test_later_batches_are_appended_after_them_and_recovered():
    house, log = house_with_old_segments()
    assert append(log, 2) == [END_OFFSET, END_OFFSET + 1]
    flush(log)
    house.kill()
    log = house.restart(**HUGE)
    assert list(read(log)) == list(range(END_OFFSET + 2))
    assert log.epochs.entries()[-1] == (1, END_OFFSET)


def test_timestamps_are_found_inside_wrappers():
    house, log = house_with_old_segments(clean_stop=True)
    for after, wanted in ((0, 5), (6, 6), (7, 7), (10, 9), (12, 12), (21, 14), (22, 16), (40, 29)):
        found = first_found(log.timestamp_candidates(NOW + after))
        assert (found.offset, found.leader_epoch <= 0) == (wanted, True), after
    assert first_found(log.timestamp_candidates(NOW + 41)) is None
    assert first_found(log.timestamp_candidates(None)).offset == 29
    delete_records(house, log, 12)
    flush(log)
    assert first_found(log.timestamp_candidates(NOW)).offset == 12
    assert min(read(log)) == 12


def test_missing_indexes_are_rebuilt_and_used():
    house, log = house_with_old_segments()
    checkpoint(house, log)
    checkpoint(house, log)
    first, *_, last = log.segments
    assert not first.indexes.damage
    assert last.indexes.offset.last_entry is not None
    last._forget_positions()
    assert last.position_of(27)[1].base_offset == 27


def test_retention_uses_their_timestamps():
    house, log = house_with_old_segments(retention_ms=1_000)
    settle(house, log)
    # The newest of the second segment is NOW + 22.
    assert apply_retention(house, log, NOW + 1_022) == 1
    assert log.start_offset == 11
    assert apply_retention(house, log, NOW + 2_000) == 3
    assert log.start_offset == END_OFFSET
    append(log)
    house.stop()
    assert house.restart(**HUGE).end_offset == END_OFFSET + 1


# A message of magic 0 or 1 ends at offset 20 + n; each region of one, and the flipped bits.
@pytest.mark.parametrize("at", [0, 3, 8, 11, 12, 16, 17, 18, 26, 30, 34, 100])
@pytest.mark.parametrize("below", [False, True])
def test_damage_in_a_message_is_found(at, below):
    size = len(message(20, b"x" * 400, timestamp=0))
    rotten = bytearray(FILES[20])
    rotten[3 * size + at] ^= 0x40
    if not below:  # above the recovery point: cut and quarantined
        house, log = house_with_old_segments(files=FILES | {20: bytes(rotten)})
        assert log.end_offset == 23
        assert len(house.names("quarantine")) == 1
        assert list(read(log)) == list(range(23))
        return
    house, log = house_with_old_segments(clean_stop=True)
    append(log)
    log.roll(NOW)
    settle(house, log)
    house.stop()
    house.filesystem.edit(house.path(f"{20:020}.log"), 0, bytes(rotten))
    log = house.restart(**HUGE)
    with pytest.raises(DamagedLog):
        read(log, 23)
    assert not house.names("quarantine")
    assert list(read(log, END_OFFSET)) == [END_OFFSET]


def test_a_torn_message_at_the_end_is_cut():
    for kept in range(1, 40):
        torn = FILES | {20: FILES[20] + message(30, b"torn" * 5, timestamp=1)[:kept]}
        _, log = house_with_old_segments(files=torn)
        assert (log.end_offset, list(read(log, 29))) == (END_OFFSET, [29])


def test_compaction_copies_them_unchanged():
    old = {0: message(0, b"v", key=b"a", magic=0) + message(1, b"w", key=b"a", timestamp=NOW)}
    files = old | {2: new_batch(2, [NOW, NOW + 1])}
    house, log = house_with_old_segments(files=files, **COMPACTED)
    log.append(keyed([(b"key", b"2")]), NOW)
    log.append(keyed([(b"a", None)]), NOW)
    log.roll(NOW)
    log.append(batch(), NOW)
    settle(house, log)
    clean(house, log)
    assert list(read(log)) == [0, 1, 4, 5, 6]
    assert log.read(0, len(old[0])).load() == old[0]
