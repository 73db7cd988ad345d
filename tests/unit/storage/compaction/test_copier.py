"""Which records and batches the copier keeps."""

import tracemalloc

import pytest

import storage.compaction.copier
from protocol.record_batch import verify, write_crc
from protocol.record_spans import emptied, open_batch, read_spans, rewrite
from protocol.records import Record, build, read_records
from storage.compaction.copier import (
    Copier,
    KeepRules,
    PassCounts,
    index_keys,
)
from storage.compaction.key_map import KeyMap
from storage.errors import DamagedLog
from storage.files.open_files import OpenFiles
from storage.producers.producer_state import AppendedBatch, ProducerEntry, ProducerState
from tests.support.compacting import SALT, keyed, nothing, placed, source_of
from tests.support.memory_filesystem import MemoryFileSystem
from tests.support.segments import create_segment

NOW = 1_700_000_000_000
DAY = 86_400_000
MAX = 1 << 24
BEFORE, AFTER = NOW - 1, NOW + 1


def new_segment(filesystem):
    return create_segment(OpenFiles(filesystem, 8), "/")


def known(last_offsets):
    """The producers of a log; only their last offsets matter here."""
    state = ProducerState()
    for producer_id, offset in last_offsets.items():
        batches = [AppendedBatch(0, offset, 0, NOW)]
        state.entries[producer_id] = ProducerEntry(producer_id, 0, batches=batches)
    return state


def cleaned(batches, *, end_offset=1000, producers=None, now_ms=NOW, map_bytes=1 << 16, start=0):
    """Index and copy one source; return the batches that stay, decoded."""
    filesystem = MemoryFileSystem()
    source = source_of(*batches, filesystem=filesystem, end_offset=max(1000, end_offset))
    keys, counts = KeyMap(map_bytes, 0.9, 1000, SALT), PassCounts()
    reached = index_keys([source], start, keys, MAX, nothing)
    rules = KeepRules(
        now_ms=now_ms,
        delete_retention_ms=DAY,
        end_offset=end_offset,
        decompressed_bytes_max=MAX,
    )
    segment = new_segment(filesystem)
    copier = Copier(keys, reached, rules, nothing, counts)
    is_changed = copier.copy_live([source], segment, known(producers or {}))
    found = []
    for position, header in segment.log_file.scan():
        data = segment.log_file.read(position, header.size)
        verify(data)
        found.append((header, list(read_records(data, size_max=MAX))))
    assert is_changed == (filesystem.read(segment.log_file.path) != b"".join(batches))
    return found


def live(found):
    return [record.offset for _, records in found for record in records]


def test_the_newest_record_of_a_key_stays_wherever_it_is():
    batches = [
        placed(0, keyed([(b"a", b"1"), (b"b", b"1"), (b"a", b"2")])),
        placed(3, keyed([(b"c", b"1")], codec=4)),
        placed(4, keyed([(b"b", b"2"), (b"d", b"1")], codec=1)),
    ]
    assert live(cleaned(batches)) == [2, 3, 4, 5]


def test_records_without_a_key_are_removed():
    batches = [placed(0, keyed([(None, b"1"), (b"a", b"1")])), placed(2, keyed([(None, b"2")]))]
    assert live(cleaned(batches)) == [1]


def test_records_that_the_full_map_left_out_stay():
    batches = [placed(n, keyed([(b"%d" % n, b"v"), (None, b"x")])) for n in range(0, 40, 2)]
    found = cleaned(batches, map_bytes=24 * 11)
    assert live(found) == [*range(0, 18, 2), *range(18, 40)]  # 9 keys, then no room


def test_records_before_the_dirty_part_are_not_indexed():
    batches = [placed(n, keyed([(b"a", b"%d" % n)])) for n in range(6)]
    assert live(cleaned(batches, start=3)) == [5]
    keys = KeyMap(1 << 10, 0.9, 10, SALT)
    assert index_keys([source_of(*batches)], 5, keys, MAX, nothing) == 1000
    assert (keys.size, keys.get(b"a")) == (1, 5)


def horizon_batch(offset, pairs, horizon_ms):
    """A batch with tombstones, as an earlier pass leaves it."""
    batch = placed(offset, keyed(pairs))
    header = verify(batch)
    body = open_batch(header, batch, MAX)
    return bytes(rewrite(header, body, list(read_spans(header, body)), horizon_ms))


@pytest.mark.parametrize(("horizon", "stays"), [(AFTER, True), (NOW, False), (BEFORE, False)])
def test_a_tombstone_stays_until_its_horizon(horizon, stays):
    batches = [horizon_batch(0, [(b"a", None), (b"b", b"1")], horizon)]
    found = cleaned(batches)
    assert live(found) == ([0, 1] if stays else [1])
    assert found[0][0].has_delete_horizon
    assert found[0][0].base_timestamp == horizon


