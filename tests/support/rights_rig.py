"""A broker without sockets whose client has the rights that a test gives it, and no others."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from broker.security.acl.acl_codes import AclOperation, PatternType, PermissionType, ResourceType
from broker.security.acl.acl_entry import AclEntry
from protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from tests.support.broker_rig import Rig
from tests.support.rights_answers import told
from tests.support.rights_bodies import body_of
from tests.support.rights_cases import Case, Grant

ALICE = "User:alice"
DENIALS = {29, 30, 31, 53}


class RightsRig:
    """A rig with the topic `t`; `admin` asks as a super user, `ask` as the client."""

    def __init__(self, directory: Path, **settings: str) -> None:
        self.rig = Rig(
            directory,
            authorizer_class_name="org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            super_users="User:ANONYMOUS",
            offsets_topic_num_partitions="1",
            transaction_state_log_num_partitions="1",
            auto_create_topics_enable=settings.pop("auto_create_topics_enable", "false"),
            **settings,
        )
        self.topic_id = b""
        self._entries: list[AclEntry] = []

    @property
    def authorizer(self) -> Any:
        return self.rig.services.authorizer

    async def begin(self) -> None:
        """Create the topic and the topics of the coordinators."""
        topic = CreatableTopic(name="t", num_partitions=1, replication_factor=1)
        made = await self.rig.call(CreateTopicsRequest(topics=[topic]), 7)
        self.topic_id = made.topics[0].topic_id
        await self.admin("FIND_COORDINATOR", 4, key_type=0, coordinator_keys=["g"])
        await self.admin("FIND_COORDINATOR", 4, key_type=1, coordinator_keys=["x"])
        partition = {"partition_index": 0, "committed_offset": 1}
        topics = [{"name": "t", "partitions": [partition]}]
        await self.admin("OFFSET_COMMIT", 8, group_id="g", topics=topics)

    def allow(self, *grants: Grant) -> None:
        """Give the client exactly these rights."""
        for entry in self._entries:
            self.authorizer.remove(entry)
        self._entries = list(dict.fromkeys(map(_entry, grants)))
        for entry in self._entries:
            self.authorizer.add(entry)

    async def send(self, case: Case, principal: str = ALICE) -> Any:
        """Return the answer to a case."""
        return await self.rig.call(body_of(case, self.topic_id), case.version, principal=principal)

    async def ask(self, api: str, version: int, **body: Any) -> Any:
        """Return the answer to the client."""
        return await self.send(Case(api, version, body))

    async def admin(self, api: str, version: int, **body: Any) -> Any:
        """Return the answer to a super user."""
        return await self.send(Case(api, version, body), "User:ANONYMOUS")


def _entry(grant: Grant) -> AclEntry:
    return AclEntry(
        ResourceType(grant.kind),
        grant.name,
        PatternType(grant.pattern),
        grant.principal or ALICE,
        grant.host,
        AclOperation(grant.operation),
        PermissionType(grant.permission),
    )


def codes(answer: Any) -> list[int]:
    """Return all error codes of an answer, in its order."""
    return list(_codes(told(answer))) if answer is not None else []


def _codes(value: Any) -> Iterable[int]:
    if isinstance(value, list):
        for one in value:
            yield from _codes(one)
    elif isinstance(value, dict):
        for name, inner in value.items():
            if "error_code" in name:
                yield int(inner)
            else:
                yield from _codes(inner)


def denials(answer: Any) -> set[int]:
    """Return the codes that say that a right is missing."""
    return set(codes(answer)) & DENIALS
