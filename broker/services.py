"""The parts of one running broker that handlers use. Sockets and bytes are not among them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from broker.configs.live import Configs
from broker.large_produces import LargeProduces
from broker.metadata.controller import Controller
from broker.metadata.producer_ids import ProducerIds
from broker.network.advertised import Advertised
from broker.network.byte_budget import ByteBudget
from broker.network.connection_limits import ConnectionLimits
from broker.partitions.append_queue import AppendQueue
from broker.partitions.checkpoint_writer import CheckpointWriter
from broker.partitions.group_commit import GroupCommit
from broker.partitions.log_starts import LogStarts
from broker.partitions.partition import Partitions
from broker.partitions.purgatory import Purgatory
from broker.quotas.recorded_quotas import RecordedQuotas
from broker.runtime.blocking_pool import BlockingPool, Executors
from broker.runtime.clock import MS_NS, Clock
from broker.runtime.metrics import Metrics
from broker.runtime.record_work import RecordWork
from broker.security.users.users import Users
from broker.telemetry.client_telemetry import ClientTelemetry
from broker.topics import Topics
from config.broker import BrokerConfig
from protocol.messages.api_versions import ApiVersion
from storage.log_manager import LogManager

if TYPE_CHECKING:
    from broker.acls import Acls
    from broker.fetch_sessions.session_handling import FetchSessions
    from broker.groups.coordinator import Coordinator
    from broker.security.acl.authorizer import Authorizer
    from broker.security.sasl.sasl_listeners import SaslListeners
    from broker.security.tls.tls_listeners import TlsListeners
    from broker.transactions.transaction_coordinator import TransactionCoordinator


@dataclass(kw_only=True)
class Services:
    """One broker's parts, made once at startup; `config` is the current configuration."""

    config: BrokerConfig
    clock: Clock
    random_bytes: Callable[[int], bytes]
    executor: Executors  # for parts that have threads of their own
    metrics: Metrics
    pool: BlockingPool
    record_work: RecordWork  # in threads of `pool`
    flush_pool: BlockingPool  # group commit's alone
    logs: LogManager
    checkpoints: CheckpointWriter
    starts: LogStarts
    partitions: Partitions
    commit: GroupCommit
    appends: AppendQueue
    purgatory: Purgatory
    answers: ByteBudget
    controller: Controller
    topics: Topics
    make_groups: Callable[[Services], Coordinator]
    make_transactions: Callable[[Services], TransactionCoordinator]
    configs: Configs
    quotas: RecordedQuotas
    limits: ConnectionLimits
    producer_ids: ProducerIds
    advertised: Advertised
    tls: TlsListeners | None  # None: no listener has TLS
    api_versions: list[ApiVersion]  # what ApiVersions answers: the handler table
    served_keys: frozenset[int]
    cluster_id: str
    node_id: int
    large_produces: LargeProduces = field(default_factory=LargeProduces, init=False)
    sasl: SaslListeners | None = field(default=None, init=False)  # None: no listener has SASL
    authorizer: Authorizer | None = field(default=None, init=False)  # None: all is allowed
    acls: Acls | None = field(default=None, init=False)  # with an authorizer
    _groups: Coordinator | None = field(default=None, init=False)
    _transactions: TransactionCoordinator | None = field(default=None, init=False)

    @cached_property
    def users(self) -> Users:
        """The users that logins are checked against."""
        image = self.controller.image.scram
        return Users(image, self.topics.record, self.pool, self.clock)

    @cached_property
    def fetch_sessions(self) -> FetchSessions:
        """The sessions of fetches, made for the first fetch."""
        from broker.fetch_sessions.session_cache import SessionCache
        from broker.fetch_sessions.session_handling import FetchSessions

        def name_of(topic_id: bytes) -> str:
            topic = self.topics.by_id(topic_id)
            return "" if topic is None else topic.name

        slots = self.config.max_incremental_fetch_session_cache_slots
        cache = SessionCache(slots, self.now_ms, self.random_bytes, self.metrics)
        return FetchSessions(
            cache,
            self.partitions,
            name_of,
            self.logs.home,
            self.now_ms,
            self.authorizer,
            self.metrics,
        )

    def now_ms(self) -> int:
        """Return the monotonic time."""
        return self.clock.monotonic_ns() // MS_NS

    @cached_property
    def telemetry(self) -> ClientTelemetry:
        """What asks clients for metrics and keeps them, by the recorded subscriptions."""
        default = self.config.barnabas_client_metrics_default
        made = ClientTelemetry(
            self.configs.subscriptions, default, self.clock, self.random_bytes, self.metrics
        )
        self.configs.client_metrics_changed = made.changed
        return made

    @property
    def groups(self) -> Coordinator:
        """The coordinator of groups, made when it is first used."""
        return self._groups or self.begin_groups()

    @property
    def has_groups(self) -> bool:
        """Whether `groups` was made."""
        return self._groups is not None

    def begin_groups(self) -> Coordinator:
        """Make `groups`; the coordinator then loads the stored groups."""
        assert self._groups is None, "made once"
        self._groups = self.make_groups(self)
        return self._groups

    @property
    def transactions(self) -> TransactionCoordinator:
        """The coordinator of transactions, made when it is first used."""
        return self._transactions or self.begin_transactions()

    @property
    def has_transactions(self) -> bool:
        """Whether `transactions` was made."""
        return self._transactions is not None

    def begin_transactions(self) -> TransactionCoordinator:
        """Make `transactions`; the coordinator then loads the stored transactions."""
        assert self._transactions is None, "made once"
        self._transactions = self.make_transactions(self)
        return self._transactions

    def reconfigure(self, config: BrokerConfig) -> None:
        """Use `config` from the next request on: the broker's keys were changed while it runs."""
        self.config = config
        self.logs.home.producer_expiration_ms = config.producer_id_expiration_ms
