"""The life of classic groups in Apache Kafka 4.3 and in Barnabas: every answer in full.

One script of requests, in fixed versions, runs against both brokers. Member ids are replaced by
the script's names for them; everything else of an answer must be equal.
"""

import time
from collections.abc import Iterator
from typing import Any

import pytest

from client.kafka.connection import Connection
from protocol.messages.create_topics import (
    CreatableTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from protocol.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from protocol.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity
from protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
)
from protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)
from protocol.messages.sync_group import (
    SyncGroupRequest,
    SyncGroupRequestAssignment,
    SyncGroupResponse,
)
from tests.interop.both_brokers import both_brokers
from tests.support.classic_party import protocols

pytestmark = pytest.mark.interop

SETTINGS = {
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "2",
    "offsets.topic.replication.factor": "1",
    "group.max.size": "2",
}
RESPONSES = {
    FindCoordinatorRequest: FindCoordinatorResponse,
    JoinGroupRequest: JoinGroupResponse,
    SyncGroupRequest: SyncGroupResponse,
    HeartbeatRequest: HeartbeatResponse,
    LeaveGroupRequest: LeaveGroupResponse,
    OffsetCommitRequest: OffsetCommitResponse,
    OffsetFetchRequest: OffsetFetchResponse,
    OffsetDeleteRequest: OffsetDeleteResponse,
    DescribeGroupsRequest: DescribeGroupsResponse,
    ListGroupsRequest: ListGroupsResponse,
    DeleteGroupsRequest: DeleteGroupsResponse,
}


