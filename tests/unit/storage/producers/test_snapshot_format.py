"""Producer snapshots: Kafka's bytes, our addition, and what damage does to either."""

import struct
from functools import partial

import pytest
from crc32c import crc32c

from storage.errors import CheckpointError
from storage.producers.producer_state import AppendedBatch, ProducerEntry
from storage.producers.snapshot_format import (
    apply_history,
    decode_snapshot,
    encode_history,
    encode_snapshot,
)

BATCHES = [AppendedBatch(10 * n + 9, 100 + 10 * n + 9, 9, 1000 + n) for n in range(5)]
FULL = ProducerEntry(4, 2, batches=BATCHES, last_timestamp=1004, seen_ms=77_000)
NO_BATCH = ProducerEntry(5, 0, last_timestamp=9, seen_ms=9, coordinator_epoch=3)
IN_TXN = ProducerEntry(6, 1, batches=BATCHES[:1], last_timestamp=1000, txn_first_offset=100)


def test_the_snapshot_is_kafkas_byte_for_byte():
    """One entry, written out by hand from ProducerSnapshot.json."""
    body = struct.pack(">i", 1) + struct.pack(">qhiqiqiq", 4, 2, 49, 149, 9, 1004, -1, -1)
    assert encode_snapshot([FULL]) == struct.pack(">hI", 1, crc32c(body)) + body


def test_the_snapshot_keeps_the_last_batch_only():
    full, no_batch, in_txn = decode_snapshot(encode_snapshot([FULL, NO_BATCH, IN_TXN]), "x")
    assert full.batches == BATCHES[-1:]
    assert (full.producer_id, full.epoch, full.seen_ms) == (4, 2, 1004)
    assert no_batch == NO_BATCH
    assert in_txn.txn_first_offset == 100


def reload(snapshot_of, history_of):
    entries = {e.producer_id: e for e in decode_snapshot(encode_snapshot(snapshot_of), "x")}
    apply_history(encode_history(history_of, {}), entries, "y")
    return entries


def test_with_the_history_the_whole_state_is_restored():
    entries = reload([FULL, NO_BATCH], [FULL, NO_BATCH])
    assert entries == {4: FULL, 5: NO_BATCH}


def test_a_history_across_the_sequence_wrap_is_accepted():
    batches = [AppendedBatch(0, 2, 2, 5), AppendedBatch(3, 5, 2, 5)]
    entry = ProducerEntry(4, 0, batches=batches, last_timestamp=5, seen_ms=5)
    assert reload([entry], [entry]) == {4: entry}


@pytest.mark.parametrize(
    ("name", "history"),
    [
        ("another epoch", ProducerEntry(4, 3, batches=BATCHES, seen_ms=1)),
        ("another producer", ProducerEntry(9, 2, batches=BATCHES, seen_ms=1)),
        ("one batch behind", ProducerEntry(4, 2, batches=BATCHES[:4], seen_ms=1)),
        ("six batches", ProducerEntry(4, 2, batches=[BATCHES[0], *BATCHES], seen_ms=1)),
    ],
)
def test_an_inconsistent_history_is_ignored(name, history):
    assert reload([FULL], [history])[4].batches == BATCHES[-1:], name


ABORTS = {0: (3, 0x12345678), 100: (1, 9)}


def test_what_was_aborted_is_restored():
    for aborts in ({}, ABORTS):
        data = encode_history([FULL, NO_BATCH], aborts)
        assert data[4:6] == b"\0\2", "the log has had transactions"
        assert apply_history(data, {}, "x") == aborts
    assert encode_history([FULL], {})[4:6] == b"\0\1"
    assert apply_history(encode_history([FULL], {}), {}, "x") is None


@pytest.mark.parametrize(
    "encode",
    [encode_snapshot, partial(encode_history, aborts={}), partial(encode_history, aborts=ABORTS)],
)
def test_every_flipped_bit_and_every_cut_is_detected(encode):
    good = encode([FULL, NO_BATCH, IN_TXN])

    def decode(data):
        if encode is encode_snapshot:
            decode_snapshot(data, "x")
        else:
            entries = {4: ProducerEntry(4, 2, batches=BATCHES[-1:])}
            try:
                apply_history(data, entries, "x")
            except CheckpointError:
                assert entries[4].batches == BATCHES[-1:]
                raise

    decode(good)
    for position in range(len(good)):
        for bit in range(8):
            bad = bytearray(good)
            bad[position] ^= 1 << bit
            with pytest.raises(CheckpointError):
                decode(bytes(bad))
        with pytest.raises(CheckpointError):
            decode(good[:position])
    with pytest.raises(CheckpointError):
        decode(good + b"\0")


def seal(body, head):
    return head + struct.pack(">I", crc32c(body)) + body


@pytest.mark.parametrize("count", [-1, 2, 2**31 - 1])
def test_a_count_larger_than_the_file_is_refused(count):
    body = struct.pack(">i", count)
    with pytest.raises(CheckpointError):
        decode_snapshot(seal(body, struct.pack(">h", 1)), "x")
    with pytest.raises(CheckpointError):
        apply_history(seal(body, b"BPRD" + struct.pack(">h", 1)), {}, "x")


def test_an_unknown_version_is_refused_with_its_number():
    with pytest.raises(CheckpointError) as caught:
        decode_snapshot(seal(struct.pack(">i", 0), struct.pack(">h", 99)), "/d/1.snapshot")
    assert caught.value.path == "/d/1.snapshot"
    assert "99" in caught.value.reason
