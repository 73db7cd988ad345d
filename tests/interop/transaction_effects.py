"""What transactions do to groups, readers and operators, and Kafka's answers to all of them."""

from __future__ import annotations

from typing import Any, Final

from protocol.errors import ErrorCode
from protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from tests.interop.group_requests import MODERN_ID, NEW, commit, delete, enter, forget
from tests.interop.transaction_requests import (
    EARLIEST,
    MAX_TIMESTAMP,
    OFFSETS_TOPIC,
    UNCOMMITTED,
    until,
)
from tests.interop.transaction_table import Cases
from tests.interop.transactor import Transactor

LONG_AGO_MS: Final = 1_000_000_000_000

CASES: Final = Cases()
case = CASES.case


# --- offsets of a group ----------------------------------------------------------------------


@case(
    [
        *["UNKNOWN_TOPIC_OR_PARTITION"] * 2,
        "OFFSET_METADATA_TOO_LARGE",
        "INVALID_GROUP_ID",
        "NONE",
        "NONE",
    ]
)
def offsets_that_cannot_be_committed(t: Transactor) -> Any:
    t.init()
    return [
        t.commit_offset(topic="missing"),
        t.commit_offset(partition=9),
        t.commit_offset(metadata="m" * 4097),
        t.commit_offset(group=""),
        t.commit_offset(metadata="m" * 4096),
        t.commit_offset(offset=-5),
    ]


@case(["NONE", "NONE"])
def a_group_without_a_name_is_added(t: Transactor) -> Any:
    t.init()
    return [t.add_offsets(group=""), t.add_offsets()]


@case(
    [
        *["NONE", -1, "UNSTABLE_OFFSET_COMMIT -1", "e+1", 7, 7],
        *["NONE", 7, "UNSTABLE_OFFSET_COMMIT -1", -1, "e+2", 7, 7],
    ]
)
def offsets_are_pending_until_the_end(t: Transactor) -> Any:
    t.init()
    answers: list[Any] = []
    for offset, outcome in ((7, "commit"), (8, "abort")):
        answers.append(t.commit_offset(offset=offset))
        answers += [t.offset_of_group(), t.offset_of_group(stable=True)]
        if outcome == "abort":
            answers.append(t.offset_of_group(stable=True, partition=1))
        answers.append(t.end(outcome))
        t.rest()
        until(lambda: isinstance(t.offset_of_group(stable=True), int), "stable offsets")
        answers += [t.offset_of_group(), t.offset_of_group(stable=True)]
    return answers


@case([("Ongoing", {OFFSETS_TOPIC: [0]}), ("CompleteCommit", {})])
def the_groups_partition_is_in_the_transaction(t: Transactor) -> Any:
    t.init()
    t.commit_offset()
    before = t.describe()
    t.end()
    t.rest()
    after = t.describe()
    return [(before[0], before[3]), (after[0], after[3])]


def _committed_plainly(t: Transactor, offset: int) -> str:
    code, _ = commit(t.group, topic=t.topic, offset=offset)(t.state)
    return "NONE" if code == 0 else str(code)


@case([2, 1])
def a_plain_commit_beside_a_pending_one(t: Transactor) -> Any:
    """What was written to the log of offsets later wins."""
    t.init()
    found = []
    for plain_first in (False, True):
        if plain_first:
            assert _committed_plainly(t, 2) == "NONE"
        assert t.commit_offset(offset=1) == "NONE"
        if not plain_first:
            assert _committed_plainly(t, 2) == "NONE"
        t.end()
        t.rest()
        until(lambda: isinstance(t.offset_of_group(stable=True), int), "stable offsets")
        found.append(t.offset_of_group())
    return found


@case(["NONE", "e+1", -1, "GROUP_ID_NOT_FOUND"])
def a_group_of_pending_offsets_is_deleted(t: Transactor) -> Any:
    t.init()
    t.commit_offset()
    deleted, _ = delete(t.group)(t.state)
    ended = t.end()
    t.rest()
    gone, _ = delete(t.group)(t.state)
    names = {0: "NONE", 69: "GROUP_ID_NOT_FOUND"}
    return [names.get(deleted, deleted), ended, t.offset_of_group(), names.get(gone, gone)]


