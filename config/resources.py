"""The configs of groups and of client metrics subscriptions: Kafka 4.3's two small tables.

Names, defaults and bounds are those of Kafka's GroupConfig and ClientMetricsConfigs. The broker's
keys `group.<name>` are the defaults of a group; its bounds (`group.consumer.min.…`,
`group.consumer.max.…`) are fixed here. broker/groups/consumer uses the values for consumer groups;
the broker keeps and shows the others without using them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, NamedTuple

from config.values import Kind, parse

NO_GROUPS: Final = "Kept and shown; this version coordinates no groups of this kind."


class ResourceKey(NamedTuple):
    """One key; bounds are included, and None where there is none."""

    name: str
    kind: Kind
    default: str
    lowest: int | None = None
    highest: int | None = None
    broker_name: str | None = None  # the broker's key that gives the default
    doc: str = ""
    shows_default: bool = False  # whether Kafka names the key as a synonym of its own


def _group(
    name: str, default: int, lowest: int | None, highest: int | None, doc: str = NO_GROUPS
) -> ResourceKey:
    return ResourceKey(name, Kind.INT, str(default), lowest, highest, f"group.{name}", doc)


GROUP_KEYS: Final[dict[str, ResourceKey]] = {
    key.name: key
    for key in (
        _group(
            "consumer.assignment.interval.ms",
            1_000,
            0,
            15_000,
            "Kept and shown; a group gets a new target as soon as it needs one.",
        ),
        _group(
            "consumer.heartbeat.interval.ms",
            5_000,
            5_000,
            15_000,
            "How often members of this consumer group are told to send heartbeats.",
        ),
        _group(
            "consumer.session.timeout.ms",
            45_000,
            45_000,
            60_000,
            "A member of this consumer group that is not heard of for so long is out.",
        ),
        _group("share.assignment.interval.ms", 1_000, 0, 15_000),
        ResourceKey(
            "share.auto.offset.reset", Kind.STRING, "latest", doc=NO_GROUPS, shows_default=True
        ),
        _group("share.delivery.count.limit", 5, 2, 10),
        _group("share.heartbeat.interval.ms", 5_000, 5_000, 15_000),
        ResourceKey(
            "share.isolation.level",
            Kind.STRING,
            "read_uncommitted",
            doc=NO_GROUPS,
            shows_default=True,
        ),
        _group("share.partition.max.record.locks", 2_000, 100, 4_000),
        _group("share.record.lock.duration.ms", 30_000, 15_000, 60_000),
        ResourceKey(
            "share.renew.acknowledge.enable",
            Kind.BOOLEAN,
            "true",
            doc=NO_GROUPS,
            shows_default=True,
        ),
        _group("share.session.timeout.ms", 45_000, 45_000, 60_000),
        _group("streams.assignment.interval.ms", 1_000, 0, 15_000),
        _group("streams.heartbeat.interval.ms", 5_000, 5_000, 15_000),
        _group("streams.initial.rebalance.delay.ms", 3_000, 0, None),
        _group("streams.num.standby.replicas", 0, 0, 2),
        _group("streams.session.timeout.ms", 45_000, 45_000, 60_000),
    )
}

CLIENT_METRICS_KEYS: Final[dict[str, ResourceKey]] = {
    key.name: key
    for key in (
        ResourceKey(
            "interval.ms",
            Kind.INT,
            "300000",
            100,
            3_600_000,
            doc="How often clients that match push their metrics; the shortest interval holds.",
        ),
        ResourceKey(
            "match",
            Kind.LIST,
            "",
            doc="Which clients push: SELECTOR=EXPRESSION, all of which must match; empty: every"
            " client.",
        ),
        ResourceKey(
            "metrics", Kind.LIST, "", doc="Prefixes of the names of metrics; `*` means all."
        ),
    )
}

CLIENT_SELECTORS: Final = (
    "client_instance_id",
    "client_id",
    "client_software_name",
    "client_software_version",
    "client_source_address",
    "client_source_port",
)
DURATION: Final = re.compile(
    r"P(?!\Z)(\d+D)?(T(?=\d)(\d+H)?(\d+M)?(\d+(\.\d+)?S)?)?\Z", re.IGNORECASE
)


class ResourceConfigError(ValueError):
    """A value of a group or of a subscription that is refused; says found, expected and where.

    `is_bound` tells a value outside of its bounds from one that is none at all.
    """

    def __init__(self, message: str, *, is_bound: bool = False) -> None:
        super().__init__(message)
        self.is_bound = is_bound


def check_group(values: Mapping[str, str]) -> None:
    """Raise ResourceConfigError for the first key or value that a group may not have."""
    for name, text in values.items():
        key = GROUP_KEYS.get(name)
        if key is None:
            raise ResourceConfigError(f"Unknown group config name: {name}")
        _check_kind(key, text)
        _check_choice(name, text.strip())
        if key.kind is Kind.INT:
            _check_group_bounds(key, int(text))


def check_client_metrics(values: Mapping[str, str]) -> None:
    """Raise ResourceConfigError for the first key or value that a subscription may not have."""
    for name, text in values.items():
        key = CLIENT_METRICS_KEYS.get(name)
        if key is None:
            raise ResourceConfigError(
                f"Unknown client metrics configuration: {name}", is_bound=True
            )
        _check_kind(key, text)
        if name == "interval.ms" and not 100 <= int(text) <= 3_600_000:
            raise ResourceConfigError(
                f"Invalid value {text} for {name}, interval must be between 100 and 3600000"
                " (1 hour)",
                is_bound=True,
            )
        if name == "match":
            _check_match(text)


def _check_kind(key: ResourceKey, text: str) -> None:
    try:
        parse(key.kind, text)
    except ValueError as error:
        raise ResourceConfigError(
            f"Invalid value {text} for configuration {key.name}: {error}"
        ) from None


def _check_group_bounds(key: ResourceKey, value: int) -> None:
    kind, _, rest = key.name.partition(".")
    if key.lowest is not None and value < key.lowest:
        bound = f"group.{kind}.min.{rest}" if key.lowest else "0"
        raise ResourceConfigError(f"{key.name} must be greater than or equal to {bound}")
    if key.highest is not None and value > key.highest:
        bound = f"group.{kind}.max.{rest.removeprefix('num.')}"
        raise ResourceConfigError(f"{key.name} must be less than or equal to {bound}")


def _check_choice(name: str, text: str) -> None:
    if name == "share.isolation.level":
        allowed = text in ("read_committed", "read_uncommitted")
        wanted = "read_committed or read_uncommitted"
    elif name == "share.auto.offset.reset":
        by_duration = text.startswith("by_duration:")
        duration = DURATION.match(text.removeprefix("by_duration:"))
        allowed = text in ("earliest", "latest") or (by_duration and duration is not None)
        wanted = "earliest, latest or by_duration:PnDTnHnMn.nS"
    else:
        return
    if not allowed:
        raise ResourceConfigError(
            f"Invalid value {text} for configuration {name}: it must be {wanted}"
        )


def _check_match(text: str) -> None:
    for pattern in filter(None, (part.strip() for part in text.split(","))):
        selector, expression = split_match(pattern)
        try:
            re.compile(expression)
        except re.error:
            expression = ""
        if selector not in CLIENT_SELECTORS or not expression:
            raise illegal_match(pattern)


def split_match(pattern: str) -> tuple[str, str]:
    """Return the selector and the expression of one of `match`; "" where Kafka finds none.

    As with Java's split, `=` at the end is none, and any other second one is illegal.
    """
    parts = pattern.rstrip("=").split("=")
    selector, expression = parts if len(parts) == 2 else ("", "")
    return selector.strip(), expression.strip()


def illegal_match(pattern: str) -> ResourceConfigError:
    """Return the error of a pattern."""
    return ResourceConfigError(f"Illegal client matching pattern: {pattern}")
