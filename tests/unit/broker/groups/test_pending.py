"""Pending offsets: what a marker makes of them, and what makes them go before it."""

import pytest

from broker.groups.group import Expiry
from broker.groups.offsets import Offsets
from protocol.group_records import OffsetCommitKey, OffsetCommitValue

A, B = 8, 9  # producers


def key(group="g", topic="t", partition=0):
    return OffsetCommitKey(group=group, topic=topic, partition=partition)


class Log:
    """Offsets, with the records applied to them in the order of a log."""

    def __init__(self):
        self.offsets = Offsets()
        self.end = 0

    def plain(self, offset, **place):
        value = None if offset is None else OffsetCommitValue(offset=offset, commit_timestamp=1)
        self.offsets.apply(key(**place), value, self.end)
        self.end += 1

    def pend(self, producer, offset, **place):
        value = OffsetCommitValue(offset=offset, commit_timestamp=1)
        self.offsets.apply_pending(key(**place), value, self.end, producer)
        self.end += 1

    def ends(self, producer, *, commits):
        self.end += 1
        return set(self.offsets.end_transaction(producer, is_commit=commits))

    def committed(self, **place):
        one = key(**place)
        found = self.offsets.get(one.group, one.topic, one.partition)
        return None if found is None else found.offset

    def is_empty(self):
        pending = self.offsets.pending
        left = pending.producers() or pending._producers or pending._first or pending._at
        return not left and not self.offsets._groups


@pytest.fixture
def log():
    return Log()


def test_a_pending_offset_counts_when_it_is_committed(log):
    log.plain(1)
    log.pend(A, 5)
    assert (log.committed(), log.offsets.pending.has("g", "t", 0)) == (1, True)
    assert log.ends(A, commits=True) == {"g"}
    assert (log.committed(), log.offsets.pending.has("g", "t", 0)) == (5, False)


def test_an_aborted_offset_never_counts_and_leaves_nothing(log):
    log.pend(A, 5)
    assert log.ends(A, commits=False) == {"g"}
    assert log.committed() is None
    assert log.is_empty()


def test_an_unknown_transaction_and_a_second_marker_change_nothing(log):
    log.pend(A, 5)
    assert log.ends(B, commits=True) == set()
    assert log.ends(A, commits=True) == {"g"}
    log.plain(6)
    assert log.ends(A, commits=True) == set()
    assert log.committed() == 6


@pytest.mark.parametrize("commits", [True, False])
def test_a_marker_that_is_applied_late_leaves_the_next_transaction_alone(log, commits):
    log.pend(A, 5)
    marker_offset = log.end
    log.ends(A, commits=True)
    log.pend(A, 6)
    late = {"is_commit": commits, "marker_offset": marker_offset}
    assert log.offsets.end_transaction(A, **late) == {}.keys()
    assert (log.committed(), log.offsets.pending.has("g", "t", 0)) == (5, True)
    log.ends(A, commits=True)
    assert log.committed() == 6


def test_the_last_offset_of_a_transaction_counts(log):
    log.pend(A, 5)
    log.pend(A, 4)
    log.ends(A, commits=True)
    assert log.committed() == 4


def test_a_plain_commit_wins_that_comes_later_in_the_log(log):
    log.pend(A, 5)
    log.plain(6)
    assert log.offsets.pending.has("g", "t", 0), "still undecided"
    log.ends(A, commits=True)
    assert log.committed() == 6
    log.pend(A, 5)
    log.ends(A, commits=True)
    assert log.committed() == 5


@pytest.mark.parametrize("order", [(A, B), (B, A)])
def test_of_two_transactions_the_later_record_wins_whichever_ends_first(log, order):
    log.pend(A, 5)
    log.pend(B, 6)
    for producer in order:
        log.ends(producer, commits=True)
    assert log.committed() == 6


def test_one_of_two_transactions_keeps_a_partition_unstable(log):
    log.pend(A, 5)
    log.pend(B, 6)
    log.ends(B, commits=False)
    assert log.offsets.pending.has("g", "t", 0)
    log.ends(A, commits=True)
    assert log.committed() == 5


def test_a_transaction_ends_in_all_its_groups_and_topics(log):
    log.plain(1, partition=1)
    for place in ({}, {"partition": 1}, {"topic": "u"}, {"group": "h"}):
        log.pend(A, 5, **place)
    log.pend(B, 7, group="h", topic="u")
    assert log.ends(A, commits=True) == {"g", "h"}
    assert [log.committed(**one) for one in ({}, {"partition": 1}, {"topic": "u"})] == [5, 5, 5]
    assert log.committed(group="h") == 5
    assert log.offsets.pending.has_group("h")
    assert not log.offsets.pending.has_group("g")


