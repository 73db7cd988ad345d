"""Groups for tests of the console, made by the broker's own handlers."""

from broker.console.visitor import Visitor
from protocol.api_keys import ApiKey
from protocol.messages.find_coordinator import FindCoordinatorRequest
from protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from tests.support.console_client import ConsoleBroker


async def commit(running: ConsoleBroker, group: str, topic: str, offsets: dict[int, int]) -> None:
    """Commit offsets of a group without members."""
    await running.get("overview")  # makes the console
    http = running.broker._serving._http
    assert http is not None
    body = OffsetCommitRequest(
        group_id=group,
        topics=[
            OffsetCommitRequestTopic(
                name=topic,
                partitions=[
                    OffsetCommitRequestPartition(partition_index=number, committed_offset=offset)
                    for number, offset in offsets.items()
                ],
            )
        ],
    )
    console = http._surroundings.console
    visitor = Visitor(running.services, "127.0.0.1")
    wanted = FindCoordinatorRequest(coordinator_keys=[group])
    for _ in range(100):
        await console.inquiry.ask(visitor, ApiKey.FIND_COORDINATOR, 4, wanted)
        answer = await console.inquiry.ask(visitor, ApiKey.OFFSET_COMMIT, 9, body)
        code = answer.topics[0].partitions[0].error_code
        if not code:
            return
    raise AssertionError(code)
