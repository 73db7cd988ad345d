"""Which part of a log is dirty, and when the cleaner compacts it."""

import pytest

from storage.compaction.cleanable import Cleanable, find_cleanable
from tests.support.compacting import COMPACTED, clean, fill, keyed, settle
from tests.support.log_house import NOW, House, delete_records

ONE = len(keyed([(b"k01", b"010")]))
HOUR = 3_600_000


def filled(count=23, **config):
    house = House()
    house.open()
    log = house.log(**(COMPACTED | {"internal_segment_bytes": 5 * ONE} | config))
    fill(log, count)
    settle(house, log)
    return house, log


def test_all_but_the_active_segment_is_dirty_at_first():
    _, log = filled()
    part = find_cleanable(log, NOW)
    assert part == Cleanable(0, 20, 0, 20 * ONE, is_overdue=False)
    assert part.ratio == 1


def test_a_pass_ends_at_the_recovery_point_that_is_in_the_checkpoint_file():
    """That of the log may be higher by now: recovery would meet holes above the one in the file."""
    _, log = filled()
    assert find_cleanable(log, NOW, 14).end_offset == 10


def test_cleaned_segments_count_as_clean():
    house, log = filled()
    clean(house, log)
    clean_bytes = sum(segment.size for segment in log.segments.all[:-1])
    assert find_cleanable(log, NOW) == Cleanable(20, 20, clean_bytes, 0, is_overdue=False)
    fill(log, 10, start=23)
    settle(house, log)
    part = find_cleanable(log, NOW)
    assert part == Cleanable(20, 30, clean_bytes, 10 * ONE, is_overdue=False)
    assert 0.5 < part.ratio < 1


@pytest.mark.parametrize(
    ("dirty_bytes", "is_overdue", "worth_it"),
    [(0, True, False), (50, False, False), (51, False, True), (1, True, True)],
)
def test_the_ratio_or_the_age_starts_a_pass(dirty_bytes, is_overdue, worth_it):
    part = Cleanable(0, 1, 100 - dirty_bytes, dirty_bytes, is_overdue)
    assert part.is_worth_it(0.5) is worth_it


def test_an_empty_log_has_nothing_to_clean():
    _, log = filled(0)
    part = find_cleanable(log, NOW)
    assert (part.ratio, part.is_worth_it(0.0)) == (0, False)


def test_records_younger_than_the_compaction_lag_are_not_dirty():
    house, log = filled(10)
    log.update_config(log.config.with_overrides({"min.compaction.lag.ms": str(HOUR)}))
    fill(log, 12, timestamp=NOW + HOUR // 2)
    settle(house, log)
    for now_ms, end_offset in (
        (NOW, 0),
        (NOW + HOUR, 10),
        (NOW + HOUR + HOUR // 2 - 1, 10),
        (NOW + HOUR + HOUR // 2, 20),
    ):
        assert find_cleanable(log, now_ms).end_offset == end_offset, now_ms - NOW


def test_the_lag_of_records_without_timestamps_counts_from_their_segment():
    """Kafka takes the time of the file (LogSegment.largestTimestamp)."""
    house, log = filled(0, min_compaction_lag_ms=HOUR)
    for n in range(12):
        log.append(keyed([(b"k", b"%03d" % n)], timestamp=-1), NOW)
    settle(house, log)
    assert log.segments.all[0].max_timestamp == -1
    assert find_cleanable(log, NOW + HOUR - 1).end_offset == 0
    assert find_cleanable(log, NOW + HOUR).end_offset > 0


def test_old_dirty_records_are_overdue():
    _, log = filled()
    log.update_config(log.config.with_overrides({"max.compaction.lag.ms": str(HOUR)}))
    assert not find_cleanable(log, NOW + HOUR).is_overdue
    assert find_cleanable(log, NOW + HOUR + 1).is_overdue
    log.segments.cleaned.offset = 20
    assert not find_cleanable(log, NOW + 9 * HOUR).is_overdue


def test_a_checkpoint_outside_the_log_counts_as_none(caplog):
    house, log = filled()
    log.segments.cleaned.offset = 24
    assert find_cleanable(log, NOW).start_offset == 0
    assert "larger than the log end offset 23" in caplog.text
    assert log.segments.cleaned.offset == 0
    log.segments.cleaned.offset = 3
    delete_records(house, log, 7)
    assert find_cleanable(log, NOW).start_offset == 7


def test_partly_visible_segments_wait():
    _, log = filled()
    log.high_watermark = 12
    assert find_cleanable(log, NOW).end_offset == 10
    log.high_watermark, log.recovery_point = 23, 19
    assert find_cleanable(log, NOW).end_offset == 15
