"""Serving a directory read-only (`serve --read-only`): the requests that are refused, and how.

`REFUSED` is the one table: it names every API that would write, with an error that clients treat as
fatal. With a retriable error they would retry for ever. A test fails for an API that is in neither
`REFUSED` nor `READS`. Handlers do not know about the mode, except that Metadata creates no topic.

| error | for | because |
|---|---|---|
| POLICY_VIOLATION | topics, configs, records, the cluster | admin clients show its message |
| TOPIC_AUTHORIZATION_FAILED | produce | producers fail the record and do not retry it |
| GROUP_AUTHORIZATION_FAILED | groups, commits | consumers raise it and do not rejoin |
| CLUSTER_AUTHORIZATION_FAILED | producer ids | it is fatal to an idempotent producer |
| TRANSACTIONAL_ID_AUTHORIZATION_FAILED | transactions | it is fatal to their producers |

The rest of the mode is elsewhere: the directory is opened in memory
(`broker.read_only.directory_identity`, `storage.files.overlay`), housekeeping runs only the duties
that change nothing (`broker.maintenance.housekeeping`), and group members never expire
(`broker.groups.frozen`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import fields, is_dataclass
from typing import Any, Final

from broker.handlers import Handler
from broker.runtime.request import Request
from broker.services import Services
from protocol.api_keys import ApiKey
from protocol.errors import ErrorCode

MESSAGE: Final = "This broker serves its directory read-only."

REFUSED: Final = {
    ApiKey.PRODUCE: ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ApiKey.INIT_PRODUCER_ID: ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    ApiKey.ADD_PARTITIONS_TO_TXN: ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    ApiKey.ADD_OFFSETS_TO_TXN: ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    ApiKey.END_TXN: ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    ApiKey.WRITE_TXN_MARKERS: ErrorCode.POLICY_VIOLATION,
    ApiKey.TXN_OFFSET_COMMIT: ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    ApiKey.OFFSET_COMMIT: ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ApiKey.JOIN_GROUP: ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ApiKey.SYNC_GROUP: ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ApiKey.HEARTBEAT: ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ApiKey.LEAVE_GROUP: ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ApiKey.CONSUMER_GROUP_HEARTBEAT: ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ApiKey.DELETE_GROUPS: ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ApiKey.OFFSET_DELETE: ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ApiKey.CREATE_TOPICS: ErrorCode.POLICY_VIOLATION,
    ApiKey.DELETE_TOPICS: ErrorCode.POLICY_VIOLATION,
    ApiKey.CREATE_PARTITIONS: ErrorCode.POLICY_VIOLATION,
    ApiKey.DELETE_RECORDS: ErrorCode.POLICY_VIOLATION,
    ApiKey.ALTER_CONFIGS: ErrorCode.POLICY_VIOLATION,
    ApiKey.INCREMENTAL_ALTER_CONFIGS: ErrorCode.POLICY_VIOLATION,
    ApiKey.ALTER_CLIENT_QUOTAS: ErrorCode.POLICY_VIOLATION,
    ApiKey.ELECT_LEADERS: ErrorCode.POLICY_VIOLATION,
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: ErrorCode.POLICY_VIOLATION,
    ApiKey.UPDATE_FEATURES: ErrorCode.POLICY_VIOLATION,
    ApiKey.UNREGISTER_BROKER: ErrorCode.POLICY_VIOLATION,
    ApiKey.CREATE_ACLS: ErrorCode.POLICY_VIOLATION,
    ApiKey.DELETE_ACLS: ErrorCode.POLICY_VIOLATION,
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: ErrorCode.POLICY_VIOLATION,
}

READS: Final = frozenset(
    {
        ApiKey.FETCH,
        ApiKey.LIST_OFFSETS,
        ApiKey.METADATA,
        ApiKey.OFFSET_FETCH,
        ApiKey.FIND_COORDINATOR,
        ApiKey.DESCRIBE_GROUPS,
        ApiKey.LIST_GROUPS,
        ApiKey.SASL_HANDSHAKE,
        ApiKey.API_VERSIONS,
        ApiKey.OFFSET_FOR_LEADER_EPOCH,
        ApiKey.DESCRIBE_ACLS,
        ApiKey.DESCRIBE_CONFIGS,
        ApiKey.DESCRIBE_CLIENT_QUOTAS,
        ApiKey.DESCRIBE_LOG_DIRS,
        ApiKey.SASL_AUTHENTICATE,
        ApiKey.LIST_PARTITION_REASSIGNMENTS,
        ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS,
        ApiKey.DESCRIBE_QUORUM,
        ApiKey.DESCRIBE_CLUSTER,
        ApiKey.DESCRIBE_PRODUCERS,
        ApiKey.DESCRIBE_TRANSACTIONS,
        ApiKey.LIST_TRANSACTIONS,
        ApiKey.CONSUMER_GROUP_DESCRIBE,
        ApiKey.GET_TELEMETRY_SUBSCRIPTIONS,
        ApiKey.PUSH_TELEMETRY,
        ApiKey.LIST_CONFIG_RESOURCES,
        ApiKey.DESCRIBE_TOPIC_PARTITIONS,
    }
)

Handle = Callable[[Request, Services], Any]


def refuse_writes(rows: Iterable[Handler]) -> list[Handler]:
    """Return the handler table with a `Refusal` for each API in `REFUSED`."""
    return [Refusal(row, REFUSED[row.api_key]) if row.api_key in REFUSED else row for row in rows]


class Refusal(Handler):
    """A handler that answers every request with one error, and `MESSAGE` if there is a field."""

    def __init__(self, row: Handler, code: ErrorCode) -> None:
        super().__init__(row.api_key, row.min_version, row.max_version, *row.rights)

        def handle(request: Request, services: Services) -> Any:  # noqa: ARG001
            return _with_message(row.error_response(request, code))

        self.handle = handle


def _with_message(answer: Any) -> Any:
    """Put `MESSAGE` into every `error_message` of a response."""
    if isinstance(answer, list):
        for one in answer:
            _with_message(one)
    elif is_dataclass(answer):
        for field in fields(answer):
            if field.name == "error_message":
                setattr(answer, field.name, MESSAGE)
            else:
                _with_message(getattr(answer, field.name))
    return answer