@case(["NONE", -1])
def a_pending_offset_is_deleted(t: Transactor) -> Any:
    t.init()
    assert _committed_plainly(t, 1) == "NONE"
    t.commit_offset(offset=2)
    code, _ = forget(t.group, t.topic)(t.state)
    t.end()
    t.rest()
    until(lambda: isinstance(t.offset_of_group(stable=True), int), "stable offsets")
    return ["NONE" if code == 0 else code, t.offset_of_group()]


@case(["NONE", "NONE", "ILLEGAL_GENERATION", "UNKNOWN_MEMBER_ID", "UNKNOWN_MEMBER_ID"])
def members_of_a_classic_group(t: Transactor) -> Any:
    t.init()
    enter(t.state, t.group, topic=t.topic)
    member = t.state.members[t.group]
    return [
        t.commit_offset(),
        t.commit_offset(member_id=member, generation_id=1),
        t.commit_offset(member_id=member, generation_id=7),
        t.commit_offset(member_id="nobody", generation_id=1),
        t.commit_offset(member_id="nobody", generation_id=-1),
    ]


@case(["NONE", "NONE", "ILLEGAL_GENERATION", "ILLEGAL_GENERATION", "UNKNOWN_MEMBER_ID"])
def members_of_a_consumer_group(t: Transactor) -> Any:
    t.init()
    wanted = {**NEW, "subscribed_topic_names": [t.topic]}
    request = ConsumerGroupHeartbeatRequest(
        group_id=t.group, member_id=MODERN_ID, member_epoch=0, **wanted
    )
    epoch = t.state.call(request, ConsumerGroupHeartbeatResponse).member_epoch
    return [
        t.commit_offset(),
        t.commit_offset(member_id=MODERN_ID, generation_id=epoch),
        t.commit_offset(member_id=MODERN_ID, generation_id=epoch - 1),
        t.commit_offset(member_id=MODERN_ID, generation_id=epoch + 9),
        t.commit_offset(member_id="nobody", generation_id=epoch),
    ]


@case(["FENCED_INSTANCE_ID", "UNKNOWN_MEMBER_ID", "NONE"])
def static_members_of_a_classic_group(t: Transactor) -> Any:
    t.init()
    enter(t.state, t.group, topic=t.topic, group_instance_id="one")
    member = t.state.members[t.group]
    return [
        t.commit_offset(member_id="nobody", generation_id=1, group_instance_id="one"),
        t.commit_offset(member_id=member, generation_id=1, group_instance_id="two"),
        t.commit_offset(member_id=member, generation_id=1, group_instance_id="one"),
    ]


@case(["ILLEGAL_GENERATION", "NONE"])
def members_of_a_group_that_is_not_there(t: Transactor) -> Any:
    t.init()
    return [
        t.commit_offset(member_id="m", generation_id=3),
        t.commit_offset(member_id="m"),
    ]


@case([[("Empty", "classic")], "NON_EMPTY_GROUP", []])
def groups_of_nothing_but_pending_offsets(t: Transactor) -> Any:
    """Kafka goes on listing the first one until it looks for expired offsets: not compared."""
    t.init()
    t.commit_offset()
    found: list[Any] = [t.listed_groups()]
    peopled = t.beside(t.name)
    peopled.group = f"{t.group}-2"
    enter(t.state, peopled.group, topic=t.topic)
    peopled.producer_id, peopled.epoch = t.having()
    peopled.commit_offset()
    found.append(ErrorCode(delete(peopled.group)(t.state)[0]).name)
    t.end("abort")
    t.rest()
    return [*found, t.offsets_of_group()]


# --- reading ---------------------------------------------------------------------------------


