"""A session's partitions: their order, and which of them are looked at."""

from typing import Any

import pytest

from broker.fetch_sessions.fetch_session import UNTOLD, CachedPartition, FetchSession
from broker.partitions.partition import Partition
from protocol.errors import ErrorCode
from protocol.messages.fetch import EpochEndOffset, FetchPartition, PartitionData
from tests.support.fake_log import FakeLog


def session(count: int = 3) -> FetchSession:
    made = FetchSession(7, by_id=False, now_ms=0)
    for number in range(count):
        made.put("t", "t", asked(number))
    return made


def asked(number: int, offset: int = 5) -> FetchPartition:
    return FetchPartition(partition=number, fetch_offset=offset, partition_max_bytes=9)


def cached(of: FetchSession, number: int) -> CachedPartition:
    return of.partitions["t", number]


def numbers(of: FetchSession) -> list[int]:
    return [one.asked.partition for one in of.in_order()]


def bed(high_watermark: int = 5, start: int = 0, stable: int | None = None) -> Partition:
    log: Any = FakeLog()
    log.high_watermark, log.start_offset = high_watermark, start
    log.last_stable_offset = high_watermark if stable is None else stable
    return Partition(log)


def asleep(of: FetchSession, number: int, where: Partition) -> CachedPartition:
    found = cached(of, number)
    found.told_mark, found.told_start = where.log.high_watermark, where.log.start_offset
    of.sleep(found, where)
    return found


def test_what_had_records_goes_to_the_end_and_what_is_named_again_stays() -> None:
    made = session()
    made.move_to_end(cached(made, 0))
    made.put("t", "t", asked(1, 8))
    made.put("t", "t", asked(3))
    assert numbers(made) == [1, 2, 0, 3]
    assert cached(made, 1).asked.fetch_offset == 8


def test_a_sleeper_is_woken_by_its_log_once() -> None:
    made, where = session(), bed()
    one = asleep(made, 1, where)
    assert (numbers(made), made.has_sleepers, list(where.sleepers)) == ([0, 2], True, [one])
    one.wake()
    one.wake()
    assert (numbers(made), made.has_sleepers, list(where.sleepers)) == ([0, 1, 2], False, [])


@pytest.mark.parametrize("way", ["named", "forgotten", "ended", "all"])
def test_a_sleeper_leaves_its_log(way: str) -> None:
    made, where = session(), bed()
    asleep(made, 1, where)
    if way == "named":
        made.put("t", "t", asked(1))
    elif way == "forgotten":
        made.forget(("t", 1))
    elif way == "ended":
        made.end()
    else:
        made.wake_all()
    assert not where.sleepers
    assert (1 in numbers(made)) == (way != "forgotten")


def test_forgetting_what_is_not_there_changes_nothing() -> None:
    made = session()
    made.forget(("t", 9))
    made.forget(("u", 0))
    assert numbers(made) == [0, 1, 2]


def test_what_is_forgotten_does_not_sleep() -> None:
    """A fetch may end after another one has forgotten a partition that it has looked at."""
    made, where = session(), bed()
    gone = cached(made, 1)
    made.forget(("t", 1))
    made.sleep(gone, where)
    assert not where.sleepers
    assert numbers(made) == [0, 2]


@pytest.mark.parametrize(
    ("where", "is_committed", "is_woken", "lost"),
    [
        (bed(), False, False, 0),
        (bed(6), False, True, 1),
        (bed(start=3), False, True, 0),
        (bed(), True, False, 0),
        (bed(stable=4), True, False, 0),
    ],
)
def test_rousing(where: Partition, is_committed: bool, is_woken: bool, lost: int) -> None:
    """A moved log start is no lost wake-up: it wakes nobody."""
    made = session()
    made.is_committed = is_committed
    quiet = bed()
    asleep(made, 0, quiet)
    one = asleep(made, 1, where)
    one.told_mark, one.told_start = 5, 0
    assert made.rouse() == lost
    assert (1 in numbers(made)) == is_woken
    assert 0 not in numbers(made)


def test_what_is_news() -> None:
    """Kafka's rule: records, a divergence, an error; a high watermark or log start that moved."""
    one = cached(session(), 0)

    def tell(**fields: Any) -> bool:
        told = {"high_watermark": 5, "log_start_offset": 0, "records": b"", **fields}
        return one.tell(PartitionData(partition_index=0, **told))

    assert [tell(), tell()] == [True, False]
    assert [tell(high_watermark=6), tell(high_watermark=6), tell()] == [True, False, True]
    assert [tell(log_start_offset=2), tell(log_start_offset=2), tell()] == [True, False, True]
    assert [tell(records=b"x"), tell(records=b"x"), tell()] == [True, True, False]
    diverged = EpochEndOffset(epoch=1, end_offset=2)
    assert [tell(diverging_epoch=diverged), tell()] == [True, False]
    failed = {"error_code": ErrorCode.OFFSET_OUT_OF_RANGE, "high_watermark": -1}
    assert [tell(**failed), tell(**failed)] == [True, True]
    assert one.told_mark == UNTOLD
    assert [tell(), tell()] == [True, False]


def test_epochs_go_round() -> None:
    made = session()
    made.epoch = 2**31 - 1
    assert [made.next_epoch(), made.next_epoch()] == [1, 2]
