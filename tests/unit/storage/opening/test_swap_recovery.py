"""What the next start does with an interrupted compaction, file by file."""

import pytest

from tests.support.compacting import COMPACTED, clean, fill, keyed, records_of, settle
from tests.support.log_house import House

ONE = len(keyed([(b"k01", b"010")]))
SMALL = COMPACTED | {"internal_segment_bytes": 5 * ONE, "index_interval_bytes": ONE}
LARGE = COMPACTED | {"internal_segment_bytes": 10 * ONE, "index_interval_bytes": ONE}
KINDS = ("log", "index", "timeindex")
BASES = (0, 5, 10, 15)


def stopped():
    """Segments 0, 5, 10, 15 and 20, and the two segments that replace the first four."""
    house = House()
    house.open()
    log = house.log(**SMALL)
    fill(log, 23)
    settle(house, log)
    log.update_config(log.config.with_overrides({"internal.segment.bytes": str(10 * ONE)}))
    before = records_of(log)
    originals = {n: house.filesystem.live_bytes(house.path(n)) for n in house.names()}
    clean(house, log)
    after = records_of(log)
    merged = {
        f"{base:020}.{kind}": house.filesystem.live_bytes(house.path(f"{base:020}.{kind}"))
        for base in (0, 10)
        for kind in KINDS
    }
    house.kill()
    for name in house.names(".deleted"):
        house.filesystem.unlink(house.path(name))
    for name, data in originals.items():
        house.filesystem.replace(house.path(name), data)
    return house, merged, before, after


def lay(house, merged, base, transit, kinds=KINDS):
    for kind in kinds:
        name = f"{base:020}.{kind}"
        house.filesystem.replace(house.path(f"{name}.{transit}"), merged[name])


def drop(house, *bases, kinds=KINDS):
    for base in bases:
        for kind in kinds:
            house.filesystem.unlink(house.path(f"{base:020}.{kind}"))


def reopened(house):
    log = house.restart(**LARGE)
    house.purge(house.now_ms)
    left = house.names(".cleaned") + house.names(".swap") + house.names(".deleted")
    assert not left
    return log


def bases(log):
    return [segment.base_offset for segment in log.segments]


def test_a_copy_under_way_is_removed():
    house, merged, before, _ = stopped()
    lay(house, merged, 0, "cleaned")
    log = reopened(house)
    assert records_of(log) == before
    assert bases(log) == [0, 5, 10, 15, 20]


@pytest.mark.parametrize("renamed", [1, 2])
def test_a_copy_renamed_in_part_is_removed(renamed):
    house, merged, before, _ = stopped()
    lay(house, merged, 10, "swap", KINDS[:renamed])
    lay(house, merged, 10, "cleaned", KINDS[renamed:])
    log = reopened(house)
    assert records_of(log) == before


def test_a_complete_swap_is_finished_wherever_it_stopped():
    for gone in range(4):
        house, merged, before, after = stopped()
        lay(house, merged, 0, "swap")
        lay(house, merged, 10, "swap")
        drop(house, *BASES[:gone])
        log = reopened(house)
        # The first copy is empty: it replaces its first source, and the second comes back.
        found = records_of(log)
        assert [r for r in found if r.offset >= 10] == [r for r in after if r.offset >= 10]
        assert all(r in before for r in found)
        assert bases(log) == ([0, 10, 20] if gone >= 2 else [0, 5, 10, 20])


def test_the_second_group_alone():
    house, merged, before, after = stopped()
    lay(house, merged, 10, "swap")
    drop(house, 10)
    log = reopened(house)
    assert bases(log) == [0, 5, 10, 20]
    assert [r.offset for r in records_of(log)] == [*range(10), *(r.offset for r in after)]
    assert records_of(log)[:10] == before[:10]


@pytest.mark.parametrize("renamed", [1, 2, 3])
def test_a_swap_with_final_names_in_part_is_finished(renamed):
    house, merged, _, after = stopped()
    drop(house, 10, 15)
    lay(house, merged, 10, "swap", KINDS[renamed:])
    for kind in KINDS[:renamed]:
        name = f"{10:020}.{kind}"
        house.filesystem.replace(house.path(name), merged[name])
    log = reopened(house)
    assert bases(log) == [0, 5, 10, 20]
    assert [r.offset for r in records_of(log)][10:] == [r.offset for r in after]
    assert not any(segment.indexes.damage for segment in log.segments)


def test_a_damaged_swap_is_ignored_if_its_source_exists():
    house, merged, before, _ = stopped()
    lay(house, merged, 10, "swap")
    house.filesystem.edit(house.path(f"{10:020}.log.swap"), 70, b"\xff\xff")
    log = reopened(house)
    assert records_of(log) == before
    assert any("removed" in w for report in house.manager.reports for w in report.warnings)


def test_a_damaged_swap_is_used_without_its_source():
    house, merged, _, _ = stopped()
    lay(house, merged, 10, "swap")
    house.filesystem.edit(house.path(f"{10:020}.log.swap"), 70, b"\xff\xff")
    drop(house, 10, 15)
    log = reopened(house)
    assert bases(log) == [0, 5, 10, 20]
    assert log.end_offset == 23
    assert any("is gone" in w for report in house.manager.reports for w in report.warnings)


def test_a_split_that_kafka_did_not_finish_is_undone():
    """Kafka splits a segment of too many offsets by the same names, the last part first."""
    house, merged, before, _ = stopped()
    lay(house, merged, 10, "swap")
    lay(house, merged, 0, "cleaned")
    assert records_of(reopened(house)) == before


def test_a_swap_that_failed_halfway_is_finished_by_the_next_start():
    house, merged, _, after = stopped()
    lay(house, merged, 10, "swap")
    calls = 0
    while True:
        calls += 1
        house.filesystem.fail("rename", calls, path_part="/t-0/")
        house.open()
        try:
            log = house.log(epoch=1, **LARGE)
        except OSError:
            house.filesystem.heal()
            house.kill()
            continue
        break
    house.filesystem.heal()
    assert calls > 3
    assert [r.offset for r in records_of(log)][10:] == [r.offset for r in after]