class Script:
    """Sends requests to one broker, and keeps its answers, without member ids."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.ids: dict[str, str] = {}  # the broker's id: the script's name
        self.answers: list[tuple[str, str]] = []

    def ask(self, request: Any, version: int) -> Any:
        answer = self.connection._exchange(request, RESPONSES[type(request)], version)
        if isinstance(answer, DescribeGroupsResponse):  # Kafka orders them by partition
            answer.groups.sort(key=lambda group: group.group_id)
        if isinstance(answer, FindCoordinatorResponse):  # each broker has its own message
            for one in (answer, *answer.coordinators):
                one.error_message = ""
        shown = repr(answer)
        for member_id, name in self.ids.items():
            shown = shown.replace(member_id, name)
        label = f"{len(self.answers)} {type(request).__name__} v{version}"
        self.answers.append((label, shown))
        return answer

    def join(self, name: str, version: int = 9, **fields: Any) -> str:
        asked: dict[str, Any] = {
            "group_id": "g",
            "session_timeout_ms": 30_000,
            "rebalance_timeout_ms": 5_000,
            "protocol_type": "consumer",
            "protocols": protocols("range"),
            **fields,
        }
        request = JoinGroupRequest(**asked)
        answer = self.connection._exchange(request, JoinGroupResponse, version)
        if answer.member_id:
            self.ids.setdefault(answer.member_id, name)
        shown = repr(answer)
        for member_id, known in self.ids.items():
            shown = shown.replace(member_id, known)
        self.answers.append((f"{len(self.answers)} join {name} v{version}", shown))
        return str(answer.member_id)

    def sync(self, member_id: str, generation: int, version: int = 4, **fields: Any) -> None:
        share = SyncGroupRequestAssignment(member_id=member_id, assignment=b"share")
        asked = {"group_id": "g", "assignments": [share], **fields}
        self.ask(SyncGroupRequest(generation_id=generation, member_id=member_id, **asked), version)

    def beat(self, member_id: str, generation: int, group: str = "g", **fields: Any) -> None:
        self.ask(
            HeartbeatRequest(
                group_id=group, generation_id=generation, member_id=member_id, **fields
            ),
            4,
        )

    def commit(self, version: int = 9, group: str = "g", topic: str = "t", **fields: Any) -> None:
        metadata = fields.pop("metadata", "m")
        partitions = [
            OffsetCommitRequestPartition(
                partition_index=number, committed_offset=7, committed_metadata=metadata
            )
            for number in fields.pop("partitions", [0])
        ]
        topics = [OffsetCommitRequestTopic(name=topic, partitions=partitions)]
        self.ask(OffsetCommitRequest(group_id=group, topics=topics, **fields), version)


def prologue(script: Script) -> None:
    """Requests before anything exists, except the coordinator."""
    request = FindCoordinatorRequest(key="g", coordinator_keys=["g"])
    deadline = time.monotonic() + 20
    while script.connection._exchange(request, FindCoordinatorResponse, 3).error_code:
        assert time.monotonic() < deadline, "the coordinator never came"
        time.sleep(0.1)
    for version in (3, 6):
        for kind in (2, 9):
            script.ask(
                FindCoordinatorRequest(key="g", coordinator_keys=["g"], key_type=kind), version
            )
    probe = OffsetFetchRequestGroup(group_id="probe", topics=None)
    while (
        script.connection._exchange(OffsetFetchRequest(groups=[probe]), OffsetFetchResponse, 8)
        .groups[0]
        .error_code
    ):
        assert time.monotonic() < deadline, "the groups were never loaded"
        time.sleep(0.1)


def offsets(script: Script) -> None:
    """Offsets of groups that have only offsets."""
    for version in (2, 8, 9):
        script.commit(version, "simple", partitions=[0, 1, 9])
        script.commit(version, "simple", topic="no")
        script.commit(version, "simple", metadata="x" * 4097)
        script.commit(version, "simple", metadata=None)
        script.commit(version, "nobody", generation_id_or_member_epoch=3)
        script.commit(version, "", partitions=[1])
        script.commit(version, "simple", member_id="m")
    named = OffsetFetchRequestTopics(name="t", partition_indexes=[0, 1, 9])
    old = OffsetFetchRequestTopic(name="t", partition_indexes=[0, 1, 9])
    for version in (1, 2, 5, 7):
        script.ask(OffsetFetchRequest(group_id="simple", topics=[old]), version)
        script.ask(OffsetFetchRequest(group_id="unknown", topics=[old]), version)
    for version in (8, 9):
        for topics in ([named], [], None):
            for group in ("simple", "unknown", ""):
                asked = OffsetFetchRequestGroup(group_id=group, topics=topics)
                script.ask(OffsetFetchRequest(groups=[asked], require_stable=True), version)


def members(script: Script) -> None:
    """One member, static ones, and everything that is refused to others."""
    for version in (0, 4, 9):
        script.join("x", version, group_id="")
        script.join("x", version, session_timeout_ms=1)
        script.join("x", version, member_id="nobody")
        script.join("x", version, group_id=f"odd{version}", protocols=[])
        script.join("x", version, group_id=f"odd{version}", protocol_type="")
    a = script.join("a")
    script.join("a", member_id=a)
    script.beat(a, 1)
    script.commit(member_id=a, generation_id_or_member_epoch=1)
    for version in (3, 4):
        script.sync(a, 7, version)
        script.sync("nobody", 1, version)
        script.sync(a, 1, version, group_id="")
        script.sync(a, 1, version, group_id="unknown")
    script.sync(a, 1, 5)
    script.sync(a, 1, 5, protocol_type="connect", protocol_name="range")
    script.ask(DescribeGroupsRequest(groups=["g"]), 6)
    script.sync(a, 1, 5, protocol_type="consumer", protocol_name="range")
    script.sync(a, 1, 4)
    for generation in (0, 1, 2):
        script.beat(a, generation)
        script.commit(member_id=a, generation_id_or_member_epoch=generation)
    script.beat("nobody", 1)
    script.beat(a, 1, group="")
    script.beat(a, 1, group="unknown")
    script.beat(a, 1, group_instance_id="s")
    script.commit()
    script.commit(member_id="nobody", generation_id_or_member_epoch=1)
    script.join("b", protocols=protocols("sticky"))
    script.join("b", protocol_type="connect")
    s = script.join("s", group_id="static", group_instance_id="s")
    script.sync(s, 1, group_id="static", group_instance_id="s")
    s2 = script.join("s2", group_id="static", group_instance_id="s")
    script.beat(s, 1, group="static", group_instance_id="s")
    script.beat(s2, 1, group="static", group_instance_id="s")
    script.join("s", group_id="static", group_instance_id="s", member_id=s)
    script.join("s3", 8, group_id="static", group_instance_id="s")


def administration(script: Script) -> None:
    """Lists, descriptions and deletions."""
    for version in (0, 3, 5, 6):
        script.ask(
            DescribeGroupsRequest(
                groups=["g", "simple", "unknown", ""], include_authorized_operations=version > 3
            ),
            version,
        )
    for states, types in (
        ([], []), (["stable"], []), (["Empty", "dead"], []), ([], ["classic"]), ([], ["CONSUMER"]),
        (["none"], []), ([], ["none"]),
    ):  # fmt: skip
        request = ListGroupsRequest(states_filter=states, types_filter=types)
        answer = script.connection._exchange(request, ListGroupsResponse, 5)
        listed = sorted(map(repr, answer.groups))
        script.answers.append((f"list {states} {types}", f"{answer.error_code} {listed}"))
    for group, topic, partition in (
        ("g", "t", 0), ("simple", "t", 0), ("simple", "t", 1), ("simple", "t", 9),
        ("simple", "no", 0), ("unknown", "t", 0), ("", "t", 0), ("g", "u", 0), ("simple", "u", 0),
    ):  # fmt: skip
        partitions = [OffsetDeleteRequestPartition(partition_index=partition)]
        topics = [OffsetDeleteRequestTopic(name=topic, partitions=partitions)]
        script.ask(OffsetDeleteRequest(group_id=group, topics=topics), 0)
    for names in (["g"], ["unknown"], [""], ["simple"], ["simple"]):
        script.ask(DeleteGroupsRequest(groups_names=names), 2)
    gone = OffsetFetchRequestGroup(group_id="simple", topics=None)
    script.ask(OffsetFetchRequest(groups=[gone]), 8)


def leaving(script: Script) -> None:
    """Members leave; nothing remains."""
    for version in (0, 2, 3, 5):
        script.ask(
            LeaveGroupRequest(group_id="unknown", member_id="m", members=[who("m")]), version
        )
        script.ask(LeaveGroupRequest(group_id="", member_id="m", members=[who("m")]), version)
        script.ask(LeaveGroupRequest(group_id="g", member_id="m", members=[who("m")]), version)
    script.ask(LeaveGroupRequest(group_id="static", members=[who("", "x"), who("", "s")]), 5)
    a = next(member_id for member_id, name in script.ids.items() if name == "a")
    script.ask(LeaveGroupRequest(group_id="g", member_id=a), 2)
    script.beat(a, 2)
    script.ask(DescribeGroupsRequest(groups=["g", "static"]), 6)
    script.commit(generation_id_or_member_epoch=-1)


def who(member_id: str, instance_id: str | None = None) -> MemberIdentity:
    return MemberIdentity(member_id=member_id, group_instance_id=instance_id)


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[list[tuple[str, str]]]]:
    """The answers of both brokers to the whole script."""
    with both_brokers(tmp_path_factory, SETTINGS) as connections:
        scripts = []
        for connection in connections:
            for name in ("t", "u"):
                topic = CreatableTopic(name=name, num_partitions=2, replication_factor=1)
                request = CreateTopicsRequest(topics=[topic], timeout_ms=10_000)
                assert connection.call(request, CreateTopicsResponse).topics[0].error_code == 0
            script = Script(connection)
            scripts.append(script)
            for part in (prologue, offsets, members, administration, leaving):
                part(script)
        yield [script.answers for script in scripts]


def test_every_answer_is_kafkas(told: list[list[tuple[str, str]]]) -> None:
    kafkas, ours = told
    assert [label for label, _ in kafkas] == [label for label, _ in ours]
    different = [
        f"{label}\n  kafka {theirs}\n  ours  {own}"
        for (label, theirs), (_, own) in zip(kafkas, ours, strict=True)
        if theirs != own
    ]
    assert not different, f"{len(different)} of {len(kafkas)}:\n" + "\n".join(different)
