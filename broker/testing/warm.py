"""What a warm process has ready for its children: modules, and the codecs of all messages.

A child that has to import or compile at its first request would be no fresh broker in milliseconds.
Nothing here starts a thread or an event loop: a fork must not find any.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from typing import Any, Final

from broker.handlers import HANDLERS, Handler
from protocol.api_keys import ApiKey
from protocol.kafka.codec import decoder, encoder

MODULES: Final = (
    "broker.groups.coordinator",
    "broker.groups.group_log",
    "broker.groups.member_requests",
    "broker.groups.removal",
    "broker.http.http_connection",
    "broker.http.http_listener",
    "broker.server",
    "broker.testing.controlled_broker",
    "broker.transactions.adoption",
    "broker.transactions.endings",
    "broker.transactions.late_logs",
    "broker.transactions.markers",
    "broker.transactions.state_log",
    "broker.transactions.timeouts",
    "broker.transactions.transaction_coordinator",
    "broker.transactions.transaction_loading",
    "broker.transactions.transaction_store",
)
# What each client asks first; the codecs of all else are compiled while nothing is asked for.
FIRST: Final = (
    ApiKey.API_VERSIONS, ApiKey.METADATA, ApiKey.CREATE_TOPICS, ApiKey.PRODUCE, ApiKey.FETCH,
    ApiKey.LIST_OFFSETS, ApiKey.FIND_COORDINATOR, ApiKey.INIT_PRODUCER_ID, ApiKey.JOIN_GROUP,
    ApiKey.SYNC_GROUP, ApiKey.OFFSET_FETCH, ApiKey.OFFSET_COMMIT, ApiKey.HEARTBEAT,
)  # fmt: skip


def load() -> None:
    """Import all that a broker may need."""
    for row in HANDLERS:
        row.load()
    for name in MODULES:
        import_module(name)


def compile_codecs() -> Iterator[None]:
    """Compile the codecs of Kafka's messages, one step each a version."""
    first = [row for row in HANDLERS if row.api_key in FIRST]
    rest = [row for row in HANDLERS if row.api_key not in FIRST]
    for row in (*first, *rest):
        yield from _compile(row)


def _compile(row: Handler) -> Iterator[None]:
    response: type[Any] = row.response
    for version in range(row.max_version, row.min_version - 1, -1):
        decoder(row.request, version)
        encoder(response, version)
        yield
