"""Which records and batches the copier keeps."""

import tracemalloc

import pytest

import storage.compaction.copier
from protocol.control_records import Marker, build_marker, read_marker
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
from storage.compaction.outcomes import Outcomes
from storage.errors import DamagedLog
from storage.files.open_files import OpenFiles
from storage.producers.producer_state import AppendedBatch, ProducerEntry, ProducerState
from tests.support.compacting import SALT, keyed, nothing, placed, source_of
from tests.support.memory_filesystem import MemoryFileSystem
from tests.support.segments import create_segment
from tests.support.thorough import THOROUGH

NOW = 1_700_000_000_000
DAY = 86_400_000
MAX = 1 << 24
BEFORE, AFTER = NOW - 1, NOW + 1
NO_OUTCOMES = Outcomes([], [], nothing)


def new_segment(filesystem):
    return create_segment(OpenFiles(filesystem, 8), "/")


def known(last_offsets):
    """The producers of a log by their last offsets; None: only a marker, of epoch 1."""
    state = ProducerState()
    for producer_id, offset in last_offsets.items():
        batches = [] if offset is None else [AppendedBatch(0, offset, 0, NOW)]
        state.entries[producer_id] = ProducerEntry(producer_id, 1 - len(batches), batches=batches)
    return state


def cleaned(
    batches,
    *,
    end_offset=1000,
    producers=None,
    now_ms=NOW,
    map_bytes=1 << 16,
    start=0,
    rest=(),
    aborts=(),
):
    """Index and copy one source; return the batches that stay, decoded.

    `rest` are the batches behind it, `aborts` the offsets of the markers that the copier lists.
    """
    filesystem = MemoryFileSystem()
    source = source_of(*batches, filesystem=filesystem, end_offset=max(1000, end_offset))
    keys, counts = KeyMap(map_bytes, 0.9, 1000, SALT), PassCounts()
    behind = source_of(*rest, base_offset=end_offset, end_offset=5000, filesystem=filesystem)
    outcomes = Outcomes([source], [behind] if rest else [], nothing)
    reached = index_keys([source], start, keys, outcomes, MAX, nothing)
    rules = KeepRules(
        now_ms=now_ms,
        delete_retention_ms=DAY,
        end_offset=end_offset,
        decompressed_bytes_max=MAX,
    )
    segment = new_segment(filesystem)
    copier = Copier(keys, reached, outcomes, rules, nothing, counts)
    is_changed = copier.copy_live([source], segment, known(producers or {}))
    assert copier.aborts == set(aborts)
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
    assert index_keys([source_of(*batches)], 5, keys, NO_OUTCOMES, MAX, nothing) == 1000
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


def data(offset, *pairs, pid=3, epoch=0):
    """A batch of a transaction."""
    return placed(
        offset, keyed(pairs, pid=pid, epoch=epoch, sequence=0, transactional=True, codec=1)
    )


def marker(offset, *, commit, pid=3, epoch=1, horizon_ms=None):
    batch = placed(offset, build_marker(Marker(pid, epoch, commit, 0), NOW))
    if horizon_ms is None:
        return batch
    header = verify(batch)
    body = open_batch(header, batch, MAX)
    return bytes(rewrite(header, body, list(read_spans(header, body)), horizon_ms))


def test_aborted_data_go_at_once_whatever_their_keys():
    """Also above what the key map has reached; they hide nothing that came before them."""
    batches = [
        placed(0, keyed([(b"a", b"1")])),
        data(1, (b"a", b"aborted"), (None, b"no key"), (b"b", None)),
        placed(4, keyed([(b"b", b"1")])),
        marker(5, commit=False),
        data(6, (b"a", b"2"), epoch=1),
        data(7, (b"b", b"other"), pid=4),
        marker(8, commit=True, epoch=2),
        marker(9, commit=False, pid=4),
    ]
    assert live(cleaned(batches, aborts=[5, 9])) == [4, 5, 6, 8, 9]
    assert live(cleaned(batches, start=7, aborts=[5, 9])) == [0, 4, 5, 6, 8, 9]
    full = [placed(0, keyed([(b"a", b"1"), (b"b", b"1")])), *(data(n, (b"c", b"")) for n in (2, 3))]
    assert live(cleaned([*full, marker(4, commit=False)], map_bytes=1, aborts=[4])) == [0, 1, 4]


def test_committed_data_go_by_key():
    batches = [
        data(0, (b"a", b"1"), (b"b", b"1")),
        marker(2, commit=True),
        data(3, (b"b", b"2"), (b"a", None), pid=4),
        placed(5, keyed([(b"a", b"2")])),
        marker(6, commit=True, pid=4),
    ]
    found = cleaned(batches)
    assert live(found) == [2, 3, 5, 6]
    assert not any(header.has_delete_horizon for header, _ in found)
    tombstone = cleaned([data(0, (b"a", None)), marker(1, commit=True)])
    assert [header.has_delete_horizon for header, _ in tombstone] == [True, False]


def test_a_transaction_that_ends_behind_the_pass_has_its_outcome():
    batches = [placed(0, keyed([(b"a", b"1")])), data(1, (b"a", b"t"))]
    behind = [data(10, (b"z", b"t")), marker(11, pid=4, commit=True)]
    aborted, committed = (marker(12, commit=commit) for commit in (False, True))
    options = {"end_offset": 10}
    assert live(cleaned(batches, rest=[*behind, aborted], **options)) == [0]
    assert live(cleaned(batches, rest=[*behind, committed], **options)) == [1]


