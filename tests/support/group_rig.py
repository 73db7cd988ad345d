"""A group client for rigs: short calls to join, commit and fetch."""

from typing import Any

from protocol.messages.find_coordinator import FindCoordinatorRequest
from protocol.messages.heartbeat import HeartbeatRequest
from protocol.messages.join_group import JoinGroupRequest
from protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from protocol.wire import ZERO_UUID
from tests.support.broker_rig import Rig
from tests.support.classic_party import protocols
from tests.support.rig_client import ask

NO_OFFSET = -1


async def find(rig: Rig) -> None:
    """Make the coordinator create its topic."""
    answer = await ask(rig, FindCoordinatorRequest(key="g"), 3)
    assert answer.error_code == 0


async def commit(
    rig: Rig,
    *wanted: tuple[str, int, int],
    version: int = 9,
    metadata: str | None = "",
    topic_id: bytes = ZERO_UUID,
    **fields: Any,
) -> list[tuple[str, int, int]]:
    """Commit (topic, partition, offset) each; return (topic, partition, error)."""
    body = OffsetCommitRequest(
        topics=[
            OffsetCommitRequestTopic(
                name=topic,
                topic_id=topic_id,
                partitions=[
                    OffsetCommitRequestPartition(
                        partition_index=partition,
                        committed_offset=offset,
                        committed_leader_epoch=3,
                        committed_metadata=metadata,
                    )
                ],
            )
            for topic, partition, offset in wanted
        ],
        **{"group_id": "g", **fields},
    )
    answer = await ask(rig, body, version)
    return [
        (topic.name, one.partition_index, one.error_code)
        for topic in answer.topics
        for one in topic.partitions
    ]


async def committed(
    rig: Rig, *wanted: tuple[str, int], group: str = "g", version: int = 9, **fields: Any
) -> Any:
    """Return {(topic, partition): offset}, or the error; without arguments for all partitions."""
    topics = [
        OffsetFetchRequestTopics(name=topic, partition_indexes=[partition])
        for topic, partition in wanted
    ]
    body = OffsetFetchRequest(
        groups=[OffsetFetchRequestGroup(group_id=group, topics=topics or None, **fields)]
    )
    (answer,) = (await ask(rig, body, version)).groups
    if answer.error_code:
        return answer.error_code
    return {
        (topic.name, one.partition_index): one.committed_offset
        for topic in answer.topics
        for one in topic.partitions
    }


async def member(rig: Rig, group: str = "g", **fields: Any) -> tuple[str, int]:
    """Join as the only member of a stable group; return (member id, generation)."""
    asked: dict[str, Any] = {
        "group_id": group,
        "session_timeout_ms": 10_000,
        "rebalance_timeout_ms": 10_000,
        "protocol_type": "consumer",
        "protocols": protocols("range"),
        **fields,
    }
    joined = await ask(rig, JoinGroupRequest(**asked), 3)
    assert joined.error_code == 0, joined
    share = SyncGroupRequestAssignment(member_id=joined.member_id, assignment=b"share")
    body = SyncGroupRequest(
        group_id=group,
        generation_id=joined.generation_id,
        member_id=joined.member_id,
        assignments=[share],
    )
    synced = await ask(rig, body, 3)
    assert (synced.error_code, synced.assignment) == (0, b"share")
    return joined.member_id, joined.generation_id


async def heartbeat(rig: Rig, member_id: str, generation: int, group: str = "g") -> int:
    """Send a heartbeat; return its error code."""
    body = HeartbeatRequest(group_id=group, generation_id=generation, member_id=member_id)
    code: int = (await ask(rig, body, 3)).error_code
    return code