def test_only_a_batch_with_a_new_tombstone_gets_a_horizon():
    found = cleaned([placed(0, keyed([(b"a", None)])), placed(1, keyed([(b"b", b"1")]))])
    assert [header.has_delete_horizon for header, _ in found] == [True, False]
    assert found[0][0].base_timestamp == NOW + DAY
    superseded = cleaned(
        [placed(0, keyed([(b"a", None), (b"b", b"1")])), placed(2, keyed([(b"a", b"1")]))]
    )
    assert [header.has_delete_horizon for header, _ in superseded] == [False, False]


def marker(offset, pid=3):
    record = Record(0, NOW, b"\0\0\0\1", b"\0\0\0\0\0\0")
    return placed(
        offset,
        build([record], producer_id=pid, producer_epoch=0, transactional=True, control=True),
    )


def test_transactions_are_kept_and_delay_the_removal_of_tombstones():
    transaction = keyed([(b"a", b"t")], pid=3, epoch=0, sequence=0, transactional=True)
    batches = [
        placed(0, keyed([(b"a", b"1")])),
        placed(1, transaction),
        marker(2),
        horizon_batch(3, [(b"a", None)], BEFORE),
        horizon_batch(4, [(b"z", None)], BEFORE),
    ]
    assert live(cleaned(batches)) == [1, 2, 3, 4]
    before = [horizon_batch(0, [(b"z", None)], BEFORE), marker(1)]
    assert live(cleaned(before)) == [1]
    kept_value = [placed(0, keyed([(b"a", b"1")])), placed(1, transaction), marker(2)]
    assert live(cleaned(kept_value)) == [0, 1, 2]  # it may have been aborted


def test_what_is_written_is_synced_in_pieces(monkeypatch):
    monkeypatch.setattr(storage.compaction.copier, "CHUNK_BYTES", 1000)
    monkeypatch.setattr(storage.compaction.copier, "SYNC_BYTES", 4000)
    filesystem = MemoryFileSystem()
    source = source_of(
        *(placed(n, keyed([(b"%d" % n, b"v" * 100)])) for n in range(100)), filesystem=filesystem
    )
    segment = new_segment(filesystem)
    rules = KeepRules(now_ms=NOW, delete_retention_ms=0, end_offset=100, decompressed_bytes_max=MAX)
    copier = Copier(KeyMap(1000, 0.9, 10, SALT), 0, rules, nothing, PassCounts())
    assert not copier.copy_live([source], segment, ProducerState())
    assert segment.size // 5000 <= filesystem.counts["fdatasync"] <= segment.size // 4000
    assert filesystem.live_bytes(segment.log_file.path) == filesystem.live_bytes("/0.source")


def test_empty_headers_stay_for_producers_and_for_the_end_offset():
    batches = [placed(n, keyed([(b"a", b"1")], pid=n, epoch=0, sequence=0)) for n in range(4)]
    found = cleaned(batches, producers={0: 0, 1: 7, 2: 2}, end_offset=4)
    assert [(header.base_offset, header.record_count) for header, _ in found] == [
        (0, 0),
        (2, 0),
        (3, 1),
    ]
    again = [placed(header.base_offset, emptied(header)) for header, _ in found[:2]]
    assert [header.base_offset for header, _ in cleaned(again, producers={2: 2})] == [2]
    assert [h.base_offset for h, _ in cleaned(again, end_offset=3)] == [2]


def test_unreadable_records_count_as_damage():
    batch = bytearray(placed(0, keyed([(b"a", b"1")])))
    batch[61] = 0x7F
    write_crc(batch, 0)
    source = source_of(batch)
    with pytest.raises(DamagedLog) as caught:
        index_keys([source], 0, KeyMap(1000, 0.9, 10, SALT), MAX, nothing)
    assert caught.value.position == 0
    big = source_of(placed(0, keyed([(b"a", b"1" * 5000)], codec=1)))
    with pytest.raises(DamagedLog):
        index_keys([big], 0, KeyMap(1000, 0.9, 10, SALT), 100, nothing)


def test_a_batch_of_very_many_records_is_copied_record_by_record():
    """Ten million fit into 10 KiB of zstd; as objects they took 3 GB."""
    count = 100_000
    pairs = [(b"same", b"")] * (count - 1) + [(b"other", None)]
    batch = placed(0, keyed(pairs, codec=4))
    tracemalloc.start()
    ((header, records),) = cleaned([batch], end_offset=count)
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert [record.offset for record in records] == [count - 2, count - 1]
    assert header.has_delete_horizon
    assert peak_bytes < 100 * count
