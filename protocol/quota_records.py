"""The metadata record of client quotas: one quota of one entity, or its removal.

Source: ClientQuotaRecord.json, Apache Kafka 4.3.
"""

from dataclasses import field
from typing import Annotated

from protocol.wire import Bool, Float64, Nullable, String, message, structure


@structure
class QuotaRecordEntity:
    """One part of an entity: `user`, `client-id` or `ip`; a name of None is its default."""

    entity_type: String
    entity_name: Annotated[String | None, Nullable()]


@message(api_key=14, kind="data", versions=(0, 0), flexible_since=0)
@structure
class ClientQuotaRecord:
    """A quota of an entity is set, or with `remove` removed."""

    entity: list[QuotaRecordEntity] = field(default_factory=list)
    key: String
    value: Float64 = 0.0
    remove: Bool = False