@case(
    [
        ([], 2, 0, []),
        ([b"v", b"v"], 2, 0, None),
        (0, 2),
        ([b"v", b"v"], 3, 3, []),
        (3, 3),
    ]
)
def readers_of_a_commit(t: Transactor) -> Any:
    t.init()
    t.produce(values=[b"v", b"v"])
    before = [t.read(), t.read(UNCOMMITTED), (t.offset_at(), t.offset_at(isolation=UNCOMMITTED))]
    t.end()
    t.rest()
    return [*before, t.read(), (t.offset_at(), t.offset_at(isolation=UNCOMMITTED))]


@case([([], 2, 2, [0]), ([b"v"], 2, 2, None), ([b"w"], 4, 4, [0]), ([b"w"], 4, 4, [])])
def readers_of_an_abort(t: Transactor) -> Any:
    t.init()
    t.produce()
    t.end("abort")
    t.rest()
    found = [t.read(), t.read(UNCOMMITTED)]
    t.produce(values=[b"w"])
    t.end()
    t.rest()
    return [*found, t.read(), t.read(offset=2)]


@case([([b"other"], 5, 2, []), ([b"other", b"own"], 6, 6, [3]), ([b"own"], 6, 6, [3])])
def two_transactions_overlap(t: Transactor) -> Any:
    other = t.beside(f"{t.name}-2")
    t.init()
    other.init()
    other.produce(values=[b"other"])
    other.end()
    other.rest()
    t.produce(values=[b"own"])
    other.produce(values=[b"aborted"])
    other.end("abort")
    other.rest()
    found = [t.read()]
    t.end()
    t.rest()
    return [*found, t.read(), t.read(offset=2)]


@case(["OFFSET_OUT_OF_RANGE", ([], 1, 0, [])])
def reading_at_and_behind_the_end(t: Transactor) -> Any:
    t.init()
    t.produce()
    return [t.read(offset=2), t.read(offset=1)]


@case([-1, 0, 0, -1])
def offsets_by_time_beside_an_open_transaction(t: Transactor) -> Any:
    t.init()
    t.produce()
    return [
        t.offset_at(LONG_AGO_MS),
        t.offset_at(LONG_AGO_MS, UNCOMMITTED),
        t.offset_at(EARLIEST),
        t.offset_at(MAX_TIMESTAMP),
    ]


@case(
    [2, ([], 4, 2, []), 2, "e+1", ([b"v", b"v"], 5, 5, [])],
)
def records_of_an_open_transaction_are_deleted(t: Transactor) -> Any:
    """The last stable offset is then the start of the log."""
    t.init()
    for _ in range(4):
        t.produce()
    deleted = t.delete_records(2)
    read = t.read(offset=2)
    latest = t.offset_at()
    ended = t.end()
    t.rest()
    return [deleted, read, latest, ended, t.read(offset=2)]


@case(["e+1", "CompleteCommit"])
def a_topic_is_deleted_meanwhile(t: Transactor) -> Any:
    t.init()
    t.produce()
    assert t.delete_topic() == "NONE"
    ended = t.end()
    t.rest()
    return [ended, t.state_name()]


@case([[("e+0", 0)], [("e+1", -1)]])
def producers_of_a_partition(t: Transactor) -> Any:
    """The epoch of the marker, and where the open transaction begins."""
    t.init()
    t.produce()
    before = t.producers()
    t.end()
    t.rest()
    return [before, t.producers()]


# --- the coordinator's state, and markers by hand --------------------------------------------


@case(
    [
        ("TRANSACTIONAL_ID_NOT_FOUND", "", False, {}),
        ("Empty", "e+0", False, {}),
        ("Ongoing", "e+0", True, {"own": [0, 1]}),
        ("CompleteCommit", "e+1", {}),
    ]
)
def descriptions(t: Transactor) -> Any:
    found: list[Any] = [t.describe()]
    t.init()
    found.append(t.describe())
    t.produce()
    t.produce(partition=1)
    found.append(t.describe())
    t.end()
    t.rest()
    state, ids, _, partitions = t.describe()
    return [*found, (state, ids, partitions)]


