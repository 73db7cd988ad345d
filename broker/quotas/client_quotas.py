"""The quotas of requests: what each has used, and how long its client is throttled for it.

    handled ── answer is ready ── use is counted ── answer leaves, with throttle_time_ms
                                       └─ over the limit: its connection is muted that long

A request is done before its client is throttled, and answered at once (KIP-219). Other connections
of the client go on, and pay with their own next request. Counted are

- the bytes of Produce requests; those with acks=0, too;
- the bytes of Fetch answers. Over the limit the answer is empty and its bytes do not count, so the
  client asks for them again; a visitor of the console, who does not, gets them, and they count. A
  fetch gets at most what passes at once when nothing else counts;
- the time that the loop spends in the handler and its steps, as a percentage of one thread,
  throttled for at most one window. Logins and transaction markers are exempt;
- changes to topics (`broker.quotas.mutations`).

With several quotas the longest throttle counts. While no quota of users or client ids is recorded,
the broker has no `ClientQuotas`, and its requests pay nothing.
"""

from __future__ import annotations

from collections.abc import Coroutine, Generator
from copy import copy
from types import coroutine
from typing import Any, Final

from broker.metadata.quota_image import quota_entity
from broker.quotas.mutations import MutationQuota
from broker.quotas.quota_table import (
    CLIENT_KEYS,
    CONSUMER_BYTE_RATE,
    CONTROLLER_MUTATION_RATE,
    PRODUCER_BYTE_RATE,
    REQUEST_PERCENTAGE,
    Quota,
    QuotaTable,
)
from broker.quotas.sensors import Sensors
from broker.quotas.windowed_rate import SECOND_MS, TokenBucket, WindowedRate, Windows
from broker.runtime.clock import MS_NS, SECOND_NS, Clock
from broker.runtime.fetch_body import withheld
from broker.runtime.metrics import Metrics
from broker.runtime.request import Request
from protocol.api_keys import ApiKey
from protocol.messages.fetch import FetchResponse
from protocol.quota_records import ClientQuotaRecord

EXEMPT: Final = frozenset(
    (ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE, ApiKey.WRITE_TXN_MARKERS)
)
FRAME_LENGTH_BYTES: Final = 4
# Of a fetch's answer, of a topic and of a partition in it, beside names and records.
ANSWER_BYTES: Final = 20
TOPIC_BYTES: Final = 18
PARTITION_BYTES: Final = 40
RATE_KEYS: Final = (PRODUCER_BYTE_RATE, CONSUMER_BYTE_RATE, REQUEST_PERCENTAGE)


