"""Batches by size and time, the memory bound, and the order of records under retries.

Each call gets the time as a number. `Broker` models how a broker handles sequence numbers; the
test of retries runs a producer's batches against it and loses answers at random.
"""

from __future__ import annotations

from random import Random

import pytest

from client.msgpack.unacknowledged import (
    DeliveryError,
    ProducerSettings,
    Unacknowledged,
)
from client.places import Place
from client.record_size import record_bytes
from protocol.records import Record, read_header, read_records

P0, P1 = Place("t", 0), Place("t", 1)


def record(value=b"v", key=None):
    return Record(0, 1_000, key, value)


def holding(**settings):
    made = Unacknowledged(ProducerSettings(**{"linger_ms": 10, **settings}))
    made.identity = (7, 0)
    return made


def values(batch):
    return [one.value for one in read_records(batch.packed, size_max=1 << 20)]


@pytest.mark.parametrize(
    ("now_ms", "flush", "taken"),
    [(100, False, 0), (109.9, False, 0), (110, False, 1), (100, True, 1)],
)
def test_a_batch_lingers_unless_flushed(now_ms, flush, taken):
    box = holding()
    box.add(P0, record(), 100)
    box.add(P0, record(), 105)
    assert box.due_ms() == 110
    assert len(box.take(now_ms, flush=flush)) == taken


def test_a_full_batch_is_sent_at_once_and_the_next_record_opens_another():
    size = record_bytes(record())
    box = holding(batch_bytes=61 + 2 * size)
    placed = [box.add(P0, record(b"%d" % n), 0) for n in range(3)]
    assert [index for _, index in placed] == [0, 1, 0]
    (batch,) = box.take(0)
    assert values(batch) == [b"0", b"1"]
    assert box.take(50) == []  # the second batch waits for the answer to the first
    box.succeed(batch, 40)
    assert [values(one) for one in box.take(50)] == [[b"2"]]


@pytest.mark.parametrize("idempotent", [False, True])
def test_a_batch_that_is_too_large_is_sent_in_halves_in_its_place(idempotent):
    box = holding(idempotent=idempotent)
    for n in range(5):
        box.add(P0, record(b"%d" % n), 0)
    (batch,) = box.take(0, flush=True)
    box.add(P0, record(b"5"), 0)
    assert box.may_split(batch)
    box.split(batch)
    taken = []
    while not box.is_empty:
        (one,) = box.take(200, flush=True)
        assert values(one) != [b"2", b"3", b"4"] or taken, "the first half goes first"
        taken.append((values(one), one.base_sequence))
        box.succeed(one, 40)
    sequences = [0, 2, 5] if idempotent else [-1, -1, -1]
    assert [found for found, _ in taken] == [[b"0", b"1"], [b"2", b"3", b"4"], [b"5"]]
    assert [found for _, found in taken] == sequences
    assert box.buffered_bytes == 0


def test_after_a_split_the_partitions_batches_are_smaller():
    box = holding()
    for place in (P0, P1):
        box.add(place, record(b"x" * 100), 0)
        box.add(place, record(b"x" * 100), 0)
    refused, _ = box.take(0, flush=True)
    box.split(refused)
    opened = [[box.add(place, record(b"x" * 100), 0)[1] for _ in "12"] for place in (P0, P1)]
    assert opened == [[0, 0], [0, 1]]


def test_neither_a_single_record_nor_a_batch_that_may_be_appended_is_split():
    box = holding()
    box.add(P0, record(), 0)
    box.add(P1, record(), 0)
    box.add(P1, record(), 0)
    single, double = box.take(0, flush=True)
    assert not box.may_split(single)
    box.retry(double, 0, unsure=True)
    assert not box.may_split(double)


def test_a_record_larger_than_a_batch_gets_its_own_batch():
    box = holding(batch_bytes=100)
    box.add(P0, record(b"x" * 1_000), 0)
    box.add(P0, record(b"y"), 0)
    (batch,) = box.take(0)
    assert values(batch) == [b"x" * 1_000]


def test_memory_is_bounded_and_freed_by_answers():
    box = holding(buffer_bytes=1_000, linger_ms=1_000_000)
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
    assert box.room(10_000)  # a single record always fits, or it could never be sent
    assert box.is_empty


def test_one_batch_of_every_partition_is_taken():
    box = holding(linger_ms=0)
    for place in (P0, P1):
        box.add(place, record(), 0)
    assert [batch.place for batch in box.take(0)] == [P0, P1]
    assert box.due_ms() is None


def test_a_retry_waits_sends_the_same_bytes_and_holds_later_batches():
    box = holding(linger_ms=0)
    box.add(P0, record(b"first"), 0)
    (batch,) = box.take(0)
    packed = batch.packed
    box.add(P0, record(b"second"), 0)
    box.retry(batch, 5, unsure=True)
    assert box.due_ms(flush=True) == 105
    assert box.take(104, flush=True) == []
    assert box.take(105) == [batch]
    assert batch.packed == packed
    assert batch.attempts == 2