@case(
    [
        ({"": "Empty", "-2": "Ongoing"}, []),
        ({"-2": "Ongoing"}, ["Sleepy"]),
        ({}, ["Sleepy"]),
        ({"": "Empty"}, []),
        ({"": "Empty"}, []),
        ({"": "Empty", "-2": "Ongoing"}, []),
        "INVALID_REGULAR_EXPRESSION",
        ({"": "Empty", "-2": "Ongoing"}, []),
    ]
)
def listings(t: Transactor) -> Any:
    """What has no open transaction has no duration, and passes that filter."""
    t.init()
    other = t.beside(f"{t.name}-2")
    other.init()
    other.produce()
    own = f"{t.name}.*"
    return [
        t.list(),
        t.list(state_filters=["Ongoing", "Sleepy"]),
        t.list(state_filters=["Sleepy"]),
        t.list(producer_id_filters=[t.producer_id]),
        t.list(duration_filter=600_000, transactional_id_pattern=own),
        t.list(duration_filter=0, transactional_id_pattern=own),
        t.list(transactional_id_pattern="["),
        t.list(transactional_id_pattern=""),
    ]


@case(["NONE"] * 2 + ["UNKNOWN_TOPIC_OR_PARTITION"] * 2 + ["INVALID_PRODUCER_EPOCH"])
def markers_where_nothing_is_open(t: Transactor) -> Any:
    other = 7_000_001
    return [
        t.marker(producer_id=other, epoch=6),
        t.marker("commit", producer_id=other, epoch=6),
        t.marker(producer_id=other, epoch=6, topic="missing"),
        t.marker(producer_id=other, epoch=6, partition=9),
        t.marker(producer_id=other, epoch=5),
    ]


@case(["NONE", "TRANSACTION_COORDINATOR_FENCED", "NONE"])
def markers_of_an_older_coordinator(t: Transactor) -> Any:
    other = 7_000_002
    return [
        t.marker(producer_id=other, epoch=1, coordinator_epoch=epoch, version=1)
        for epoch in (5, 4, 5)
    ]


@case(["NONE", "NONE", "INVALID_PRODUCER_EPOCH", "NONE"])
def markers_of_newer_transactions(t: Transactor) -> Any:
    other = 7_000_003
    return [
        t.marker(producer_id=other, epoch=epoch, transaction_version=2) for epoch in (3, 3, 2, 4)
    ]


@case(
    ["NONE", ([], 2, 2, [0]), "e+1", "CompleteCommit"],
    ours=["NONE", ([], 2, 2, [0]), "INVALID_TXN_STATE", "CompleteAbort"],
)
def an_abort_by_hand_of_an_open_transaction(t: Transactor) -> Any:
    """Kafka tears it: the coordinator commits what is aborted in one partition. Here it ends."""
    t.init()
    t.produce()
    written = t.marker()
    t.rest()
    read = t.read()
    ended = t.end()
    t.rest()
    return [written, read, ended, t.state_name()]


@case(["NONE", ([b"v"], 2, 2, [])], ours=["INVALID_TXN_STATE", ([], 1, 0, [])])
def a_commit_by_hand_of_an_open_transaction(t: Transactor) -> Any:
    """Kafka commits one partition of it. Here the coordinator alone decides on a commit."""
    t.init()
    t.produce()
    return [t.marker("commit"), t.read()]


@case(["NONE", "NONE"], ours=["INVALID_PRODUCER_EPOCH"] * 2)
def a_marker_above_the_coordinators_epoch(t: Transactor) -> Any:
    """It would be taken for the coordinator's own decision at the next start."""
    t.init()
    return [t.marker(epoch=3), t.marker(epoch=3, partition=1)]


@case(["NONE", "NONE", "NONE", "NONE"])
def the_coordinator_is_found(t: Transactor) -> Any:
    t.init()
    return [t.find(), t.find(6), t.find(1), t.find(key="")]