def test_data_without_a_readable_marker_stay_and_delay_the_removal_of_tombstones():
    batches = [
        placed(0, keyed([(b"a", b"1")])),
        horizon_batch(1, [(b"y", None)], BEFORE),
        data(2, (b"a", b"t")),
        horizon_batch(3, [(b"z", None)], BEFORE),
    ]
    broken = bytearray(marker(10, commit=False))
    broken[-1] ^= 1
    for rest in ([], [placed(10, keyed([(b"a", b"2")]))], [bytes(broken)]):
        assert live(cleaned(batches, end_offset=10, rest=rest)) == [0, 2, 3]


def control_of_another_kind(offset):
    record = Record(0, NOW, b"\0\0\0\2", b"\0\0\0\0\0\0")
    return placed(
        offset, build([record], producer_id=3, producer_epoch=0, transactional=True, control=True)
    )


def test_other_control_batches_stay():
    assert live(cleaned([control_of_another_kind(0), data(1, (b"a", b"1"))])) == [0, 1]


@pytest.mark.parametrize("commit", [True, False])
def test_a_marker_goes_when_its_transaction_has_no_data_and_its_horizon_has_passed(commit):
    options = {"commit": commit}
    alone = cleaned([marker(0, **options)])
    assert live(alone) == [0]
    assert alone[0][0].has_delete_horizon
    assert alone[0][0].base_timestamp == NOW + DAY
    assert alone[0][1][0].timestamp == NOW
    assert live(cleaned([marker(0, horizon_ms=AFTER, **options)])) == [0]
    assert cleaned([marker(0, horizon_ms=NOW, **options)]) == []


@pytest.mark.parametrize("commit", [True, False])
def test_a_marker_stays_while_any_batch_of_its_transaction_does(commit):
    """Also an empty one, which keeps its producer's last sequence."""
    batches = [data(0, (b"a", b"1")), placed(1, keyed([(b"a", b"2")])), marker(2, commit=commit)]
    aborts = [] if commit else [2]
    found = cleaned(batches, producers={3: 0}, aborts=aborts)
    assert [(header.base_offset, header.record_count) for header, _ in found] == [
        (0, 0), (1, 1), (2, 1)
    ]  # fmt: skip
    assert not found[2][0].has_delete_horizon
    again = [placed(0, emptied(found[0][0])), *batches[1:]]
    assert live(cleaned(again, producers={3: 0}, aborts=aborts)) == [1, 2]
    later = cleaned(again, aborts=aborts)
    assert [header.base_offset for header, _ in later] == [1, 2]
    assert not later[1][0].has_delete_horizon, "the next pass sees that nothing is left"
    assert cleaned([*batches[1:2], batches[2]])[1][0].has_delete_horizon


def test_the_last_marker_of_a_producer_without_data_stays_empty():
    batches = [marker(n, commit=True, pid=n, epoch=1, horizon_ms=BEFORE) for n in range(3)]
    found = cleaned(batches, producers={0: None, 1: 7, 2: None})
    assert [(header.base_offset, header.record_count) for header, _ in found] == [(0, 0), (2, 0)]
    header = found[0][0]
    assert (header.is_control, header.is_transactional, header.producer_epoch) == (True, True, 1)
    empty = placed(0, emptied(header))
    assert read_marker(empty) is None
    assert [h.base_offset for h, _ in cleaned([empty], producers={0: None})] == [0]
    assert cleaned([empty], producers={0: 9}) == []
    older = [marker(0, commit=True, pid=0, epoch=0, horizon_ms=BEFORE)]
    assert cleaned(older, producers={0: None}) == []


def test_what_is_written_is_synced_in_pieces(monkeypatch):
    monkeypatch.setattr(storage.compaction.copier, "CHUNK_BYTES", 1000)
    monkeypatch.setattr(storage.compaction.copier, "SYNC_BYTES", 4000)
    filesystem = MemoryFileSystem()
    source = source_of(
        *(placed(n, keyed([(b"%d" % n, b"v" * 100)])) for n in range(100)), filesystem=filesystem
    )
    segment = new_segment(filesystem)
    rules = KeepRules(now_ms=NOW, delete_retention_ms=0, end_offset=100, decompressed_bytes_max=MAX)
    keys = KeyMap(1000, 0.9, 10, SALT)
    copier = Copier(keys, 0, NO_OUTCOMES, rules, nothing, PassCounts())
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
        index_keys([source], 0, KeyMap(1000, 0.9, 10, SALT), NO_OUTCOMES, MAX, nothing)
    assert caught.value.position == 0
    big = source_of(placed(0, keyed([(b"a", b"1" * 5000)], codec=1)))
    with pytest.raises(DamagedLog):
        index_keys([big], 0, KeyMap(1000, 0.9, 10, SALT), NO_OUTCOMES, 100, nothing)


def test_a_batch_of_very_many_records_is_copied_record_by_record():
    """Ten million fit into 10 KiB of zstd; as objects they took 3 GB."""
    count = 100_000 if THOROUGH else 20_000
    pairs = [(b"same", b"")] * (count - 1) + [(b"other", None)]
    batch = placed(0, keyed(pairs, codec=4))
    tracemalloc.start()
    ((header, records),) = cleaned([batch], end_offset=count)
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert [record.offset for record in records] == [count - 2, count - 1]
    assert header.has_delete_horizon
    assert peak_bytes < 100 * count