def test_sequences_are_consecutive_per_partition():
    box = holding(linger_ms=0)
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
    box = holding(linger_ms=0)
    refused, _ = box.add(P0, record(), 0)
    box.take(0)
    box.fail(refused, DeliveryError("too large"))
    box.add(P0, record(), 0)
    (batch,) = box.take(0)
    assert read_header(batch.packed).base_sequence == 0
    assert str(refused.error) == "too large"


def test_an_expired_batch_ends_the_epoch():
    box = holding(linger_ms=0, delivery_ms=1_000)
    lost, _ = box.add(P0, record(), 0)
    other, _ = box.add(P1, record(), 900)
    assert box.take(900) == [lost, other]
    assert list(box.overdue(1_000)) == []  # in flight: the answer may still come
    for batch in (lost, other):
        box.retry(batch, 950, unsure=True)
    assert list(box.overdue(999)) == []
    assert list(box.overdue(1_000)) == [lost]
    box.fail(lost, DeliveryError("over"))
    assert box.identity == (7, 1)
    new, _ = box.add(P0, record(), 1_000)
    assert sorted(box.take(1_050), key=lambda one: one.place) == [new, other]
    headers = [read_header(batch.packed) for batch in (new, other)]
    assert [(one.producer_epoch, one.base_sequence) for one in headers] == [(1, 0), (0, 0)]


def test_an_unsent_batch_expires_without_ending_the_epoch():
    box = holding(delivery_ms=5)
    batch, _ = box.add(P0, record(), 0)
    box.fail(batch, DeliveryError("over"))
    assert box.identity == (7, 0)


def test_without_idempotence_no_batch_carries_an_id():
    box = Unacknowledged(ProducerSettings(idempotent=False, linger_ms=0))
    box.add(P0, record(), 0)
    (batch,) = box.take(0)
    header = read_header(batch.packed)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (-1, -1, -1)


def taken_in_turn(box, count, place=P0):
    """Add `count` records, each in its own batch, and take all batches that may be sent."""
    batches = []
    for number in range(count):
        box.add(place, record(b"%d" % number), 0)
        batches += box.take(0)
    return batches


def test_a_partition_has_one_batch_in_flight_until_the_broker_knows_the_producer_then_five():
    box = holding(linger_ms=0, batch_bytes=1)
    (first,) = taken_in_turn(box, 8)
    box.succeed(first, 0)
    later = [box.take(0) for _ in range(7)]
    assert [len(one) for one in later] == [1, 1, 1, 1, 1, 0, 0]
    assert [one[0].base_sequence for one in later[:5]] == [1, 2, 3, 4, 5]
    box.succeed(later[0][0], 1)
    assert [one.base_sequence for one in box.take(0)] == [6]


def test_without_idempotence_one_batch_is_in_flight():
    box = holding(linger_ms=0, batch_bytes=1, idempotent=False)
    (first,) = taken_in_turn(box, 3)
    box.succeed(first, 0)
    assert len(box.take(0)) == 1
    assert box.take(0) == []


def pipelined(count):
    """Return a producer's batches: one acknowledged, and `count` in flight after it."""
    box = holding(linger_ms=0, batch_bytes=1)
    (first,) = taken_in_turn(box, 1)
    box.succeed(first, 0)
    return box, taken_in_turn(box, count)


def test_after_a_failure_batches_in_flight_are_awaited_and_the_first_is_sent_alone():
    box, (one, two, three) = pipelined(3)
    box.retry(one, 0, unsure=True)
    assert box.take(5_000) == []
    box.out_of_order(two, 0)
    box.out_of_order(three, 0)
    assert box.identity == (7, 0)  # they failed only because the batch before them is missing
    assert box.take(5_000) == [one]
    assert box.take(5_000) == []
    box.succeed(one, 1)
    assert (box.take(5_000), box.take(5_000)) == ([two], [three])
    assert [two.base_sequence, three.base_sequence] == [2, 3]


def test_batches_after_a_refused_one_restart_in_the_next_epoch():
    box, (one, two, three) = pipelined(3)
    box.fail(one, DeliveryError("too large"))
    box.out_of_order(two, 0)
    assert box.identity == (7, 1)
    assert box.take(5_000) == []  # the third is still in flight in the old epoch
    box.out_of_order(three, 0)
    assert box.take(5_000) == [two]
    assert (two.identity, two.base_sequence) == ((7, 1), 0)
    box.succeed(two, 1)
    assert box.take(5_000) == [three]
    assert (three.identity, three.base_sequence) == ((7, 1), 1)


def test_a_refusal_after_an_unanswered_attempt_ends_the_epoch():
    box, (one,) = pipelined(1)
    box.retry(one, 0, unsure=True)
    assert box.take(5_000) == [one]
    box.fail(one, DeliveryError("too large"))
    assert box.identity == (7, 1)


def test_the_last_epoch_is_followed_by_another_producer_id():
    box = holding(linger_ms=0)
    box.identity = (7, (1 << 15) - 1)
    box.add(P0, record(), 0)
    (batch,) = box.take(0)
    box.out_of_order(batch, 0)
    assert box.identity is None
    assert box.due_ms() == 100


