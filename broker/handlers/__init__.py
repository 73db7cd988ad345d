"""The APIs this broker serves, in the order of their keys: one row and one module for each.

An API is served and advertised if it is listed here (broker/handlers/api_versions.py has the one
exception). An API has the name of its key everywhere: `FETCH` is handled in
`broker.handlers.fetch`, and `FetchRequest` and `FetchResponse` are in `protocol.messages.fetch`.

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

from broker.runtime.request import Request
from broker.services import Services
from protocol.api_keys import ApiKey
from protocol.errors import ErrorCode


class Handler:
    """One API: its key, the versions served (inclusive), its messages and its functions.

    Implements protocol.dialect.ServedApi.
    """

    def __init__(self, api_key: ApiKey, min_version: int, max_version: int) -> None:
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

HANDLERS: tuple[Handler, ...] = (
    Handler(ApiKey.PRODUCE, 3, 13),
    Handler(ApiKey.FETCH, 4, 18),
    Handler(ApiKey.LIST_OFFSETS, 1, 11),
    Handler(ApiKey.METADATA, 0, 13),
    Handler(ApiKey.OFFSET_COMMIT, 2, 10),
    Handler(ApiKey.OFFSET_FETCH, 1, 10),
    Handler(ApiKey.FIND_COORDINATOR, 0, 6),
    Handler(ApiKey.JOIN_GROUP, 0, 9),
    Handler(ApiKey.HEARTBEAT, 0, 4),
    Handler(ApiKey.LEAVE_GROUP, 0, 5),
    Handler(ApiKey.SYNC_GROUP, 0, 5),
    Handler(ApiKey.DESCRIBE_GROUPS, 0, 6),
    Handler(ApiKey.LIST_GROUPS, 0, 5),
    Handler(ApiKey.SASL_HANDSHAKE, 0, 1),
    Handler(ApiKey.API_VERSIONS, 0, 4),
    Handler(ApiKey.CREATE_TOPICS, 2, 7),
    Handler(ApiKey.DELETE_TOPICS, 1, 6),
    Handler(ApiKey.DELETE_RECORDS, 0, 2),
    Handler(ApiKey.INIT_PRODUCER_ID, 0, 5),
    Handler(ApiKey.OFFSET_FOR_LEADER_EPOCH, 2, 4),
    Handler(ApiKey.ADD_PARTITIONS_TO_TXN, 0, 5),
    Handler(ApiKey.ADD_OFFSETS_TO_TXN, 0, 4),
    Handler(ApiKey.END_TXN, 0, 5),
    Handler(ApiKey.WRITE_TXN_MARKERS, 1, 2),
    Handler(ApiKey.TXN_OFFSET_COMMIT, 0, 5),
    Handler(ApiKey.DESCRIBE_ACLS, 1, 3),
    Handler(ApiKey.CREATE_ACLS, 1, 3),
    Handler(ApiKey.DELETE_ACLS, 1, 3),
    Handler(ApiKey.DESCRIBE_CONFIGS, 1, 4),
    Handler(ApiKey.ALTER_CONFIGS, 0, 2),
    Handler(ApiKey.DESCRIBE_LOG_DIRS, 1, 5),
    Handler(ApiKey.SASL_AUTHENTICATE, 0, 2),
    Handler(ApiKey.CREATE_PARTITIONS, 0, 3),
    Handler(ApiKey.DELETE_GROUPS, 0, 2),
    Handler(ApiKey.ELECT_LEADERS, 0, 2),
    Handler(ApiKey.INCREMENTAL_ALTER_CONFIGS, 0, 1),
    Handler(ApiKey.ALTER_PARTITION_REASSIGNMENTS, 0, 1),
    Handler(ApiKey.LIST_PARTITION_REASSIGNMENTS, 0, 0),
    Handler(ApiKey.OFFSET_DELETE, 0, 0),
    Handler(ApiKey.DESCRIBE_CLIENT_QUOTAS, 0, 1),
    Handler(ApiKey.ALTER_CLIENT_QUOTAS, 0, 1),
    Handler(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, 0, 0),
    Handler(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, 0, 0),
    Handler(ApiKey.DESCRIBE_QUORUM, 0, 2),
    Handler(ApiKey.UPDATE_FEATURES, 0, 2),
    Handler(ApiKey.DESCRIBE_CLUSTER, 0, 2),
    Handler(ApiKey.DESCRIBE_PRODUCERS, 0, 0),
    Handler(ApiKey.UNREGISTER_BROKER, 0, 0),
    Handler(ApiKey.DESCRIBE_TRANSACTIONS, 0, 0),
    Handler(ApiKey.LIST_TRANSACTIONS, 0, 2),
    Handler(ApiKey.CONSUMER_GROUP_HEARTBEAT, 0, 1),
    Handler(ApiKey.CONSUMER_GROUP_DESCRIBE, 0, 1),
    Handler(ApiKey.LIST_CONFIG_RESOURCES, 0, 1),
    Handler(ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0, 0),
)
