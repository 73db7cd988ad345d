"""The judge of restored groups: what it must flag, and near misses that it must not."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from broker.groups.consumer.consumer_member import ConsumerGroupMember
from broker.groups.consumer.state import ConsumerState
from broker.groups.group_log import partition_of
from broker.groups.registry import Registry
from protocol.control_records import Marker, build_marker
from protocol.group_records import (
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    OffsetCommitKey,
    OffsetCommitValue,
    encode_key,
    encode_value,
)
from protocol.records import Record, build, stamp
from tests.simulation.judges import restored_groups
from tests.simulation.judges.restored_groups import Held, compare, judge
from tests.support.classic_party import Party
from tests.support.memory_inodes import Directory, Inode

NOTHING = Held({}, {}, {}, {})


def registry_of(*groups: Any) -> Registry:
    registry = Registry()
    for group in groups:
        registry.put(group)
    return registry


def classic(party: Party) -> Held:
    return restored_groups._of(registry_of(party.group))


def loaded(party: Party, *records: Any) -> Held:
    return restored_groups._of(restored_groups._loaded([written(*records)], 0, 1))


def written(*records: Any) -> bytes:
    return build([Record(0, 0, encode_key(key), encode_value(value)) for key, value in records])


def flaws(before: Held, after: Held) -> list[str]:
    return list(compare(before, after))


def test_a_stable_generation_is_in_the_log_with_its_assignments() -> None:
    party = Party()
    ids = party.stable("a", "b")
    last = party.host.records[-1]
    assert flaws(classic(party), loaded(party, last)) == []
    key, value = last
    value.members[0].assignment = b"another"
    assert len(flaws(classic(party), loaded(party, (key, value)))) == 1
    assert len(flaws(classic(party), NOTHING)) == 1
    assert len(flaws(NOTHING, loaded(party, last))) == 1
    party.leave((ids["a"], None))
    party.leave((ids["b"], None))
    assert party.state == "Empty"
    assert len(flaws(classic(party), loaded(party, last))) == 1
    assert flaws(classic(party), loaded(party, last, party.host.records[-1])) == []


def test_a_generation_that_is_not_stable_may_be_lost_but_not_be_ahead() -> None:
    party = Party()
    ids = party.stable("a")
    first = party.host.records[-1]
    party.join("a", ids["a"])
    assert party.state == "CompletingRebalance"
    assert flaws(classic(party), loaded(party, first)) == []
    key, value = first
    value.generation = 3
    assert len(flaws(classic(party), loaded(party, (key, value)))) == 1


def test_a_group_that_has_only_held_offsets_has_no_record() -> None:
    assert flaws(classic(Party()), NOTHING) == []


@pytest.mark.parametrize("offset", [7, 8])
def test_offsets_are_those_of_the_log(offset: int) -> None:
    key = OffsetCommitKey(group="g", topic="t", partition=0)
    value = OffsetCommitValue(offset=offset, metadata="", commit_timestamp=1)
    told = registry_of()
    told.offsets.apply(key, OffsetCommitValue(offset=7, metadata="", commit_timestamp=1), 0)
    told.put(Party().group)
    data = Directory()
    partition, segment = Directory(), Inode()
    data.live["__consumer_offsets-0"] = partition
    partition.live["00000000000000000000.log"] = segment
    segment.live += written((key, value))
    found = judge({0: restored_groups._of(told)}, data)
    assert len(found) == (offset != 7)
    told.offsets.pending.add(9, "g", "t", 0, told.offsets.topics("g")["t"][0])
    found += judge({0: restored_groups._of(told)}, data)
    assert len(found) == 2 * (offset != 7) + 1, "an offset is pending in memory only"
    partition.live["00000000000000000000.log.swap"] = Inode()
    assert judge({0: NOTHING}, data) == [], "a compaction is under way"


@pytest.mark.parametrize(
    ("is_commit", "unsettled_from", "is_next", "count"),
    [
        (True, 1, False, 0),
        (False, 1, False, 0),
        (True, None, False, 2),
        (False, None, False, 1),
        (True, 2, False, 2),
        (True, 1, True, 2),
    ],
)
def test_a_marker_that_readers_do_not_see_yet_is_in_the_log_only(
    is_commit: bool, unsettled_from: int | None, is_next: bool, count: int
) -> None:
    """Unless it was seen: what is pending then is of the producer's next transaction."""
    key = OffsetCommitKey(group="g", topic="t", partition=0)
    value = OffsetCommitValue(offset=7, metadata="", commit_timestamp=1)
    record = Record(0, 0, encode_key(key), encode_value(value))
    log = build([record], producer_id=9, producer_epoch=0, base_sequence=0, transactional=True)
    marker = build_marker(Marker(9, 0, is_commit, 0), 1)
    stamp(marker, 0, 1, 0)
    data = Directory()
    partition, segment = Directory(), Inode()
    data.live["__consumer_offsets-0"] = partition
    partition.live["00000000000000000000.log"] = segment
    segment.live += log + marker
    told = registry_of()
    told.offsets.apply_pending(key, value, 2 if is_next else 0, 9)
    told.put(Party().group)
    held = restored_groups._of(told)._replace(unsettled_from=unsettled_from)
    assert len(judge({0: held}, data)) == count


def test_consumer_groups_are_those_of_the_log_and_share_no_partition() -> None:
    state = ConsumerState("g")
    record = ConsumerGroupMetadataKey(group_id="g"), ConsumerGroupMetadataValue(epoch=3)
    state.apply(*record)
    assert flaws(consumer(state), loaded(Party(), record)) == []
    assert len(flaws(consumer(state), NOTHING)) == 1
    state.epoch = 4
    (found,) = flaws(consumer(state), loaded(Party(), record))
    assert "epoch was 4" in found


def consumer(state: ConsumerState) -> Held:
    return Held({}, {state.group_id: restored_groups._fields(state)}, {}, {})


def test_a_partition_has_one_member() -> None:
    state = ConsumerState("g")
    for name in ("a", "b"):
        state.members[name] = ConsumerGroupMember(member_id=name, assigned={b"t": {0: 1}})
        state.targets[name] = {b"t": frozenset({0})}
    state.owners = {(b"t", 0): "a"}
    found = list(restored_groups._shared(restored_groups._fields(state)))
    assert len(found) == 2
    del state.members["b"], state.targets["b"]
    assert list(restored_groups._shared(restored_groups._fields(state))) == []
    state.owners = {}
    assert len(list(restored_groups._shared(restored_groups._fields(state)))) == 1


def test_only_groups_of_a_broker_that_stops_are_noted() -> None:
    notes: restored_groups.Notes = {}
    party = Party()
    number = partition_of("g", 1)
    shard = SimpleNamespace(
        number=number, is_served=True, registry=registry_of(party.group), drop=lambda: None
    )
    written = SimpleNamespace(failed=None, unsettled_from=None, end_offset=3)
    log = SimpleNamespace(partition=lambda _: SimpleNamespace(log=written))
    coordinator: Any = SimpleNamespace(_shards=[shard], log=log, _stopped=False)
    with restored_groups.listening(notes):
        restored_groups.Coordinator._unload(coordinator)
        assert notes == {}
        coordinator._shards, coordinator._stopped = [shard], True
        restored_groups.Coordinator._unload(coordinator)
    assert notes == {number: classic(party)._replace(unsettled_from=3)}
