"""DescribeClientQuotas, API key 48, versions 0 and 1: list the quotas that match a filter.

Version notes
- 0 since KIP-546; 1 flexible.

Source: DescribeClientQuotasRequest.json and DescribeClientQuotasResponse.json, Apache Kafka 4.3.
"""

from dataclasses import field
from typing import Annotated

from protocol.wire import Bool, Float64, Int8, Int16, Int32, Nullable, String, message, structure


@structure
class QuotaFilterComponent:
    """What an entity must have of one type: `match_type` is 0 that name, 1 the default, 2 any."""

    entity_type: String
    match_type: Int8
    match: Annotated[String | None, Nullable()] = ""


@message(api_key=48, kind="request", versions=(0, 1), flexible_since=1)
@structure
class DescribeClientQuotasRequest:
    """A filter; `strict` leaves out entities with types that no component names."""

    components: list[QuotaFilterComponent] = field(default_factory=list)
    strict: Bool = False


@structure
class DescribedQuotaEntity:
    """One part of an entity; a name of None is the default of its type."""

    entity_type: String
    entity_name: Annotated[String | None, Nullable()] = ""


@structure
class DescribedQuotaValue:
    """One quota."""

    key: String
    value: Float64


@structure
class DescribedQuota:
    """An entity and its quotas."""

    entity: list[DescribedQuotaEntity] = field(default_factory=list)
    values: list[DescribedQuotaValue] = field(default_factory=list)


@message(api_key=48, kind="response", versions=(0, 1), flexible_since=1)
@structure
class DescribeClientQuotasResponse:
    """The entities that match; None after an error."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: Annotated[String | None, Nullable()] = ""
    entries: Annotated[list[DescribedQuota] | None, Nullable()] = field(default_factory=list)
