"""GetTelemetrySubscriptions, API key 71, version 0: which metrics a client should push.

Behaviour
- The union of the subscriptions that match the client, at the shortest interval; without any,
  those of `barnabas.client.metrics.default` (`broker.telemetry.metric_subscriptions`).
- A client without an instance id gets one. Asking again before the interval is over is
  THROTTLING_QUOTA_EXCEEDED, unless the last push was refused for a reason that asking removes.
- Apache Kafka serves this API and PushTelemetry only with a plugin that receives metrics; this
  broker receives them itself.
"""

from __future__ import annotations

from broker.runtime.request import Request
from broker.services import Services
from broker.telemetry.client_telemetry import ACCEPTED
from protocol.errors import ErrorCode
from protocol.messages.get_telemetry_subscriptions import (
    GetTelemetrySubscriptionsRequest,
    GetTelemetrySubscriptionsResponse,
)


def handle(request: Request, services: Services) -> GetTelemetrySubscriptionsResponse:
    """Answer with what the client should push, and how often."""
    body: GetTelemetrySubscriptionsRequest = request.body
    error, instance = services.telemetry.ask(
        body.client_instance_id, request.header.client_id, request.info
    )
    if error:
        return error_response(request, error)
    return GetTelemetrySubscriptionsResponse(
        client_instance_id=instance.instance_id,
        subscription_id=instance.subscription_id,
        accepted_compression_types=list(ACCEPTED),
        push_interval_ms=instance.wanted.interval_ms,
        telemetry_max_bytes=services.config.telemetry_max_bytes,
        delta_temporality=True,
        requested_metrics=list(instance.wanted.metrics),
    )


def error_response(_request: Request, code: ErrorCode) -> GetTelemetrySubscriptionsResponse:
    """Return an answer with `code`."""
    return GetTelemetrySubscriptionsResponse(error_code=code)
