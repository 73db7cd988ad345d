"""The APIs this broker serves, in the order of their keys: one row and one module for each.

An API is served and advertised if it is listed here (broker/handlers/api_versions.py has the one
exception). An API has the name of its key everywhere: `FETCH` is handled in
`broker.handlers.fetch`, and `FetchRequest` and `FetchResponse` are in `protocol.messages.fetch`.

A row also declares the rights that the API needs (`broker.rights.clauses`): there is no row without
them (docs/design.md, I18). If the broker has an authorizer, the dispatcher puts them before the
handler.

A module has `handle(request, services)` and `error_response(request, code)`; `broker.dispatch`
describes what `handle` may return. A module is imported with the first request of its API, or
shortly after the start (broker/maintenance/housekeeping.py): importing all of them would take a
quarter of the time of a start.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from importlib import import_module
from typing import Any

from broker.rights.asking import Need
from broker.rights.clauses import (
    CLUSTER,
    GROUP,
    TOPIC,
    TRANSACTIONAL_ID,
    Bits,
    Clause,
    Each,
    EachConfig,
    Hot,
    Nothing,
    Own,
    Seen,
    Whole,
)
from broker.runtime.request import Request
from broker.security.acl.acl_codes import AclOperation, ResourceType
from broker.services import Services
from protocol.api_keys import ApiKey
from protocol.errors import ErrorCode


class Handler:
    """One API: its key, the versions served (inclusive), its rights, messages and functions.

    Implements protocol.dialect.ServedApi.
    """

    def __init__(
        self, api_key: ApiKey, min_version: int, max_version: int, *rights: Clause
    ) -> None:
        if not rights:
            raise TypeError(f"{api_key.name} declares no rights; name them, or Nothing and why")
        self.rights = rights
        self.api_key = api_key
        self.min_version = min_version
        self.max_version = max_version
        self.name = api_key.name.lower()

    def load(self) -> None:
        """Import the modules of the handler and its messages, if they are not imported yet."""
        _ = self.request, self.response, self.handle, self.error_response

    @cached_property
    def request(self) -> type[Any]:
        """The message class of the request."""
        return self._message("Request")

    @cached_property
    def response(self) -> type[Any]:
        """The message class of the response."""
        return self._message("Response")

    @cached_property
    def handle(self) -> Callable[[Request, Services], Any]:
        """The function that serves a request."""
        function: Callable[[Request, Services], Any] = self._function("handle")
        return function

    @cached_property
    def error_response(self) -> Callable[[Request, ErrorCode], Any]:
        """The function that makes the answer to a request that fails as a whole."""
        function: Callable[[Request, ErrorCode], Any] = self._function("error_response")
        return function

    def _message(self, side: str) -> type[Any]:
        module = import_module(f"protocol.messages.{self.name}")
        words = self.name.split("_")
        cls: type[Any] = getattr(module, "".join(map(str.capitalize, words)) + side)
        return cls

    def _function(self, name: str) -> Any:
        return getattr(import_module(f"broker.handlers.{self.name}"), name)


# Produce is listed from version 0 and served from 3, as in Kafka: librdkafka takes a minimum above
# 0 to mean that the broker supports no compression (KAFKA-18659).
PRODUCE_ADVERTISED_MIN = 0

READ, WRITE, DESCRIBE = AclOperation.READ, AclOperation.WRITE, AclOperation.DESCRIBE
CREATE, ALTER, DELETE = AclOperation.CREATE, AclOperation.ALTER, AclOperation.DELETE


def _each(
    operation: AclOperation,
    resource: ResourceType,
    items: str = "topics",
    answers: str = "topics",
    name: str = "name",
    *,
    checks_name: bool = False,
) -> Each:
    return Each((Need(resource, operation),), items, answers, name, checks_name=checks_name)


_MEMBER = Whole((Need(GROUP, READ),), "group_id")
_PRODUCER = Whole((Need(TRANSACTIONAL_ID, WRITE),), "transactional_id")
_SEES_CLUSTER = Whole((Need(CLUSTER, DESCRIBE),))
_ALTERS_CLUSTER = Whole((Need(CLUSTER, ALTER),))
_OF_ITSELF = Nothing("clients tell of themselves, and no other client sees it")
_BEFORE_LOGIN = Nothing("clients send it before they authenticate")

HANDLERS: tuple[Handler, ...] = (
    Handler(ApiKey.PRODUCE, 3, 13, Hot("produce")),
    Handler(ApiKey.FETCH, 4, 18, Hot("fetch")),
    Handler(ApiKey.LIST_OFFSETS, 1, 11, _each(DESCRIBE, TOPIC)),
    Handler(
        ApiKey.METADATA,
        0,
        13,
        Own("metadata"),
        Bits(TOPIC, "topic_authorized_operations", "topics", "name"),
        Bits(CLUSTER, "cluster_authorized_operations"),
    ),
    Handler(
        ApiKey.OFFSET_COMMIT,
        2,
        10,
        _MEMBER,
        Each((Need(TOPIC, READ),), "topics", "topics", id_since=10),
    ),
    Handler(ApiKey.OFFSET_FETCH, 1, 10, Own("offset_fetch")),
    Handler(ApiKey.FIND_COORDINATOR, 0, 6, Own("find_coordinator")),
    Handler(ApiKey.JOIN_GROUP, 0, 9, _MEMBER),
    Handler(ApiKey.HEARTBEAT, 0, 4, _MEMBER),
    Handler(ApiKey.LEAVE_GROUP, 0, 5, _MEMBER),
    Handler(ApiKey.SYNC_GROUP, 0, 5, _MEMBER),
    Handler(
        ApiKey.DESCRIBE_GROUPS,
        0,
        6,
        _each(DESCRIBE, GROUP, "groups", "groups", name=""),
        Bits(GROUP, "authorized_operations", "groups", "group_id"),
    ),
    Handler(
        ApiKey.LIST_GROUPS,
        0,
        5,
        Seen(Need(GROUP, DESCRIBE), "groups", "group_id", unless=Need(CLUSTER, DESCRIBE)),
    ),
    Handler(ApiKey.SASL_HANDSHAKE, 0, 1, _BEFORE_LOGIN),
    Handler(ApiKey.API_VERSIONS, 0, 4, _BEFORE_LOGIN),
    Handler(
        ApiKey.CREATE_TOPICS,
        2,
        7,
        Each((Need(CLUSTER, CREATE), Need(TOPIC, CREATE)), "topics", "topics"),
        Own("create_topics"),
    ),
    Handler(ApiKey.DELETE_TOPICS, 1, 6, Own("delete_topics")),
    Handler(ApiKey.DELETE_RECORDS, 0, 2, _each(DELETE, TOPIC)),
    Handler(ApiKey.INIT_PRODUCER_ID, 0, 5, Own("init_producer_id")),
    Handler(
        ApiKey.OFFSET_FOR_LEADER_EPOCH,
        2,
        4,
        Each(
            (Need(CLUSTER, AclOperation.CLUSTER_ACTION), Need(TOPIC, DESCRIBE)),
            "topics",
            "topics",
            "topic",
        ),
    ),
    Handler(ApiKey.ADD_PARTITIONS_TO_TXN, 0, 5, Own("add_partitions_to_txn")),
    Handler(ApiKey.ADD_OFFSETS_TO_TXN, 0, 4, _PRODUCER, _MEMBER),
    Handler(ApiKey.END_TXN, 0, 5, _PRODUCER),
    Handler(
        ApiKey.WRITE_TXN_MARKERS,
        1,
        2,
        Whole((Need(CLUSTER, ALTER), Need(CLUSTER, AclOperation.CLUSTER_ACTION))),
    ),
    Handler(ApiKey.TXN_OFFSET_COMMIT, 0, 5, _PRODUCER, _MEMBER, _each(READ, TOPIC)),
    Handler(ApiKey.DESCRIBE_ACLS, 1, 3, _SEES_CLUSTER),
    Handler(ApiKey.CREATE_ACLS, 1, 3, _ALTERS_CLUSTER),
    Handler(ApiKey.DELETE_ACLS, 1, 3, _ALTERS_CLUSTER),
    Handler(
        ApiKey.DESCRIBE_CONFIGS,
        1,
        4,
        EachConfig(
            (Need(CLUSTER, AclOperation.DESCRIBE_CONFIGS),), "resources", "results", "resource_name"
        ),
    ),
    Handler(
        ApiKey.ALTER_CONFIGS,
        0,
        2,
        EachConfig(
            (Need(CLUSTER, AclOperation.ALTER_CONFIGS),), "resources", "responses", "resource_name"
        ),
    ),
    Handler(ApiKey.DESCRIBE_LOG_DIRS, 1, 5, _SEES_CLUSTER),
    Handler(ApiKey.SASL_AUTHENTICATE, 0, 2, _BEFORE_LOGIN),
    Handler(ApiKey.CREATE_PARTITIONS, 0, 3, _each(ALTER, TOPIC, answers="results")),
    Handler(ApiKey.DELETE_GROUPS, 0, 2, _each(DELETE, GROUP, "groups_names", "results", name="")),
    Handler(ApiKey.ELECT_LEADERS, 0, 2, _ALTERS_CLUSTER),
    Handler(
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
        0,
        1,
        EachConfig(
            (Need(CLUSTER, AclOperation.ALTER_CONFIGS),), "resources", "responses", "resource_name"
        ),
    ),
    Handler(ApiKey.ALTER_PARTITION_REASSIGNMENTS, 0, 1, _ALTERS_CLUSTER),
    Handler(ApiKey.LIST_PARTITION_REASSIGNMENTS, 0, 0, _SEES_CLUSTER),
    Handler(
        ApiKey.OFFSET_DELETE,
        0,
        0,
        Whole((Need(GROUP, DELETE),), "group_id"),
        Own("offset_delete"),
    ),
    Handler(
        ApiKey.DESCRIBE_CLIENT_QUOTAS, 0, 1, Whole((Need(CLUSTER, AclOperation.DESCRIBE_CONFIGS),))
    ),
    Handler(ApiKey.ALTER_CLIENT_QUOTAS, 0, 1, Whole((Need(CLUSTER, AclOperation.ALTER_CONFIGS),))),
    Handler(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, 0, 0, _SEES_CLUSTER),
    Handler(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, 0, 0, _ALTERS_CLUSTER),
    Handler(ApiKey.DESCRIBE_QUORUM, 0, 2, _SEES_CLUSTER),
    Handler(ApiKey.UPDATE_FEATURES, 0, 2, _ALTERS_CLUSTER),
    Handler(
        ApiKey.DESCRIBE_CLUSTER,
        0,
        2,
        Nothing("clients need the brokers' addresses"),
        Bits(CLUSTER, "cluster_authorized_operations"),
    ),
    Handler(ApiKey.DESCRIBE_PRODUCERS, 0, 0, _each(READ, TOPIC, checks_name=True)),
    Handler(ApiKey.UNREGISTER_BROKER, 0, 0, _ALTERS_CLUSTER),
    Handler(
        ApiKey.DESCRIBE_TRANSACTIONS,
        0,
        0,
        _each(DESCRIBE, TRANSACTIONAL_ID, "transactional_ids", "transaction_states", name=""),
        Own("describe_transactions"),
    ),
    Handler(
        ApiKey.LIST_TRANSACTIONS,
        0,
        2,
        Seen(Need(TRANSACTIONAL_ID, DESCRIBE), "transaction_states", "transactional_id"),
    ),
    Handler(ApiKey.CONSUMER_GROUP_HEARTBEAT, 0, 1, Own("consumer_group_heartbeat")),
    Handler(
        ApiKey.CONSUMER_GROUP_DESCRIBE,
        0,
        1,
        _each(DESCRIBE, GROUP, "group_ids", "groups", name=""),
        Bits(GROUP, "authorized_operations", "groups", "group_id"),
        Own("consumer_group_describe"),
    ),
    Handler(ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, 0, 0, _OF_ITSELF),
    Handler(ApiKey.PUSH_TELEMETRY, 0, 0, _OF_ITSELF),
    Handler(
        ApiKey.LIST_CONFIG_RESOURCES, 0, 1, Whole((Need(CLUSTER, AclOperation.DESCRIBE_CONFIGS),))
    ),
    Handler(
        ApiKey.DESCRIBE_TOPIC_PARTITIONS,
        0,
        0,
        Own("describe_topic_partitions"),
        Bits(TOPIC, "topic_authorized_operations", "topics", "name"),
    ),
)
