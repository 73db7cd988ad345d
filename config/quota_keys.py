"""The broker's keys for quotas and for the rate of new connections.

Names, kinds and defaults are Kafka's (QuotaConfig, SocketServerConfigs). The quotas themselves are
no keys: they are recorded with the metadata, by user, client id and address.
"""

from __future__ import annotations

from dataclasses import dataclass

from config.checks import at_least
from config.keys import INT_MAX, Importance, Update, key
from config.telemetry_keys import TelemetryKeys
from config.values import Kind


@dataclass(frozen=True, slots=True, kw_only=True, init=False, repr=False, eq=False)
class QuotaKeys(TelemetryKeys):
    """One field a key; the attribute of a key is its name with underscores.

    A part of BrokerConfig, the only one of which there are objects.
    """

    max_connection_creation_rate: int = key(
        "max.connection.creation.rate",
        INT_MAX,
        Kind.INT,
        check=at_least(0),
        update=Update.CLUSTER_WIDE,
        doc="How many connections a second the broker accepts; further ones wait. A listener may"
        " have a rate of its own beside that.",
    )
    quota_window_num: int = key(
        "quota.window.num",
        11,
        Kind.INT,
        importance=Importance.LOW,
        check=at_least(1),
        doc="Over how many windows the use of quotas is measured.",
    )
    quota_window_size_seconds: int = key(
        "quota.window.size.seconds",
        1,
        Kind.INT,
        importance=Importance.LOW,
        check=at_least(1),
        doc="How long each window of a quota is.",
    )
    controller_quota_window_num: int = key(
        "controller.quota.window.num",
        11,
        Kind.INT,
        importance=Importance.LOW,
        check=at_least(1),
        doc="Over how many windows changes to topics may be saved up for a burst.",
    )
    controller_quota_window_size_seconds: int = key(
        "controller.quota.window.size.seconds",
        1,
        Kind.INT,
        importance=Importance.LOW,
        check=at_least(1),
        doc="How long each window of the quota of changes to topics is.",
    )
