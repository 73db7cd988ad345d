"""What the broker does with the metrics of clients: it asks for them, takes them, keeps them.

The order of the checks and their errors are those of Apache Kafka 4.3 with a plugin that receives
metrics, tried error by error (tests/interop/test_client_telemetry.py):

| error | when |
|---|---|
| INVALID_REQUEST | a push with a reserved instance id, or after a push that said it was the last |
| THROTTLING_QUOTA_EXCEEDED | before the interval is over |
| UNKNOWN_SUBSCRIPTION_ID | the subscriptions have changed |
| UNSUPPORTED_COMPRESSION_TYPE | no codec of Kafka's |
| TELEMETRY_TOO_LARGE | more than telemetry.max.bytes; here also after decompression |
| INVALID_RECORD | the metrics cannot be read; the client then stops for good |
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from broker.runtime.clock import SECOND_NS, Clock
from broker.runtime.metrics import Metrics
from broker.runtime.request import ConnectionInfo
from broker.telemetry.client_instances import ClientInstance, ClientInstances
from broker.telemetry.metric_subscriptions import Subscription, read_subscription, wanted_from
from broker.telemetry.pushed_figures import PushedFigures
from protocol.compression import GZIP, LZ4, NONE, SNAPPY, ZSTD
from protocol.errors import ErrorCode
from protocol.messages.push_telemetry import PushTelemetryRequest
from protocol.wire import ZERO_UUID
from storage.files.text_files import uuid_text

ACCEPTED: Final = (ZSTD, LZ4, GZIP, SNAPPY)  # the best first
ONE_UUID: Final = (1).to_bytes(16, "big")
RESERVED: Final = frozenset((ZERO_UUID, ONE_UUID))

# Of a client id, which 16,384 instances keep: with its 32 KiB they would have 512 MiB.
CLIENT_ID_MAX: Final = 256
EXPIRY_NS: Final = 10 * SECOND_NS

Stored = Callable[[], Sequence[Mapping[str, str]]]


class ClientTelemetry:
    """Asks and checks clients; `figures` has what they pushed."""

    def __init__(
        self,
        stored: Stored,
        default: tuple[str, ...],
        clock: Clock,
        random_bytes: Callable[[int], bytes],
        metrics: Metrics,
    ) -> None:
        """`stored` returns the configs of each subscription; `default` is the one without."""
        self._stored = stored
        self._default = default
        self._clock = clock
        self._random_bytes = random_bytes
        self.figures = PushedFigures(clock, metrics)
        self._metrics = metrics
        self._instances = ClientInstances(clock, metrics)
        self._subscriptions: list[Subscription] | None = None  # None: to be read
        self._version = 0
        self._expired_ns = clock.monotonic_ns()

    def changed(self) -> None:
        """Have the subscriptions read again: they were changed."""
        self._subscriptions = None
        self._version += 1

    def expire(self) -> None:
        """Forget clients that were not heard of for long; looks only every so often.

        Called with each request and by those who read figures: nobody else sees them.
        """
        now_ns = self._clock.monotonic_ns()
        if now_ns - self._expired_ns < EXPIRY_NS:
            return
        self._expired_ns = now_ns
        self._instances.expire()
        self.figures.expire()

    def ask(
        self, instance_id: bytes, client_id: str | None, info: ConnectionInfo
    ) -> tuple[ErrorCode, ClientInstance]:
        """Return the instance that asks for its subscriptions, and the error of asking."""
        if instance_id == ZERO_UUID:
            instance_id = self._new_id()
        instance = self._heard(instance_id, client_id, info)
        if not instance.may_ask(self._clock.monotonic_ns()):
            self._metrics.client_pushes_throttled += 1
            return ErrorCode.THROTTLING_QUOTA_EXCEEDED, instance
        instance.last_error = ErrorCode.NONE
        return ErrorCode.NONE, instance

    def check_push(
        self,
        push: PushTelemetryRequest,
        client_id: str | None,
        info: ConnectionInfo,
        bytes_max: int,
    ) -> tuple[ErrorCode, ClientInstance | None]:
        """Return the error of a push before its metrics are read, and its instance."""
        if push.client_instance_id in RESERVED:
            return ErrorCode.INVALID_REQUEST, None
        instance = self._heard(push.client_instance_id, client_id, info)
        error = self._refusal(push, instance, bytes_max)
        instance.last_error = error
        instance.is_terminating = push.terminating
        return error, instance

    def _refusal(
        self, push: PushTelemetryRequest, instance: ClientInstance, bytes_max: int
    ) -> ErrorCode:
        if instance.is_terminating:
            return ErrorCode.INVALID_REQUEST
        if not instance.may_push(self._clock.monotonic_ns()) and not push.terminating:
            self._metrics.client_pushes_throttled += 1
            return ErrorCode.THROTTLING_QUOTA_EXCEEDED
        if push.subscription_id != instance.subscription_id:
            return ErrorCode.UNKNOWN_SUBSCRIPTION_ID
        if not NONE <= push.compression_type <= ZSTD:
            return ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
        if len(push.metrics) > bytes_max:
            return ErrorCode.TELEMETRY_TOO_LARGE
        return ErrorCode.NONE

    def _heard(
        self, instance_id: bytes, client_id: str | None, info: ConnectionInfo
    ) -> ClientInstance:
        self.expire()
        instance = self._instances.get(instance_id)
        if instance is None:
            attributes = {
                "client_instance_id": uuid_text(instance_id),
                "client_id": client_id and client_id[:CLIENT_ID_MAX],
                "client_software_name": info.software_name,
                "client_software_version": info.software_version,
                "client_source_address": info.peer_host,
                "client_source_port": str(info.peer_port),
            }
            instance = self._made(instance_id, info, attributes)
        elif instance.version < self._version:
            instance = self._made(instance_id, info, instance.attributes)
        self._instances.heard(instance)
        return instance

    def _made(
        self, instance_id: bytes, info: ConnectionInfo, attributes: Mapping[str, str | None]
    ) -> ClientInstance:
        if self._subscriptions is None:
            self._subscriptions = [read_subscription(one) for one in self._stored()]
        wanted = wanted_from(self._subscriptions, self._default, attributes)
        return ClientInstance(instance_id, info, attributes, wanted, self._version)

    def _new_id(self) -> bytes:
        while True:
            raw = bytearray(self._random_bytes(16))
            raw[6] = raw[6] & 0x0F | 0x40  # version 4, as Java makes them
            raw[8] = raw[8] & 0x3F | 0x80
            found = bytes(raw)
            if uuid_text(found)[0] != "-" and self._instances.get(found) is None:
                return found