def test_retries_back_off_up_to_a_bound():
    box = holding(linger_ms=0)
    box.add(P0, record(), 0)
    waits = []
    for _ in range(6):
        (batch,) = box.take(100_000)
        box.retry(batch, 0, unsure=True)
        waits.append(batch.retry_ms)
    assert waits == [100, 200, 400, 800, 1_000, 1_000]


def test_a_request_is_bounded_and_includes_every_partition_in_turn():
    box = holding(linger_ms=0, request_bytes=450)
    places = [Place("t", number) for number in range(5)]
    for place in places:
        box.add(place, record(b"x" * 100), 0)
    taken = [[batch.place.partition for batch in box.take(0)] for _ in range(4)]
    assert taken == [[0, 1], [2, 3], [4], []]


def test_an_acknowledged_batch_holds_no_bytes():
    box = holding(linger_ms=0)
    box.add(P0, record(), 0)
    (batch,) = box.take(0)
    box.succeed(batch, 0)
    assert (batch.records, batch.packed) == ([], b"")


class Broker:
    """A broker's handling of sequences, over connections that break.

    It may still execute a request whose connection broke, at any later time.
    """

    def __init__(self, chance):
        self.logs = {}
        self.requests = []  # on this connection, (batch, its bytes at the send)
        self.late = []  # on earlier connections
        # (producer id, place) -> (id, epoch), its last five (base sequence, count, offset)
        self._known = {}
        self._chance = chance
        self._refused = {b"%d" % number for number in chance.sample(range(300), 5)}

    def append(self, place, packed):
        """Return (code, base offset)."""
        header = read_header(packed)
        identity = (header.producer_id, header.producer_epoch)
        known_identity, known = self._known.get((header.producer_id, place), (None, []))
        if known_identity is not None and identity < known_identity:
            return 47, -1
        if identity != known_identity:
            if known and header.base_sequence:
                return 45, -1
            known = []
        found = [one for one in known if one[:2] == (header.base_sequence, header.record_count)]
        if found:
            return 0, found[0][2]
        if known and sum(known[-1][:2]) != header.base_sequence:
            return 45, -1
        values = [one.value for one in read_records(packed, size_max=1 << 20)]
        if any(value in self._refused for value in values):
            return 10, -1
        if self._chance.random() < 0.07:
            return 6, -1
        log = self.logs.setdefault(place, [])
        known.append((header.base_sequence, header.record_count, len(log)))
        self._known[header.producer_id, place] = identity, known[-5:]
        log += values
        return 0, known[-1][2]

    def break_connection(self):
        """Break the connection; return the batches that get no answer."""
        lost, self.requests = self.requests, []
        self.late += lost
        return [batch for batch, _ in lost]

    def step(self):
        """Execute the next request, or one of an earlier connection; return the answer."""
        if self.late and self._chance.random() < 0.3:
            batch, packed = self.late.pop(0)
            self.append(batch.place, packed)
            return None
        if not self.requests:
            return None
        batch, packed = self.requests.pop(0)
        return batch, *self.append(batch.place, packed)


def answered(box, broker, now_ms):
    """Let the broker take one step and pass its answer to the producer."""
    step = broker.step()
    if step is None:
        return
    batch, code, offset = step
    if code == 0:
        box.succeed(batch, offset)
    elif code == 45:
        box.out_of_order(batch, now_ms)
    elif code == 10 and box.may_split(batch):
        box.split(batch)
    elif code == 10:
        box.fail(batch, DeliveryError("too large"))
    else:
        box.retry(batch, now_ms, unsure=True)


def in_the_end(batch, index):
    while batch.halves is not None:
        batch, index = batch.half_of(index)
    return batch, index


@pytest.mark.parametrize("seed", range(60))
def test_under_any_failure_no_acknowledged_record_is_lost_duplicated_or_reordered(seed):
    chance = Random(seed)
    broker = Broker(chance)
    box = holding(linger_ms=1, batch_bytes=120, retry_ms=2, retry_ms_max=8)
    sent = {P0: [], P1: []}
    placed = []
    now_ms = 0
    while len(placed) < 300 or not box.is_empty:
        now_ms += 1
        for _ in range(chance.randrange(4) if len(placed) < 300 else 0):
            place, value = chance.choice((P0, P1)), b"%d" % len(placed)
            sent[place].append(value)
            placed.append((*box.add(place, record(value), now_ms), value))
        broker.requests += [(batch, batch.packed) for batch in box.take(now_ms)]
        if chance.random() < 0.03:
            for batch in broker.break_connection():
                box.retry(batch, now_ms, unsure=True)
        if chance.random() < 0.6:
            answered(box, broker, now_ms)
    placed = [(*in_the_end(batch, index), value) for batch, index, value in placed]
    failed = {value for batch, _, value in placed if batch.error is not None}
    assert len(failed) < len(placed)
    for place, log in broker.logs.items():
        assert [value for value in log if value not in failed] == [
            value for value in sent[place] if value not in failed
        ]
    for batch, index, value in placed:
        if batch.error is None:
            assert broker.logs[batch.place][batch.base_offset + index] == value