class ClientQuotas:
    """Counts what requests use, and throttles their clients."""

    def __init__(
        self, windows: Windows, mutation_windows: Windows, clock: Clock, metrics: Metrics
    ) -> None:
        self._windows = windows
        self._clock = clock
        self._metrics = metrics
        self._tables = {key: QuotaTable() for key in CLIENT_KEYS}
        self._rates: dict[str, Sensors[WindowedRate]] = {
            key: Sensors(lambda: WindowedRate(windows), metrics) for key in RATE_KEYS
        }
        self._buckets = Sensors(lambda: TokenBucket(mutation_windows), metrics)
        self._began_ns = 0  # the request that is being handled

    # -- what is set ----------------------------------------------------------------------------

    @property
    def is_any(self) -> bool:
        """Whether any user or client id has a quota."""
        return any(self._tables.values())

    def apply(self, record: ClientQuotaRecord) -> None:
        """Use a recorded quota from now on. What clients have used counts against it."""
        table = self._tables.get(record.key)
        if table is None:
            return  # of a later Kafka
        entity = quota_entity((part.entity_type, part.entity_name) for part in record.entity)
        table.set(entity, None if record.remove else record.value)
        if not table:
            sensors = self._rates.get(record.key)
            (self._buckets if sensors is None else sensors).clear()

    def expire(self) -> None:
        """Forget clients that have used nothing for as long as it counts; about once a second."""
        now_ms = self._now_ms()
        for sensors in self._rates.values():
            sensors.expire(lambda rate, _: rate.is_idle(now_ms))
        self._buckets.expire(lambda bucket, limit: bucket.is_idle(limit, now_ms))

    # -- one request ----------------------------------------------------------------------------

    def begin(self) -> None:
        """Note that a handler is called now."""
        self._began_ns = self._clock.monotonic_ns()

    def handled(self, request: Request) -> None:
        """Note that the handler has returned."""
        request.spent_ns = self._clock.monotonic_ns() - self._began_ns

    @coroutine
    def timed(
        self, request: Request, running: Coroutine[Any, Any, Any]
    ) -> Generator[Any, Any, Any]:
        """Run a handler that waits, and count the time of its steps."""
        sent: Any = None
        error: BaseException | None = None
        while True:
            began_ns = self._clock.monotonic_ns()
            try:
                step = running.send(sent) if error is None else running.throw(error)
            except StopIteration as end:
                return end.value
            finally:
                request.spent_ns += self._clock.monotonic_ns() - began_ns
            sent = error = None
            try:
                sent = yield step
            except GeneratorExit:  # nobody goes on with it; the handler may have been closed before
                running.close()
                raise
            except BaseException as thrown:  # a cancellation, for the handler
                error = thrown

    def fetch_bytes_max(self, request: Request, bytes_max: int) -> int:
        """Return how many bytes a fetch may answer with, without being throttled for that alone."""
        quota = self._quota(CONSUMER_BYTE_RATE, request)
        if quota is None:
            return bytes_max
        count, window_ms = self._windows
        allowed = quota.limit * (count - 1) * window_ms / SECOND_MS
        return int(min(bytes_max, allowed))

    def mutations(self, request: Request, strict_version: int) -> MutationQuota | None:
        """Return the quota of a request that changes topics, from that version on a strict one."""
        quota = self._quota(CONTROLLER_MUTATION_RATE, request)
        if quota is None:
            return None
        is_strict = request.header.api_version >= strict_version
        bucket = self._buckets.of(quota.sharers, quota.limit)
        return MutationQuota(bucket, quota.limit, self._clock, is_strict=is_strict)

    def answer(self, request: Request, response: Any) -> Any:
        """Count what a request has used; return its answer, and mute its connection if need be.

        `response` is None if nothing is sent.
        """
        api_key = request.header.api_key
        if api_key in EXEMPT:
            return response
        throttle_ms = 0
        if self._tables[REQUEST_PERCENTAGE] and response is not None:
            throttle_ms = self._time_throttle_ms(request)
        if api_key == ApiKey.PRODUCE:
            size = request.frame_bytes - FRAME_LENGTH_BYTES
            over_ms = self._throttle_ms(PRODUCER_BYTE_RATE, request, size)
            throttle_ms = max(throttle_ms, over_ms)
        elif api_key == ApiKey.FETCH and response is not None:
            throttle_ms = max(throttle_ms, self._fetch_throttle_ms(request, response, throttle_ms))
            if throttle_ms and request.connection.reading.can_wait:
                response = withheld(request.body, response)
        elif response is not None:
            throttle_ms = max(throttle_ms, getattr(response, "throttle_time_ms", 0))
        if not throttle_ms:
            return response
        self._metrics.requests_throttled += 1
        request.connection.reading.mute(throttle_ms)
        if hasattr(response, "throttle_time_ms"):
            response = copy(response)  # it may be one that is sent to others, too
            response.throttle_time_ms = throttle_ms
        return response

    def _time_throttle_ms(self, request: Request) -> int:
        spent_ns = getattr(request, "spent_ns", 0)  # none if it came before the quotas
        over_ms = self._throttle_ms(REQUEST_PERCENTAGE, request, spent_ns * 100 / SECOND_NS)
        return min(over_ms, self._windows.window_ms)

    def _fetch_throttle_ms(self, request: Request, response: Any, throttle_ms: int) -> int:
        quota = self._quota(CONSUMER_BYTE_RATE, request)
        if quota is None:
            return 0
        size, now_ms = _fetched_bytes(response), self._now_ms()
        sensor = self._rates[CONSUMER_BYTE_RATE].of(quota.sharers, quota.limit)
        sensor.record(size, now_ms)
        over_ms = sensor.throttle_ms(quota.limit, now_ms)
        if (over_ms or throttle_ms) and request.connection.reading.can_wait:
            sensor.record(-size, now_ms)  # they are not sent
        return over_ms

    def _throttle_ms(self, key: str, request: Request, value: float) -> int:
        quota = self._quota(key, request)
        if quota is None:
            return 0
        now_ms = self._now_ms()
        sensor = self._rates[key].of(quota.sharers, quota.limit)
        sensor.record(value, now_ms)
        return sensor.throttle_ms(quota.limit, now_ms)

    def _quota(self, key: str, request: Request) -> Quota | None:
        table = self._tables[key]
        if not table:
            return None
        user = request.info.principal.partition(":")[2]
        return table.of(user, request.header.client_id or "")

    def _now_ms(self) -> int:
        return self._clock.monotonic_ns() // MS_NS


def _fetched_bytes(response: FetchResponse) -> int:
    """Return the size of a fetch's answer, within a few bytes, in either dialect."""
    size = ANSWER_BYTES
    for topic in response.responses:
        size += TOPIC_BYTES + len(topic.topic)
        for partition in topic.partitions:
            size += PARTITION_BYTES + len(partition.records or b"")
    return size
