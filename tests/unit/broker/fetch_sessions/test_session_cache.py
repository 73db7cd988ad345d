"""Which sessions there are, and which one goes: Kafka's rules, by hand."""

import random

import pytest

from broker.fetch_sessions import session_cache
from broker.fetch_sessions.fetch_session import FetchSession
from broker.fetch_sessions.session_cache import EVICTION_MS, SHARDS, SessionCache
from broker.runtime.metrics import Metrics
from protocol.messages.fetch import FetchPartition, FetchTopic


class Rig:
    def __init__(self, slots: int) -> None:
        self.now_ms = 0
        self.metrics = Metrics()
        drawn = random.Random(1).randbytes
        self.cache = SessionCache(slots, lambda: self.now_ms, drawn, self.metrics)

    def create(self, size: int = 1) -> FetchSession | None:
        made = self.cache.create(size, by_id=False)
        if made is not None:
            for number in range(size):
                made.put("t", "t", asked(number))
            self.cache.grew(size)
        return made

    def fill(self, *sizes: int) -> list[FetchSession]:
        """One session of each size in the first shard, and as many in the others."""
        found = []
        for size in sizes:
            made = [self.create(size if shard == 0 else 50) for shard in range(SHARDS)]
            assert made[0] is not None
            found.append(made[0])
        return found

    def in_first_shard(self, size: int) -> FetchSession | None:
        """Try to create a session there; the other shards are full of large ones."""
        made = self.create(size)
        for _ in range(SHARDS - 1):
            self.create(1)
        return made


def asked(number: int) -> FetchPartition:
    return FetchPartition(partition=number, fetch_offset=0, partition_max_bytes=9)


def test_ids_are_positive_and_tell_their_shard() -> None:
    rig = Rig(800)
    made = [rig.create() for _ in range(400)]
    ids = [one.id for one in made if one is not None]
    assert len(set(ids)) == 400
    assert all(0 < one < 2**31 for one in ids)
    assert all(rig.cache.get(one.id) is one for one in made if one is not None)
    assert rig.cache.get(0) is rig.cache.get(-5) is rig.cache.get(2**31 - 1) is None


@pytest.mark.parametrize(("slots", "expected"), [(0, 0), (7, 0), (8, 8), (15, 8), (16, 16)])
def test_each_shard_has_an_eighth_of_the_slots(slots: int, expected: int) -> None:
    rig = Rig(slots)
    made = [rig.create() for _ in range(40)]
    assert sum(one is not None for one in made) == expected
    assert rig.metrics.fetch_sessions_now == expected
    assert rig.metrics.fetch_sessions_declined == 40 - expected
    assert rig.metrics.fetch_session_evictions == 0


def test_one_that_was_not_used_goes_first() -> None:
    rig = Rig(16)
    first, second = rig.fill(1, 2)
    rig.now_ms = EVICTION_MS
    rig.cache.touch(first)
    assert rig.in_first_shard(9) is None  # not yet
    rig.now_ms += 1
    assert rig.in_first_shard(1) is not None
    assert (rig.cache.has(first), rig.cache.has(second)) == (True, False)


def test_a_larger_one_goes_before_the_smallest_of_age() -> None:
    rig = Rig(24)
    small, middle, young = rig.fill(2, 3, 1)
    young.created_ms = EVICTION_MS  # as of its last use, it is not of age
    rig.now_ms = EVICTION_MS + 1
    for one in (small, middle, young):
        rig.cache.touch(one)
    assert rig.in_first_shard(2) is None
    assert rig.in_first_shard(3) is not None
    assert [rig.cache.has(one) for one in (small, middle, young)] == [False, True, True]


def test_what_leaves_is_not_counted() -> None:
    rig = Rig(16)
    (one,) = rig.fill(3)
    before = rig.metrics.fetch_session_partitions_now
    rig.cache.remove(one.id)
    rig.cache.remove(one.id)
    assert rig.metrics.fetch_sessions_now == SHARDS - 1
    assert rig.metrics.fetch_session_partitions_now == before - 3


def test_partitions_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session_cache, "PARTITIONS_MAX", 10)
    monkeypatch.setattr(session_cache, "PARTITIONS_OF_ONE_MAX", 6)
    rig = Rig(800)
    assert rig.create(7) is None
    one = rig.create(4)
    assert one is not None
    named = [FetchTopic(topic="t", partitions=[asked(number) for number in range(6)])]
    assert rig.cache.may_grow(one, named)  # four of them are there
    assert not rig.cache.may_grow(one, [FetchTopic(topic="u", partitions=named[0].partitions[:3])])
    assert rig.create(6) is not None
    assert rig.create(1) is None
    assert rig.cache.may_grow(one, [FetchTopic(topic="t", partitions=[asked(0)])])
    assert not rig.cache.may_grow(one, named)
