"""Users, ACLs and quotas under crashes: a client changes them, and each start is looked at.

A *thing* is a SCRAM user, a set of three ACLs that one request creates or deletes, or the quota of
a client id. Its value is the user's iterations, how many of the ACLs there are, the quota's limit;
None is that there is no such thing. One client changes one thing at a time:

    sent ── acknowledged      the value from now on, whatever comes
         └─ no answer         the value before, or one of those that were sent since

So a start may show the acknowledged value or a later one that was sent. What it shows is on the
disk, and is what counts from then on. Of the ACLs of a request it shows all or none.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from protocol.kafka.codec import decode_message, encode_message
from protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    AlteredQuotaEntity,
    QuotaAlteration,
    QuotaOperation,
)
from protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from protocol.messages.create_acls import AclCreation, CreateAclsRequest, CreateAclsResponse
from protocol.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest, DeleteAclsResponse
from protocol.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse
from protocol.messages.describe_client_quotas import (
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
)
from protocol.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
)
from protocol.wire import message_spec
from tests.faults.clients import Clients
from tests.faults.wire import Connection
from tests.support.history_checker import Anomaly
from tests.support.raw_client import Closed

# Clients without a login may change everything; all requests pass the guards of their rights.
SETTINGS: Final = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}
COUNT: Final = 4  # things of each kind
ACLS: Final = 3  # of a set
SHA_256, ITERATIONS = 1, 4096
TOPIC, ANY, MATCH_LITERAL, READ, ALLOW = 2, 1, 3, 3, 3
RESOURCE_NOT_FOUND = 91
REST_S = 0.02

Value = float | None


class Thing(NamedTuple):
    """What has a value."""

    kind: str
    number: int

    @property
    def name(self) -> str:
        return f"{self.kind}-{self.number}"


@dataclass(slots=True)
class State:
    """What is known of a thing: the acknowledged value, and those that were sent after it."""

    acknowledged: Value = None
    sent: list[Value] = field(default_factory=list)


@dataclass(slots=True)
class SecurityChanges:
    """The client, and what it knows."""

    clients: Clients
    states: dict[Thing, State] = field(
        default_factory=lambda: {
            Thing(kind, number): State() for kind in CHANGES for number in range(COUNT)
        }
    )

    async def run(self) -> None:
        """Change things, one after the other, until cancelled."""
        await self.clients.while_connected(self._work)

    async def _work(self, connection: Connection) -> None:
        chance = self.clients.chance
        while True:
            thing = chance.choice([*self.states])
            state = self.states[thing]
            value = chance.choice((None, float(self.clients.next_number() % 4096 + 1)))
            if thing.kind == "acls" and value is not None:
                value = float(ACLS)
            state.sent.append(value)
            codes = await CHANGES[thing.kind](connection, thing.name, value)
            if not codes - ({RESOURCE_NOT_FOUND} if value is None else set()):
                state.acknowledged = value
                state.sent.clear()
                self.clients.acknowledged += 1
            await asyncio.sleep(REST_S)

    async def look(self, connection: Connection) -> None:
        """Compare all that there is with what is known."""
        found = {
            **{Thing("user", n): value for n, value in (await _users(connection)).items()},
            **{Thing("acls", n): value for n, value in (await _acls(connection)).items()},
            **{Thing("quota", n): value for n, value in (await _quotas(connection)).items()},
        }
        for thing, state in self.states.items():
            value = found.get(thing)
            if value not in (state.acknowledged, *state.sent):
                detail = f"{thing.name} is {value}, acknowledged was {state}"
                self.clients.found.append(Anomaly("lost-security-change", detail))
            state.acknowledged, state.sent = value, []


# -- changes: each returns the error codes of its answer -------------------------------------------


async def _change_user(connection: Connection, name: str, value: Value) -> set[int]:
    body = AlterUserScramCredentialsRequest()
    if value is None:
        body.deletions = [ScramCredentialDeletion(name=name, mechanism=SHA_256)]
    else:
        body.upsertions = [
            ScramCredentialUpsertion(
                name=name,
                mechanism=SHA_256,
                iterations=ITERATIONS + int(value),
                salt=b"salt",
                salted_password=bytes(32),
            )
        ]
    answer = await _ask(connection, body, 0, AlterUserScramCredentialsResponse)
    return {one.error_code for one in answer.results}


async def _change_acls(connection: Connection, name: str, value: Value) -> set[int]:
    principals = [f"User:{name}-{number}" for number in range(ACLS)]
    if value is None:
        deleted = DeleteAclsFilter(
            resource_type_filter=TOPIC,
            resource_name_filter=name,
            principal_filter=None,
            host_filter=None,
            operation=READ,
            permission_type=ALLOW,
        )
        body = DeleteAclsRequest(filters=[deleted])
        answer = await _ask(connection, body, 1, DeleteAclsResponse)
        results = answer.filter_results
        return {one.error_code for of in results for one in (of, *of.matching_acls)}
    created = [
        AclCreation(
            resource_type=TOPIC,
            resource_name=name,
            principal=principal,
            host="*",
            operation=READ,
            permission_type=ALLOW,
        )
        for principal in principals
    ]
    answer = await _ask(connection, CreateAclsRequest(creations=created), 1, CreateAclsResponse)
    return {one.error_code for one in answer.results}


async def _change_quota(connection: Connection, name: str, value: Value) -> set[int]:
    entity = AlteredQuotaEntity(entity_type="client-id", entity_name=name)
    op = QuotaOperation(
        key="producer_byte_rate", value=0.0 if value is None else value, remove=value is None
    )
    body = AlterClientQuotasRequest(entries=[QuotaAlteration(entity=[entity], ops=[op])])
    answer = await _ask(connection, body, 0, AlterClientQuotasResponse)
    return {one.error_code for one in answer.entries}


CHANGES: Mapping[str, Callable[[Connection, str, Value], Awaitable[set[int]]]] = {
    "user": _change_user,
    "acls": _change_acls,
    "quota": _change_quota,
}


# -- what there is, by number ----------------------------------------------------------------------


async def _users(connection: Connection) -> dict[int, Value]:
    body = DescribeUserScramCredentialsRequest(users=None)
    answer = await _ask(connection, body, 0, DescribeUserScramCredentialsResponse)
    assert not answer.error_code, answer
    return {
        _number(one.user): float(one.credential_infos[0].iterations - ITERATIONS)
        for one in answer.results
    }


async def _acls(connection: Connection) -> dict[int, Value]:
    body = DescribeAclsRequest(
        resource_type_filter=TOPIC,
        resource_name_filter=None,
        pattern_type_filter=MATCH_LITERAL,
        principal_filter=None,
        host_filter=None,
        operation=ANY,
        permission_type=ANY,
    )
    answer = await _ask(connection, body, 1, DescribeAclsResponse)
    assert not answer.error_code, answer
    return {_number(one.resource_name): float(len(one.acls)) for one in answer.resources}


async def _quotas(connection: Connection) -> dict[int, Value]:
    body = DescribeClientQuotasRequest(components=[], strict=False)
    answer = await _ask(connection, body, 0, DescribeClientQuotasResponse)
    assert not answer.error_code, answer
    return {_number(one.entity[0].entity_name): one.values[0].value for one in answer.entries}


def _number(name: str) -> int:
    return int(name.rpartition("-")[2])


async def _ask(connection: Connection, body: Any, version: int, answers: type[Any]) -> Any:
    """Send a request by the product's codec, and read the answer."""
    spec = message_spec(type(body))
    is_flexible = spec.is_flexible(version)
    tags = b"\0" if is_flexible else b""
    reader = await connection.call(spec.api_key, version, tags + encode_message(body, version))
    data = reader.take(len(reader.data) - reader.position)
    answer, end = decode_message(answers, version, data, len(tags))
    if end != len(data):
        raise Closed(f"{len(data) - end} bytes behind the answer")
    return answer