def test_a_tombstone_drops_the_pending_offsets_of_its_partition_alone(log):
    log.plain(1)
    for producer in (A, B):
        log.pend(producer, 5)
        log.pend(producer, 6, partition=1)
    log.plain(None)
    assert not log.offsets.has("g", "t", 0)
    assert log.offsets.has("g", "t", 1)
    for producer in (A, B):
        log.ends(producer, commits=True)
    assert (log.committed(), log.committed(partition=1)) == (None, 6)


def test_a_tombstone_in_a_transaction_does_not_wait_for_its_end(log):
    log.plain(1)
    log.pend(A, 5)
    log.offsets.apply_pending(key(), None, log.end, A)
    assert log.is_empty()


def test_the_tombstones_of_a_group_cover_its_pending_offsets_once(log):
    log.plain(1)
    for producer in (A, B):
        log.pend(producer, 5)
        log.pend(producer, 5, topic="u", partition=3)
    log.pend(A, 5, group="h")
    found = [(one.topic, one.partition, value) for one, value in log.offsets.tombstones("g")]
    assert found == [("t", 0, None), ("u", 3, None)]


def test_a_deleted_topic_loses_its_pending_offsets(log):
    log.plain(1)
    log.pend(A, 5)
    log.pend(A, 5, partition=2)
    log.pend(A, 5, group="h")
    log.pend(A, 5, group="h", topic="u")
    taken = log.offsets.take_topic("t")
    assert {group: list(of) for group, of in taken.items()} == {"g": [0, 2], "h": [0]}
    assert not log.offsets.has_group("g")
    log.ends(A, commits=True)
    assert (log.committed(), log.committed(group="h", topic="u")) == (None, 5)
    assert log.offsets.take_topic("t") == {}


def test_an_offset_does_not_expire_beside_a_pending_one(log):
    log.plain(1)
    log.plain(1, partition=1)
    log.pend(A, 5)

    def expired():
        places = list(log.offsets.places("g"))
        found = log.offsets.expired("g", places, Expiry(None), lambda _: False, 10_000, 1_000)
        return [one.partition for one, _ in found]

    assert expired() == [1]
    log.ends(A, commits=False)
    assert expired() == [0, 1]


def test_ten_thousand_offsets_end_in_one_short_step(log):
    for partition in range(10_000):
        log.plain(1, partition=partition)
        log.pend(A, 5, partition=partition)
    log.ends(A, commits=True)
    assert {one.offset for one in log.offsets.topics("g")["t"].values()} == {5}


def test_a_place_knows_only_the_producers_that_are_there(log):
    log.pend(0, 0, partition=1)  # so that the group never is without
    for producer in range(1, 50):
        log.pend(producer, producer)
        log.ends(producer, commits=producer % 2 == 0)
    assert len(log.offsets.pending._at["g"]["t", 0]) <= 2
    assert not log.offsets.pending.has("g", "t", 0)
    assert log.offsets.pending._at["g"].keys() == {("t", 1)}
    assert list(log.offsets.pending.places("g")) == [("t", 1)]


def test_a_place_of_many_producers_is_free_when_the_last_has_left(log):
    for producer in range(5):
        log.pend(producer, producer)
        log.pend(producer, producer, partition=producer + 1)
    for producer in (3, 0, 4, 1):
        log.ends(producer, commits=False)
        assert log.offsets.pending.has("g", "t", 0)
        assert not log.offsets.pending.has("g", "t", producer + 1)
    assert list(log.offsets.pending.places("g")) == [("t", 0), ("t", 3)]
    log.ends(2, commits=True)
    assert (log.offsets.pending.has("g", "t", 0), log.committed()) == (False, 2)


class Counted(dict):
    """Offsets of producers, which count how often somebody looks."""

    looked = 0

    def get(self, *args):
        Counted.looked += 1
        return super().get(*args)

    def __getitem__(self, key):
        Counted.looked += 1
        return super().__getitem__(key)


def test_whether_a_place_is_pending_does_not_depend_on_how_many_producers_a_group_has(log):
    pending = log.offsets.pending
    pending._of = Counted()
    for producer in range(300):
        log.pend(producer, 1, partition=producer)
    Counted.looked = 0
    assert all(pending.has("g", "t", partition) for partition in range(300))
    assert not any(pending.has("g", "t", partition) for partition in range(300, 600))
    assert len(list(pending.places("g"))) == 300
    for partition in range(300):
        log.plain(None, partition=partition)
    assert Counted.looked < 300 * 10
    assert log.is_empty()
