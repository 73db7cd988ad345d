"""One member of a classic group."""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence

from broker.groups.alarm import NEVER_NS
from protocol.errors import ErrorCode
from protocol.messages.join_group import JoinGroupRequestProtocol, JoinGroupResponse
from protocol.messages.sync_group import SyncGroupResponse

JoinAnswer = Callable[[JoinGroupResponse], None]
SyncAnswer = Callable[[SyncGroupResponse], None]


class ClassicGroupMember:
    """A member's identity, the protocols it supports, and its waiting requests."""

    __slots__ = (
        "assignment",
        "client_host",
        "client_id",
        "deadline_ns",
        "instance_id",
        "is_new",
        "join_answer",
        "member_id",
        "protocols",
        "rebalance_timeout_ms",
        "session_timeout_ms",
        "sync_answer",
    )

    def __init__(
        self,
        member_id: str,
        instance_id: str | None,
        client_id: str,
        client_host: str,
        *,
        session_timeout_ms: int,
        rebalance_timeout_ms: int,
        protocols: Sequence[JoinGroupRequestProtocol],
        assignment: bytes = b"",
    ) -> None:
        self.member_id = member_id
        self.instance_id = instance_id  # static membership, KIP-345
        self.client_id = client_id
        self.client_host = client_host
        self.session_timeout_ms = session_timeout_ms
        self.rebalance_timeout_ms = rebalance_timeout_ms
        self.protocols = protocols
        self.assignment = assignment
        self.is_new = False  # has no generation yet, so it cannot send heartbeats
        self.deadline_ns = NEVER_NS  # its session expires then
        self.join_answer: JoinAnswer | None = None
        self.sync_answer: SyncAnswer | None = None

    @property
    def waits(self) -> bool:
        """Whether a JoinGroup or SyncGroup of it is waiting: such a member is alive.

        A new member does not count: its client may have gone before it got an answer.
        """
        return not self.is_new and (self.join_answer is not None or self.sync_answer is not None)

    def metadata(self, protocol: str | None) -> bytes:
        """Return the member's metadata for `protocol`."""
        for spoken in self.protocols:
            if spoken.name == protocol:
                return spoken.metadata
        raise AssertionError(f"{self.member_id} does not support {protocol}")

    def vote(self, candidates: Container[str]) -> str:
        """Return the protocol it prefers among those that all members support."""
        for spoken in self.protocols:
            if spoken.name in candidates:
                return spoken.name
        raise AssertionError(f"{self.member_id} supports none of {candidates}")

    def wait_for_generation(self, answer: JoinAnswer) -> None:
        """Answer a JoinGroup when its generation begins. One that waits already is answered now.

        Its client has given it up and joins again, or waits for its answer before the new one.
        """
        before, self.join_answer = self.join_answer, answer
        if before is not None:
            code = ErrorCode.REBALANCE_IN_PROGRESS
            before(JoinGroupResponse(member_id=self.member_id, error_code=code))

    def wait_for_assignment(self, answer: SyncAnswer) -> None:
        """As `wait_for_generation`, for a SyncGroup."""
        before, self.sync_answer = self.sync_answer, answer
        if before is not None:
            before(SyncGroupResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS))

    def answer_join(self, response: JoinGroupResponse) -> bool:
        """Answer the waiting JoinGroup; return whether there was one."""
        answer, self.join_answer = self.join_answer, None
        if answer is None:
            return False
        answer(response)
        return True

    def answer_sync(self, response: SyncGroupResponse) -> bool:
        """Answer the waiting SyncGroup; return whether there was one."""
        answer, self.sync_answer = self.sync_answer, None
        if answer is None:
            return False
        answer(response)
        return True
