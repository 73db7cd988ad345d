"""Members of one classic group, driven step by step against a FakeHost."""

from typing import Any

from broker.groups.classic.classic_group import ClassicGroup
from broker.groups.group import Caller
from protocol.consumer_protocol import ConsumerProtocolSubscription, encode_subscription
from protocol.messages.heartbeat import HeartbeatRequest
from protocol.messages.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
)
from protocol.messages.leave_group import MemberIdentity
from protocol.messages.sync_group import (
    SyncGroupRequest,
    SyncGroupRequestAssignment,
    SyncGroupResponse,
)
from tests.support.group_host import FakeHost

SESSION_MS = 10_000
REBALANCE_MS = 60_000


def protocols(*names: str, topics: tuple[str, ...] = ("t",)) -> list[JoinGroupRequestProtocol]:
    metadata = encode_subscription(ConsumerProtocolSubscription(topics=list(topics)))
    return [JoinGroupRequestProtocol(name=name, metadata=metadata) for name in names]


class Party:
    """A group and the answers to its members, by the name that the test gives each request."""

    def __init__(self, **settings: Any) -> None:
        self.host = FakeHost(**settings)
        self.group = ClassicGroup("g", self.host)
        self.joined: dict[str, JoinGroupResponse] = {}
        self.synced: dict[str, SyncGroupResponse] = {}

    @property
    def state(self) -> str:
        return self.group.state_name

    def join(
        self, name: str, member_id: str = "", *, version: int = 9, **fields: Any
    ) -> int | None:
        """Send a JoinGroup; return the error of its answer, or None while it waits."""
        asked: dict[str, Any] = {
            "group_id": "g",
            "session_timeout_ms": SESSION_MS,
            "rebalance_timeout_ms": REBALANCE_MS,
            "member_id": member_id,
            "protocol_type": "consumer",
            "protocols": protocols("range"),
            **fields,
        }
        self.joined.pop(name, None)
        self.group.join(
            JoinGroupRequest(**asked),
            Caller(name, "/127.0.0.1", version),
            lambda response: self.joined.update({name: response}),
        )
        return self.joined[name].error_code if name in self.joined else None

    def enter(self, name: str, **fields: Any) -> str:
        """Join as a new member with the id that the group assigns; return the id."""
        version = fields.pop("version", 9)
        if self.join(name, version=version, **fields) == 79:
            member_id = self.joined[name].member_id
            self.join(name, member_id, version=version, **fields)
            return member_id
        return self.joined[name].member_id if name in self.joined else ""

    def sync(
        self, name: str, member_id: str, generation: int | None = None, **fields: Any
    ) -> int | None:
        """Send a SyncGroup; with `assignments` (a dict) as the leader."""
        given = fields.pop("assignments", {})
        self.synced.pop(name, None)
        body = SyncGroupRequest(
            group_id="g",
            generation_id=self.group.generation.generation_id if generation is None else generation,
            member_id=member_id,
            assignments=[
                SyncGroupRequestAssignment(member_id=key, assignment=value)
                for key, value in given.items()
            ],
            **fields,
        )
        self.group.sync(body, lambda response: self.synced.update({name: response}))
        return self.synced[name].error_code if name in self.synced else None

    def heartbeat(self, member_id: str, generation: int | None = None, **fields: Any) -> int:
        return self.group.heartbeat(
            HeartbeatRequest(
                group_id="g",
                generation_id=self.group.generation.generation_id
                if generation is None
                else generation,
                member_id=member_id,
                **fields,
            )
        )

    def leave(self, *members: tuple[str, str | None]) -> list[int]:
        responses = self.group.leave(
            [
                MemberIdentity(member_id=member_id, group_instance_id=instance_id)
                for member_id, instance_id in members
            ]
        )
        return [response.error_code for response in responses]

    def stable(self, *names: str, **fields: Any) -> dict[str, str]:
        """Bring the group into Stable with these members; return their ids."""
        ids = {name: self.enter(name, **fields) for name in names}
        self.host.advance(0)
        for name, member_id in ids.items():
            if name not in self.joined:
                self.join(name, member_id, **fields)
        for name in names:
            if self.joined[name].generation_id != self.group.generation.generation_id:
                self.join(name, ids[name] or self.joined[name].member_id, **fields)
        ids = {name: self.joined[name].member_id for name in names}
        leader = self.joined[names[0]].leader
        shares = {member_id: name.encode() for name, member_id in ids.items()}
        for name, member_id in ids.items():
            self.sync(name, member_id, assignments=shares if member_id == leader else {})
        assert self.state == "Stable", self.state
        return ids
