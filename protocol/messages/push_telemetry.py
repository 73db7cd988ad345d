"""PushTelemetry, API key 72, version 0: metrics of a client, in OpenTelemetry's format.

Source: PushTelemetryRequest.json and PushTelemetryResponse.json, Apache Kafka 4.3 (KIP-714).
"""

from protocol.wire import ZERO_UUID, Bool, Bytes, Int8, Int16, Int32, Uuid, message, structure


@message(api_key=72, kind="request", versions=(0, 0), flexible_since=0)
@structure
class PushTelemetryRequest:
    """Metrics as a MetricsData message of protobuf, perhaps compressed."""

    client_instance_id: Uuid = ZERO_UUID
    subscription_id: Int32 = 0
    terminating: Bool = False
    compression_type: Int8 = 0
    metrics: Bytes = b""


@message(api_key=72, kind="response", versions=(0, 0), flexible_since=0)
@structure
class PushTelemetryResponse:
    """Whether the metrics were taken."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
