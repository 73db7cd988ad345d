"""One member of a classic group."""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence

from broker.groups.alarm import NEVER_NS
from protocol.messages.join_group import JoinGroupRequestProtocol, JoinGroupResponse
from protocol.messages.sync_group import SyncGroupResponse

JoinAnswer = Callable[[JoinGroupResponse], None]
SyncAnswer = Callable[[SyncGroupResponse], None]


class ClassicGroupMember:
    """Who it is, what it speaks, and which of its requests wait for the others."""

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
        self.is_new = False  # has not been told its generation yet: it cannot send heartbeats
        self.deadline_ns = NEVER_NS  # it is dead if not heard of until then
        self.join_answer: JoinAnswer | None = None
        self.sync_answer: SyncAnswer | None = None

    @property
    def waits(self) -> bool:
        """Whether a JoinGroup or SyncGroup of it is under way: such a member is alive.

        One that is new is not known to be: nobody may be there any more to be answered.
        """
        return not self.is_new and (self.join_answer is not None or self.sync_answer is not None)

    def metadata(self, protocol: str | None) -> bytes:
        """Return what the member said for `protocol`."""
        for spoken in self.protocols:
            if spoken.name == protocol:
                return spoken.metadata
        raise AssertionError(f"{self.member_id} does not speak {protocol}")

    def vote(self, candidates: Container[str]) -> str:
        """Return the protocol it likes best of those that all speak."""
        for spoken in self.protocols:
            if spoken.name in candidates:
                return spoken.name
        raise AssertionError(f"{self.member_id} speaks none of {candidates}")

    def answer_join(self, response: JoinGroupResponse) -> bool:
        """Answer the JoinGroup that waits; return whether one did."""
        answer, self.join_answer = self.join_answer, None
        if answer is None:
            return False
        answer(response)
        return True

    def answer_sync(self, response: SyncGroupResponse) -> bool:
        """Answer the SyncGroup that waits; return whether one did."""
        answer, self.sync_answer = self.sync_answer, None
        if answer is None:
            return False
        answer(response)
        return True
