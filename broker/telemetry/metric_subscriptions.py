"""Subscriptions of client metrics: which clients push which metrics, and how often.

A subscription is a resource of configs (type 16): prefixes of metrics, an interval, and expressions
that a client's attributes must match as wholes. A client pushes the union of all that match it, at
the shortest of their intervals. If none matches, the default subscription of the configuration
holds; without that, the client is asked for nothing, as in Kafka.

RE2 matches the expressions, as those of consumers (decision 0072): a client chooses its id, so the
time must not depend on what it chooses.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from broker.runtime.expressions import whole_matcher
from config.resources import CLIENT_METRICS_KEYS, illegal_match, split_match
from protocol.checksum import crc32c

DEFAULT_INTERVAL_MS: Final = int(CLIENT_METRICS_KEYS["interval.ms"].default)
OWN_INTERVAL_MS: Final = 60_000  # of barnabas.client.metrics.default
ALL: Final = "*"

Attributes = Mapping[str, str | None]


@dataclass(frozen=True, slots=True)
class Subscription:
    """One subscription; `tests` are predicates of attributes, by the attribute's name."""

    metrics: tuple[str, ...]
    interval_ms: int
    tests: Mapping[str, Callable[[str], bool]]

    def matches(self, attributes: Attributes) -> bool:
        """Whether a client with these attributes is meant."""
        for name, test in self.tests.items():
            value = attributes.get(name)
            if value is None or not test(value):
                return False
        return True


@dataclass(frozen=True, slots=True)
class Wanted:
    """What one client is asked for."""

    metrics: tuple[str, ...]
    interval_ms: int

    def id_for(self, instance_id: bytes) -> int:
        """Return the subscription id: an int32 that differs if anything of this differs."""
        digest = crc32c(f"{','.join(self.metrics)}{self.interval_ms}".encode())
        for at in range(0, len(instance_id), 4):
            digest ^= int.from_bytes(instance_id[at : at + 4], "big")
        return digest - (1 << 32) if digest >> 31 else digest


def read_subscription(configs: Mapping[str, str]) -> Subscription:
    """Return the subscription that a resource's configs describe; they were checked before."""
    tests = {}
    for pattern in _parts(configs.get("match", "")):
        selector, expression = split_match(pattern)
        tests[selector] = _predicate(expression)
    metrics = tuple(_parts(configs.get("metrics", "")))
    return Subscription(metrics, int(configs.get("interval.ms", DEFAULT_INTERVAL_MS)), tests)


def _parts(text: str) -> list[str]:
    return [part for part in map(str.strip, text.split(",")) if part]


def check_expressions(match: str) -> None:
    """Raise ResourceConfigError for an expression that RE2 does not know."""
    for pattern in _parts(match):
        try:
            whole_matcher(split_match(pattern)[1])
        except ValueError as error:
            raise illegal_match(pattern) from error


def _predicate(expression: str) -> Callable[[str], bool]:
    try:
        return whole_matcher(expression)
    except ValueError:  # recorded by Kafka, whose expressions may look ahead
        return lambda _: False


def wanted_from(
    subscriptions: Iterable[Subscription], default: tuple[str, ...], attributes: Attributes
) -> Wanted:
    """Return what a client is asked for; an interval above the default one is cut to it."""
    names: set[str] = set()
    interval_ms = DEFAULT_INTERVAL_MS
    has_matched = False
    for one in subscriptions:
        if one.matches(attributes):
            has_matched = True
            names.update(one.metrics)
            interval_ms = min(interval_ms, one.interval_ms)
    if not has_matched and default:
        names.update(default)
        interval_ms = OWN_INTERVAL_MS
    return Wanted((ALL,) if ALL in names else tuple(sorted(names)), interval_ms)
