"""Batches by size and time, the bound on memory, and an order that retries keep.

The clock is the number each call is given. `Broker` is a model of what a broker does with
sequences; the test of retries drives an outbox against it, with answers lost by chance.
"""

from __future__ import annotations

from random import Random

import pytest

from client.outbox import DeliveryError, Outbox, OutboxSettings, Place, record_bytes
from protocol.records import Record, read_header, read_records

P0, P1 = Place("t", 0), Place("t", 1)


def record(value=b"v", key=None):
    return Record(0, 1_000, key, value)


def outbox(**settings):
    made = Outbox(OutboxSettings(**{"linger_ms": 10, **settings}))
    made.identity = (7, 0)
    return made


def values(batch):
    return [one.value for one in read_records(batch.packed, size_max=1 << 20)]


@pytest.mark.parametrize(
    ("now_ms", "flush", "taken"),
    [(100, False, 0), (109.9, False, 0), (110, False, 1), (100, True, 1)],
)
def test_a_batch_lingers_unless_flushed(now_ms, flush, taken):
    box = outbox()
    box.add(P0, record(), 100)
    box.add(P0, record(), 105)
    assert box.due_ms() == 110
    assert len(box.take(now_ms, flush=flush)) == taken


def test_a_full_batch_goes_at_once_and_the_next_record_opens_another():
    size = record_bytes(record())
    box = outbox(batch_bytes=61 + 2 * size)
    placed = [box.add(P0, record(b"%d" % n), 0) for n in range(3)]
    assert [index for _, index in placed] == [0, 1, 0]
    (batch,) = box.take(0)
    assert values(batch) == [b"0", b"1"]
    assert box.take(50) == []  # the second waits for the first's answer
    box.succeed(batch, 40)
    assert [values(one) for one in box.take(50)] == [[b"2"]]


def test_a_record_larger_than_a_batch_has_one_of_its_own():
    box = outbox(batch_bytes=100)
    box.add(P0, record(b"x" * 1_000), 0)
    box.add(P0, record(b"y"), 0)
    (batch,) = box.take(0)
    assert values(batch) == [b"x" * 1_000]


def test_memory_is_bounded_and_freed_by_answers():
    box = outbox(buffer_bytes=1_000, linger_ms=1_000_000)
    size = record_bytes(record(b"x" * 100))
    count = 0
    while box.room(size):
        box.add(P0, record(b"x" * 100), 0)
        count += 1
    assert 5 < count < 10
    assert box.buffered_bytes <= 1_000
    (batch,) = box.take(0)  # at once: there is no room to wait for more
    assert not box.room(size)
    box.succeed(batch, 0)
    assert box.buffered_bytes == 0
    assert box.room(10_000)  # one alone always fits, or it could never be sent
    assert box.is_empty


def test_one_batch_of_every_partition_is_taken():
    box = outbox(linger_ms=0)
    for place in (P0, P1):
        box.add(place, record(), 0)
    assert [batch.place for batch in box.take(0)] == [P0, P1]
    assert box.due_ms() is None


def test_a_retry_waits_sends_the_same_bytes_and_holds_what_is_behind_it():
    box = outbox(linger_ms=0)
    box.add(P0, record(b"first"), 0)
    (batch,) = box.take(0)
    packed = batch.packed
    box.add(P0, record(b"second"), 0)
    box.retry(batch, 5, 100)
    assert box.due_ms(flush=True) == 105
    assert box.take(104, flush=True) == []
    assert box.take(105) == [batch]
    assert batch.packed == packed
    assert batch.attempts == 2


def test_sequences_follow_one_another_per_partition():
    box = outbox(linger_ms=0)
    found = []
    for place, count in [(P0, 3), (P1, 2), (P0, 1), (P1, 1)]:
        for _ in range(count):
            box.add(place, record(), 0)
        (batch,) = box.take(0)
        header = read_header(batch.packed)
        found.append((place.partition, header.base_sequence, header.producer_id))
        box.succeed(batch, 0)
    assert found == [(0, 0, 7), (1, 0, 7), (0, 3, 7), (1, 2, 7)]


def test_a_refused_batch_leaves_no_gap():
    box = outbox(linger_ms=0)
    refused, _ = box.add(P0, record(), 0)
    box.take(0)
    box.refuse(refused, DeliveryError("too large"))
    box.add(P0, record(), 0)
    (batch,) = box.take(0)
    assert read_header(batch.packed).base_sequence == 0
    assert str(refused.error) == "too large"


def test_a_batch_given_up_takes_the_producer_id_with_it():
    box = outbox(linger_ms=0, delivery_ms=1_000)
    lost, _ = box.add(P0, record(), 0)
    other, _ = box.add(P1, record(), 900)
    assert box.take(900) == [lost, other]
    assert list(box.overdue(1_000)) == []  # under way: the answer may still come
    for batch in (lost, other):
        box.retry(batch, 950, 0)
    assert list(box.overdue(999)) == []
    assert list(box.overdue(1_000)) == [lost]
    box.give_up(lost, DeliveryError("over"))
    assert box.identity is None
    box.identity = (8, 0)
    box.add(P0, record(), 1_000)
    taken = box.take(1_000)
    headers = [read_header(batch.packed) for batch in taken]
    assert [(one.producer_id, one.base_sequence) for one in headers] == [(8, 0), (7, 0)]


def test_what_was_never_sent_can_be_given_up_without_harm():
    box = outbox(delivery_ms=5)
    batch, _ = box.add(P0, record(), 0)
    box.give_up(batch, DeliveryError("over"))
    assert box.identity == (7, 0)


def test_without_idempotence_no_batch_carries_an_id():
    box = Outbox(OutboxSettings(idempotent=False, linger_ms=0))
    box.add(P0, record(), 0)
    (batch,) = box.take(0)
    header = read_header(batch.packed)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (-1, -1, -1)


class Broker:
    """Appends what follows in sequence, repeats the offset of what it has, refuses the rest."""

    def __init__(self):
        self.logs = {}
        self.seen = {}

    def append(self, batch):
        header = read_header(batch.packed)
        log = self.logs.setdefault(batch.place, [])
        known = self.seen.setdefault(batch.place, {})
        if header.base_sequence in known:
            return known[header.base_sequence]
        assert header.base_sequence == len(log), "out of order"
        known[header.base_sequence] = len(log)
        log += values(batch)
        return known[header.base_sequence]


@pytest.mark.parametrize("seed", range(20))
def test_lost_requests_and_lost_answers_lose_nothing_repeat_nothing_and_keep_order(seed):
    chance, broker = Random(seed), Broker()
    box = outbox(linger_ms=3, batch_bytes=200)
    sent = {P0: [], P1: []}
    placed = []
    now_ms = 0
    while len(placed) < 200 or not box.is_empty:
        now_ms += 1
        if len(placed) < 200:
            place, value = chance.choice((P0, P1)), b"%d" % len(placed)
            sent[place].append(value)
            placed.append((*box.add(place, record(value), now_ms), value))
        for batch in box.take(now_ms):
            fate = chance.random()
            if fate < 0.3:
                box.retry(batch, now_ms, 2)
                continue
            offset = broker.append(batch)
            if fate < 0.6:
                box.retry(batch, now_ms, 2)
            else:
                box.succeed(batch, offset)
    assert broker.logs == sent
    for batch, index, value in placed:
        assert broker.logs[batch.place][batch.base_offset + index] == value
