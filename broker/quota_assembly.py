"""Make what limits connections and requests, from a configuration: a part of `broker.assembly`."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from broker.configs.live import BrokerSettings
from broker.metadata.controller import Controller
from broker.metadata.metadata_log import encode_batch
from broker.network.connection_limits import ConnectionLimits
from broker.network.connection_rates import ConnectionRates
from broker.network.host_names import address_of_name
from broker.quotas.recorded_quotas import RecordedQuotas, Recorder
from broker.quotas.windowed_rate import SECOND_MS, Windows
from broker.runtime.blocking_pool import BlockingPool
from broker.runtime.clock import Clock
from broker.runtime.metrics import Metrics
from broker.topics import Topics
from config.broker import BrokerConfig
from protocol.quota_records import ClientQuotaRecord

if TYPE_CHECKING:
    from broker.quotas.client_quotas import ClientQuotas


def limits_and_quotas(
    settings: BrokerSettings,
    controller: Controller,
    topics: Topics,
    pool: BlockingPool,
    clock: Clock,
    metrics: Metrics,
) -> dict[str, Any]:
    """Return the services `limits`, which follow the settings, and `quotas`, not loaded yet."""
    config = settings.loaded.config
    rates = ConnectionRates(_windows(config), clock, metrics)
    limits = ConnectionLimits(
        config.max_connections, config.max_connections_per_ip, config.connection_limits, rates
    )
    settings.listen(partial(_change_limits, limits, rates))

    def encode(records: Sequence[ClientQuotaRecord]) -> bytearray:
        return encode_batch(records, clock.now_ms())

    make_clients = partial(_client_quotas, config, clock, metrics)
    image = controller.image.quotas
    quotas = RecordedQuotas(
        image, Recorder(topics.record, encode), rates, pool, address_of_name, make_clients
    )
    return {"limits": limits, "quotas": quotas}


def _windows(config: BrokerConfig) -> Windows:
    return Windows(config.quota_window_num, config.quota_window_size_seconds * SECOND_MS)


def _change_limits(limits: ConnectionLimits, rates: ConnectionRates, config: BrokerConfig) -> None:
    limits.change(
        config.max_connections,
        config.max_connections_per_ip,
        config.connection_limits,
        config.of_listeners("max.connections"),
    )
    rates.change(
        config.max_connection_creation_rate, config.of_listeners("max.connection.creation.rate")
    )


def _client_quotas(config: BrokerConfig, clock: Clock, metrics: Metrics) -> ClientQuotas:
    """Import and make what counts requests, when the first quota is set."""
    from broker.quotas.client_quotas import ClientQuotas

    mutation_windows = Windows(
        config.controller_quota_window_num,
        config.controller_quota_window_size_seconds * SECOND_MS,
    )
    return ClientQuotas(_windows(config), mutation_windows, clock, metrics)
