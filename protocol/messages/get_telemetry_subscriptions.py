"""GetTelemetrySubscriptions, API key 71, version 0: which of its metrics a client should push.

Source: GetTelemetrySubscriptionsRequest.json and GetTelemetrySubscriptionsResponse.json, Apache
Kafka 4.3 (KIP-714).
"""

from dataclasses import field

from protocol.wire import ZERO_UUID, Bool, Int8, Int16, Int32, String, Uuid, message, structure


@message(api_key=71, kind="request", versions=(0, 0), flexible_since=0)
@structure
class GetTelemetrySubscriptionsRequest:
    """The client instance that asks; zero at first, so that the broker assigns an id."""

    client_instance_id: Uuid = ZERO_UUID


@message(api_key=71, kind="response", versions=(0, 0), flexible_since=0)
@structure
class GetTelemetrySubscriptionsResponse:
    """Prefixes of names, `*` alone for all; how often, in which codecs, and how many bytes."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    client_instance_id: Uuid = ZERO_UUID
    subscription_id: Int32 = 0
    accepted_compression_types: list[Int8] = field(default_factory=list)
    push_interval_ms: Int32 = 0
    telemetry_max_bytes: Int32 = 0
    delta_temporality: Bool = False
    requested_metrics: list[String] = field(default_factory=list)
