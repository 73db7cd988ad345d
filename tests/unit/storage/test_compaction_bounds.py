"""The extremes of a pass: times at the ends of 64 bits, and any number of producers."""

import pytest

from storage.compaction.cleanable import find_cleanable
from storage.compaction.one_pass import compact
from tests.support.compacting import (
    COMPACTED,
    clean,
    drive,
    fill,
    keyed,
    limits,
    records_of,
    settle,
)
from tests.support.log_house import NOW, House

ONE = len(keyed([(b"k01", b"010")]))
FIVE = COMPACTED | {"internal_segment_bytes": 5 * ONE, "index_interval_bytes": ONE}


def house_with(count, **options):
    house = House()
    house.open()
    log = house.log(**FIVE)
    fill(log, count, **options)
    return house, log


@pytest.mark.parametrize("retention_ms", [1000, 2**63 - 1])
@pytest.mark.parametrize("timestamp", [NOW, 0, NOW - (2**63 - 1)])
def test_a_tombstone_may_have_any_retention_and_any_age(retention_ms, timestamp):
    """It stays until its horizon, at most the largest 64-bit time, and keeps its timestamp."""
    house, log = house_with(0)
    log.update_config(log.config.with_overrides({"delete.retention.ms": str(retention_ms)}))
    log.append(keyed([(b"gone", None)], timestamp=timestamp), NOW)
    fill(log, 9)
    for now_ms in (NOW, NOW + 10**12):
        clean(house, log, now_ms)
        fill(log, 5)
        tombstones = [record for record in records_of(log) if record.key == b"gone"]
        if now_ms == NOW or retention_ms > 1000:
            assert [record.timestamp for record in tombstones] == [timestamp]
        else:
            assert tombstones == []


def test_the_callers_thread_copies_no_producers(monkeypatch):
    """There may be 100,000 of them, and any number of groups of segments."""
    house, log = house_with(23, pid=5)

    class Uncopied(dict):
        def __iter__(self):
            pytest.fail("all producers were gone through")

        items = values = keys = __iter__

    settle(house, log)
    monkeypatch.setattr(log.producers, "entries", Uncopied(log.producers.entries))
    drive(compact(log, find_cleanable(log, NOW), limits(), NOW))
    assert 19 in [record.offset for record in records_of(log)]
    assert log.segments.cleaned.offset == 20
