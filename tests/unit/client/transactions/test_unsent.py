"""Records that are not sent yet: batches, sequences, sizes."""

from __future__ import annotations

from client.places import Place
from client.transactions.epoch import Epoch
from client.transactions.unsent import Unsent
from protocol.record_batch import read_header, verify
from protocol.records import Record

FIRST = Epoch("t", 7, 3)
A, B = Place("orders", 0), Place("orders", 1)


def record(value=b"v", **fields):
    return Record(0, 1_700_000_000_000, None, value, tuple(fields.items()))


def headers(sealed):
    return {place: read_header(batch.packed) for place, batch in sealed.items()}


def test_each_partition_has_one_batch_of_the_epoch():
    unsent = Unsent(0)
    for place in (A, B, A):
        unsent.add(place, record())
    sealed = unsent.seal(FIRST)
    found = headers(sealed)
    assert {place: one.record_count for place, one in found.items()} == {A: 2, B: 1}
    for place, one in found.items():
        assert (one.producer_id, one.producer_epoch, one.base_sequence) == (7, 3, 0)
        assert one.is_transactional
        verify(sealed[place].packed, 0)
    assert unsent.seal(FIRST) == {}


def test_sequences_continue_in_an_epoch_and_begin_again_in_the_next():
    unsent = Unsent(0)
    sequences = []
    for epoch in (FIRST, FIRST, Epoch("t", 7, 4), Epoch("t", 8, 4)):
        unsent.add(A, record())
        unsent.add(A, record())
        sequences.append(headers(unsent.seal(epoch))[A].base_sequence)
    assert sequences == [0, 2, 0, 0]


def test_the_size_bounds_the_bytes_before_compression():
    unsent = Unsent(0)
    for _ in range(10):
        size = unsent.add(A, record(b"x" * 100, header=b"y" * 50))
    assert len(unsent.seal(FIRST)[A].packed) <= size
    assert unsent.add(A, record()) < 200


def test_what_is_dropped_takes_no_sequence():
    unsent = Unsent(0)
    unsent.add(A, record())
    unsent.clear()
    unsent.add(A, record())
    assert headers(unsent.seal(FIRST))[A].base_sequence == 0


def test_a_record_has_room_while_all_fit_into_a_batch_of_its_size():
    unsent = Unsent(0)
    large = record(b"x" * 600_000)
    assert unsent.has_room(large, 1_048_576)
    unsent.add(A, large)
    assert not unsent.has_room(large, 1_048_576)
    assert unsent.has_room(record(b"x" * 400_000), 1_048_576)
    unsent.seal(FIRST)
    assert unsent.has_room(record(b"x" * 2_000_000), 1_048_576)  # alone: the broker decides
