"""AlterClientQuotas, API key 49, versions 0 and 1: set and remove quotas.

Version notes
- 0 since KIP-546; 1 flexible.

Source: AlterClientQuotasRequest.json and AlterClientQuotasResponse.json, Apache Kafka 4.3.
"""

from dataclasses import field
from typing import Annotated

from protocol.wire import Bool, Float64, Int16, Int32, Nullable, String, message, structure


@structure
class AlteredQuotaEntity:
    """One part of an entity; a name of None is the default of its type."""

    entity_type: String
    entity_name: Annotated[String | None, Nullable()] = ""


@structure
class QuotaOperation:
    """A quota to set, or with `remove` to remove; its value is then ignored."""

    key: String
    value: Float64 = 0.0
    remove: Bool = False


@structure
class QuotaAlteration:
    """An entity and the changes to its quotas."""

    entity: list[AlteredQuotaEntity] = field(default_factory=list)
    ops: list[QuotaOperation] = field(default_factory=list)


@message(api_key=49, kind="request", versions=(0, 1), flexible_since=1)
@structure
class AlterClientQuotasRequest:
    """Changes to make, or with `validate_only` to check."""

    entries: list[QuotaAlteration] = field(default_factory=list)
    validate_only: Bool = False


@structure
class AlteredQuota:
    """The outcome for one entity."""

    error_code: Int16 = 0
    error_message: Annotated[String | None, Nullable()] = ""
    entity: list[AlteredQuotaEntity] = field(default_factory=list)


@message(api_key=49, kind="response", versions=(0, 1), flexible_since=1)
@structure
class AlterClientQuotasResponse:
    """An outcome for each entity of the request."""

    throttle_time_ms: Int32 = 0
    entries: list[AlteredQuota] = field(default_factory=list)
