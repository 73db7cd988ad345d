"""Client instances: what the broker remembers of each client that asks or pushes, and its errors.

An instance begins with its first request and ends

- when the connection ends on which it began (it is then new to its next request),
- when it was not heard of for a minute, or three of its intervals if that is longer,
- as the one unheard of for longest, when there are more than `INSTANCES_MAX`.

When subscriptions change, each instance begins anew with its next request. All of this, and the
order of the checks, is Kafka's (ClientMetricsManager).
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

from broker.runtime.clock import MS_NS, Clock
from broker.runtime.metrics import Metrics
from broker.runtime.request import ConnectionInfo
from broker.telemetry.metric_subscriptions import Attributes, Wanted
from protocol.errors import ErrorCode

INSTANCES_MAX: Final = 16_384
KEPT_MS_MIN: Final = 60_000
KEPT_INTERVALS: Final = 3
MAY_ASK_AGAIN: Final = frozenset(
    (ErrorCode.UNKNOWN_SUBSCRIPTION_ID, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)
)


class ClientInstance:
    """One client instance; times are of the monotonic clock, None before the first."""

    __slots__ = (
        "asked_ns", "attributes", "heard_ns", "info", "instance_id", "is_terminating",
        "last_error", "pushed_ns", "subscription_id", "version", "wanted",
    )  # fmt: skip

    def __init__(
        self,
        instance_id: bytes,
        info: ConnectionInfo,
        attributes: Attributes,
        wanted: Wanted,
        version: int,
    ) -> None:
        """`version` counts the changes of subscriptions before `wanted` was found."""
        self.instance_id = instance_id
        self.info = info
        self.attributes = attributes
        self.wanted = wanted
        self.version = version
        self.subscription_id = wanted.id_for(instance_id)
        self.is_terminating = False
        self.last_error = ErrorCode.NONE
        self.asked_ns: int | None = None
        self.pushed_ns: int | None = None
        self.heard_ns = 0

    @property
    def kept_ns(self) -> int:
        """How long it is remembered without a request."""
        return MS_NS * max(KEPT_MS_MIN, KEPT_INTERVALS * self.wanted.interval_ms)

    def may_ask(self, now_ns: int) -> bool:
        """Whether a request for subscriptions comes in time; takes its time if so."""
        before = max(self.asked_ns or 0, self.pushed_ns or 0)
        is_first = self.asked_ns is None and self.pushed_ns is None
        if is_first or now_ns - before >= self.wanted.interval_ms * MS_NS:
            self.asked_ns = now_ns
            return True
        return self.last_error in MAY_ASK_AGAIN

    def may_push(self, now_ns: int) -> bool:
        """Whether a push comes in time; takes its time if so.

        After a request for subscriptions it always does: clients spread their first pushes.
        """
        asked_ns, pushed_ns = self.asked_ns, self.pushed_ns
        if (
            pushed_ns is None
            or (asked_ns is not None and asked_ns > pushed_ns)
            or now_ns - pushed_ns >= self.wanted.interval_ms * MS_NS
        ):
            self.pushed_ns = now_ns
            return True
        return False


class ClientInstances:
    """All client instances, those heard of last at the end."""

    __slots__ = ("_by_id", "_clock", "_metrics")

    def __init__(self, clock: Clock, metrics: Metrics) -> None:
        self._by_id: OrderedDict[bytes, ClientInstance] = OrderedDict()
        self._clock = clock
        self._metrics = metrics

    def get(self, instance_id: bytes) -> ClientInstance | None:
        """Return a living instance."""
        found = self._by_id.get(instance_id)
        if found is not None and found.info.has_ended:
            del self._by_id[instance_id]
            self._count()
            return None
        return found

    def heard(self, instance: ClientInstance) -> None:
        """Note a request of an instance, which may be new, or begin anew."""
        by_id = self._by_id
        instance.heard_ns = self._clock.monotonic_ns()
        by_id[instance.instance_id] = instance
        by_id.move_to_end(instance.instance_id)
        if len(by_id) > INSTANCES_MAX:
            by_id.popitem(last=False)
            self._metrics.client_instances_displaced += 1
        self._count()

    def expire(self) -> None:
        """Forget instances that were not heard of for long, or whose connection has ended."""
        now_ns = self._clock.monotonic_ns()
        for instance in tuple(self._by_id.values()):
            if instance.info.has_ended or now_ns - instance.heard_ns >= instance.kept_ns:
                del self._by_id[instance.instance_id]
        self._count()

    def _count(self) -> None:
        self._metrics.client_instances_now = len(self._by_id)
