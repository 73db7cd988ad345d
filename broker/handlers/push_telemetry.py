"""PushTelemetry, API key 72, version 0: takes the metrics that a client pushes.

Behaviour
- The checks are in `broker.telemetry.client_telemetry`, with their errors. The figures are taken
  when all of a push is read; of one that cannot be read, none.
- The last push of a client that ends may follow a fetch that waits, and its answer with it, for
  librdkafka sends both on one connection. So such a fetch is answered at once.
- Metrics are decompressed to at most `telemetry.max.bytes` and read in steps. Where that key allows
  more than `INLINE_MAX`, a thread decompresses.
"""

from __future__ import annotations

from collections.abc import Coroutine
from functools import partial
from typing import Any

from broker.runtime.request import Request
from broker.runtime.steps import Steps
from broker.services import Services
from broker.telemetry.client_instances import ClientInstance
from broker.telemetry.otlp import MalformedMetricsError, OtlpReader
from protocol.compression import NONE, decompress
from protocol.errors import ErrorCode
from protocol.messages.push_telemetry import PushTelemetryRequest, PushTelemetryResponse
from protocol.record_errors import CorruptBatch, DecompressedTooLarge

INLINE_MAX = 1024 * 1024  # bytes that are decompressed on the loop: some 2 ms


def handle(request: Request, services: Services) -> Any:
    """Check the push, then read its metrics."""
    body: PushTelemetryRequest = request.body
    bytes_max = services.config.telemetry_max_bytes
    error, instance = services.telemetry.check_push(
        body, request.header.client_id, request.info, bytes_max
    )
    if body.terminating and not error:
        services.purgatory.release_of(request.connection)
    if error or instance is None or not body.metrics:
        return error_response(request, error)
    if body.compression_type == NONE or bytes_max <= INLINE_MAX:
        return _inflated_here(body, instance, services)
    return _inflated_in_thread(body, instance, services)


def _inflated_here(
    body: PushTelemetryRequest, instance: ClientInstance, services: Services
) -> PushTelemetryResponse | Steps:
    try:
        data = _inflate(body, services.config.telemetry_max_bytes)
    except (CorruptBatch, DecompressedTooLarge) as error:
        return _refused(instance, error, services)
    return _read(data, instance, services)


def _inflated_in_thread(
    body: PushTelemetryRequest, instance: ClientInstance, services: Services
) -> Coroutine[Any, Any, PushTelemetryResponse | Steps]:
    async def inflated() -> PushTelemetryResponse | Steps:
        inflate = partial(_inflate, body, services.config.telemetry_max_bytes)
        try:
            data = await services.pool.run(inflate)
        except (CorruptBatch, DecompressedTooLarge) as error:
            return _refused(instance, error, services)
        return _read(data, instance, services)

    return inflated()


def _inflate(body: PushTelemetryRequest, bytes_max: int) -> bytes:
    return decompress(body.compression_type, body.metrics, bytes_max)


def _read(data: bytes, instance: ClientInstance, services: Services) -> Steps:
    """Read the metrics in steps, and take them at the end."""
    metrics = services.metrics
    reader = OtlpReader(data)
    try:
        yield from reader.read()
    except MalformedMetricsError as error:
        return _refused(instance, error, services)
    metrics.client_pushes += 1
    metrics.client_pushes_cut += reader.is_cut
    services.telemetry.figures.take(instance, reader.points, reader.resource)
    return PushTelemetryResponse()


def _refused(
    instance: ClientInstance, error: Exception, services: Services
) -> PushTelemetryResponse:
    services.metrics.client_pushes_refused += 1
    is_large = isinstance(error, DecompressedTooLarge)
    code = ErrorCode.TELEMETRY_TOO_LARGE if is_large else ErrorCode.INVALID_RECORD
    instance.last_error = code
    return PushTelemetryResponse(error_code=code)


def error_response(_request: Request, code: ErrorCode) -> PushTelemetryResponse:
    """Return an answer with `code`."""
    return PushTelemetryResponse(error_code=code)
