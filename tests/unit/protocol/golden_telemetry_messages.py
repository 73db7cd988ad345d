"""Bytes that Apache Kafka 4.3's client library wrote: metrics of clients.

Rows of (message, version, bytes in hexadecimal) for `test_messages.py`, made by
org.apache.kafka.common.message's classes from the same values.
"""

from protocol.messages import get_telemetry_subscriptions, push_telemetry

INSTANCE = bytes(range(1, 17))

GOLDEN = [
    (
        get_telemetry_subscriptions.GetTelemetrySubscriptionsRequest(client_instance_id=INSTANCE),
        0,
        "0102030405060708090a0b0c0d0e0f1000",
    ),
    (
        get_telemetry_subscriptions.GetTelemetrySubscriptionsResponse(
            throttle_time_ms=7,
            client_instance_id=INSTANCE,
            subscription_id=-5,
            accepted_compression_types=[4, 3, 1, 2],
            push_interval_ms=60_000,
            telemetry_max_bytes=1_048_576,
            delta_temporality=True,
            requested_metrics=["org.apache.kafka.", "x"],
        ),
        0,
        (
            "0000000700000102030405060708090a0b0c0d0e0f10fffffffb05040301020000ea600010000001"
            "03126f72672e6170616368652e6b61666b612e027800"
        ),
    ),
    (
        push_telemetry.PushTelemetryRequest(
            client_instance_id=INSTANCE,
            subscription_id=-5,
            terminating=True,
            compression_type=4,
            metrics=b"\x01\x02\x03",
        ),
        0,
        "0102030405060708090a0b0c0d0e0f10fffffffb01040401020300",
    ),
    (
        push_telemetry.PushTelemetryResponse(throttle_time_ms=7, error_code=89),
        0,
        "00000007005900",
    ),
]
