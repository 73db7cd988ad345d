"""What handlers work with: the parts of one running broker, and nothing of sockets or bytes."""

from __future__ import annotations

from dataclasses import dataclass

from broker.advertised import Advertised
from broker.append_queue import AppendQueue
from broker.blocking_pool import BlockingPool
from broker.checkpoint_writer import CheckpointWriter
from broker.clock import Clock
from broker.configs import Configs
from broker.group_commit import GroupCommit
from broker.groups.coordinator import Coordinator
from broker.metadata.controller import Controller
from broker.metrics import Metrics
from broker.partition import Partitions
from broker.producer_ids import ProducerIds
from broker.purgatory import Purgatory
from broker.topics import Topics
from config.broker import BrokerConfig
from protocol.messages.api_versions import ApiVersion
from storage.log_manager import LogManager


@dataclass(slots=True, kw_only=True)
class Services:
    """One broker's parts, made once by the server; `config` is what holds now."""

    config: BrokerConfig
    clock: Clock
    metrics: Metrics
    pool: BlockingPool
    flush_pool: BlockingPool  # group commit's alone
    logs: LogManager
    checkpoints: CheckpointWriter
    partitions: Partitions
    commit: GroupCommit
    appends: AppendQueue
    purgatory: Purgatory
    controller: Controller
    topics: Topics
    groups: Coordinator
    configs: Configs
    producer_ids: ProducerIds
    advertised: Advertised
    api_versions: list[ApiVersion]  # what ApiVersions answers: the handler table
    served_keys: frozenset[int]
    cluster_id: str
    node_id: int

    def reconfigure(self, config: BrokerConfig) -> None:
        """Use `config` from the next request on: the broker's keys were changed while it runs."""
        self.config = config
        self.logs.home.producer_expiration_ms = config.producer_id_expiration_ms
