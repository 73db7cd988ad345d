"""Describe and change configs while the broker runs (KIP-226, KIP-339).

Changes are CONFIG records of the metadata log, and take effect once these are durable:

    check ── append ── wait until durable ── apply ── answer
                                 start ── load ── apply

To apply a change, the broker builds its configuration again from its static settings and all
recorded configs, notifies the listeners, and gives each log its topic's configuration. A topic
created in the meantime uses the new defaults. A change for all topics reaches some after the others
if there are very many. Of very many resources, some are changed after the
others, so that the loop turns in between; as in Kafka, their changes are not one. If some cannot be
recorded, those before them are changed, and those after them are not tried. A recorded value
that cannot be used (Kafka may have accepted it) is reported and ignored, and does not keep a broker
from starting, unless a listener would then take clients whose certificates it was told to require.

`broker.configs.changes` says which changes a request may make, `broker.configs.rows` what an answer
shows.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Container, Iterator, Mapping, Sequence
from functools import partial
from typing import Final, NamedTuple

from broker.configs.certificate_change import CertificateChange, Certificates
from broker.configs.changes import (
    CLIENT_METRICS,
    GROUP,
    Resource,
    State,
    changes_of,
    check_named_once,
    configs_of,
    duplicates,
)
from broker.configs.rows import (
    BrokerLayers,
    ConfigSource,
    Row,
    TopicRow,
    broker_rows,
    cluster_rows,
    resource_rows,
    topic_rows,
)
from broker.error_mapping import error_code_of
from broker.metadata.controller import ConfigChange, Controller
from broker.metadata.image import CONFIG_BROKER, CONFIG_TOPIC, TopicInfo
from broker.metadata.topic_rules import TopicError, check_record_total
from broker.partitions.group_commit import GroupCommit
from broker.partitions.partition import Partitions
from broker.partitions.purgatory import Purgatory
from broker.runtime.turns import InTurns
from config.broker import BrokerConfig
from config.load import Loaded
from config.resources import CLIENT_METRICS_KEYS, GROUP_KEYS
from storage.errors import StorageError

logger = logging.getLogger("barnabas.configs")

NODE_ID_NAMES = ("node.id", "broker.id")  # either says both

TOGETHER: Final = 50  # resources that are checked and recorded in one step, each some 120 us
KEYS_TOGETHER: Final = 2_000  # of them, each some 1.5 us; a resource is one step
TOPICS_PER_TURN: Final = 200  # that a change for all of them reaches, each some 30 us

RESOURCE_NAMES = {
    CONFIG_TOPIC: "topic",
    CONFIG_BROKER: "broker",
    CLIENT_METRICS: "client metrics",
    GROUP: "group",
}

Listener = Callable[[BrokerConfig], None]


class StaticChange(NamedTuple):
    """The names of static settings that were changed, and of those that wait for a restart."""

    now: list[str]
    at_restart: list[str]


class BrokerSettings:
    """The broker's current configuration: its static settings under the recorded configs."""

    def __init__(self, loaded: Loaded, controller: Controller, node_id: int) -> None:
        self.loaded = loaded
        self._controller = controller
        self._node_id = node_id
        self._listeners: list[Listener] = []
        self._complaints: list[str] = []
        self._keep_static(loaded)
        self.refresh()

    def listen(self, listener: Listener) -> None:
        """Call `listener` with the configuration, now and whenever it changes."""
        self._listeners.append(listener)
        listener(self.loaded.config)

    @property
    def layers(self) -> BrokerLayers:
        """The values of the broker's keys, by layer."""
        configs = self._controller.image.broker_configs
        own = configs.get(str(self._node_id), {})
        return BrokerLayers(own, configs.get("", {}), self._static, self._origins)

    def refresh(self) -> None:
        """Build the configuration again from the recorded configs, and notify the listeners."""
        layers = self.layers
        self.loaded, complaints = self.loaded.with_usable_dynamic({**layers.cluster, **layers.own})
        for complaint in complaints:
            if complaint not in self._complaints:
                logger.warning(
                    "recorded config has no effect here: %(reason)s", {"reason": complaint}
                )
        self._complaints = complaints
        self._controller.topic_configs.defaults = self.loaded.config.topic_defaults
        for listener in self._listeners:
            listener(self.loaded.config)

    def replace_static(self, loaded: Loaded) -> None:
        """Use other static settings, under the recorded configs. Raises ConfigError."""
        layers = self.layers
        loaded.with_usable_dynamic({**layers.cluster, **layers.own})  # may refuse it
        self.loaded = loaded
        self._keep_static(loaded)
        self.refresh()

    def _keep_static(self, loaded: Loaded) -> None:
        """Keep the texts of the static settings, and where each was given: rows show them."""
        self._static = _static_texts(loaded, self._node_id)
        self._origins = {name: str(one.origin) for name, one in loaded.static.items()}


class Configs:
    """Describes and changes the configs of topics, the broker, groups and client metrics."""

    def __init__(
        self,
        settings: BrokerSettings,
        controller: Controller,
        partitions: Partitions,
        record: Callable[[Sequence[ConfigChange], Callable[[], Awaitable[None]]], Awaitable[None]],
        commit: GroupCommit,
        purgatory: Purgatory,
        node_id: int,
    ) -> None:
        """`record` appends changes to the metadata log and applies them when they are durable."""
        self.settings = settings
        self._controller = controller
        self._image = controller.image
        self._partitions = partitions
        self._record = record
        self._commit = commit
        self._purgatory = purgatory
        self._node_id = node_id
        self.certificates: Certificates | None = None  # of listeners with TLS
        self.client_metrics_changed: Callable[[], None] = lambda: None
        self._changing = asyncio.Lock()

    # -- describing -----------------------------------------------------------------------------

    def topic(self, topic: TopicInfo) -> list[TopicRow]:
        """Return the rows of a topic, which need not exist yet."""
        config = self._controller.topic_configs.of(topic)
        return topic_rows(config, topic.configs, self.settings.layers)

    def broker(self) -> list[Row]:
        """Return the rows of this broker."""
        return broker_rows(self.settings.layers)

    def cluster(self) -> list[Row]:
        """Return the rows of the cluster-wide dynamic configs."""
        return cluster_rows(self.settings.layers)

    def group(self, name: str) -> list[Row]:
        """Return the rows of a group; it need not exist."""
        own = configs_of(self._image, GROUP, name)
        return resource_rows(GROUP_KEYS.values(), own, ConfigSource.GROUP, self.settings.layers)

    def client_metrics(self, name: str) -> list[Row]:
        """Return the rows of a subscription of client metrics; it need not exist."""
        own = configs_of(self._image, CLIENT_METRICS, name)
        keys = CLIENT_METRICS_KEYS.values()
        return resource_rows(keys, own, ConfigSource.CLIENT_METRICS, self.settings.layers)

    def subscriptions(self) -> list[Mapping[str, str]]:
        """Return the configs of each subscription of client metrics."""
        return [configs_of(self._image, CLIENT_METRICS, one) for one in self.names(CLIENT_METRICS)]

    def names(self, kind: int) -> list[str]:
        """Return every resource of a type that has configs or could have them."""
        if kind == CONFIG_TOPIC:
            return list(self._image.topics)
        if kind == CONFIG_BROKER:
            return [str(self._node_id)]
        others = self._image.other_configs.items()
        return [name for (other, name), values in others if other == kind and values]

    # -- changing ------------------------------------------------------------------------------

    async def alter(
        self, resources: Sequence[Resource], *, validate_only: bool = False
    ) -> list[TopicError | None]:
        """Change each resource separately; return its error, or None, in their order.

        Returns when the changes are durable and in effect. Raises LogFailed, or TopicError if they
        are too many or the metadata log cannot be made durable; once some have been made, that is
        the error of the others.
        """
        if self.certificates is None:
            return await self._alter(resources, validate_only=validate_only)
        async with self._changing:  # a listener's TLS is made of its other keys, too
            return await self._alter(resources, validate_only=validate_only)

    async def use_static(self, other: Loaded) -> StaticChange:
        """Use what `other` sets that can change now; return the names, and those that cannot.

        Raises ConfigError, TlsError; nothing is changed then.
        """
        async with self._changing:  # certificates are prepared from keys that nothing changes
            loaded = self.settings.loaded
            change = StaticChange(*loaded.changed(other))
            if not change.now:
                return change
            wanted = loaded.with_static(other, change.now)
            tls, before = wanted.config.tls, loaded.config.tls
            listeners = [name for name in tls if tls[name] != before.get(name)]
            prepared = None
            if listeners and self.certificates is not None:
                prepared = await self.certificates.prepare(tls, listeners)
                # A change whose client has left takes effect without the lock.
                wanted = self.settings.loaded.with_static(other, change.now)
            self.settings.replace_static(wanted)
            if prepared is not None and self.certificates is not None:
                self.certificates.use(prepared)
            await self._apply_topics(list(self._image.topics))
            return change

    async def _alter(
        self, resources: Sequence[Resource], *, validate_only: bool
    ) -> list[TopicError | None]:
        twice = await duplicates(resources)
        outcomes: list[TopicError | None] = []
        for some in _pieces(resources):
            if outcomes:
                await asyncio.sleep(0)
            try:
                outcomes += await self._alter_together(some, twice, validate_only=validate_only)
            except (StorageError, TopicError) as error:
                if None not in outcomes:
                    raise
                code = error_code_of(error)
                outcomes += [TopicError(code, str(error))] * len(some)
                reason = f"Not tried, since a change before it has failed: {error}"
                outcomes += [TopicError(code, reason)] * (len(resources) - len(outcomes))
                break
        return outcomes

    async def _alter_together(
        self,
        resources: Sequence[Resource],
        twice: Container[tuple[int, str]],
        *,
        validate_only: bool,
    ) -> list[TopicError | None]:
        # More are no records, but looking at them takes long; the records are counted, too.
        check_record_total(max(len(resource.operations) for resource in resources))
        state = State(
            self._image,
            self._node_id,
            self._controller.topic_configs.defaults,
            self.settings.loaded,
        )
        certificates = await self._prepare(resources, state)
        outcomes: list[TopicError | None] = []
        changes: list[ConfigChange] = []
        for resource in resources:
            try:
                check_named_once(resource, twice)
                values = changes_of(resource, state)
                certificates.check(resource)
            except TopicError as error:
                certificates.refuse(resource)
                outcomes.append(error.kept())
                continue
            outcomes.append(None)
            if values:
                changes.append(ConfigChange(resource.kind, resource.name, values))
        if not validate_only and None in outcomes:  # errors wait for nothing
            await self._record(changes, partial(self._apply, changes, certificates))
        return outcomes

    async def _prepare(self, resources: Sequence[Resource], state: State) -> CertificateChange:
        """Read the files that a request names, before anything is decided: that may wait."""
        change = CertificateChange(self.certificates)
        for resource in resources:
            await change.prepare(resource, state)
        return change

    async def _apply(
        self, changes: Sequence[ConfigChange], certificates: CertificateChange
    ) -> None:
        """Use changes that are durable, perhaps after their client has left."""
        for change in changes:
            resource = f"{RESOURCE_NAMES[change.kind]} {change.name or 'default'}"
            logger.info(
                "configs of %(resource)s changed: %(names)s",
                {"resource": resource, "names": ", ".join(sorted(change.values))},
            )
        if any(change.kind == CLIENT_METRICS for change in changes):
            self.client_metrics_changed()
        if any(change.kind == CONFIG_BROKER for change in changes):
            self.settings.refresh()
            topics = list(self._image.topics)
        else:
            topics = [change.name for change in changes if change.kind == CONFIG_TOPIC]
        certificates.use()
        await self._apply_topics(topics)

    async def _apply_topics(self, names: Sequence[str]) -> None:
        """Give topics the configs that are recorded now, so many in a turn of the loop."""
        async for name in InTurns(names, TOPICS_PER_TURN):
            topic = self._image.topics.get(name)
            if topic is not None:  # removed meanwhile
                self._apply_topic(topic)

    def _apply_topic(self, topic: TopicInfo) -> None:
        config = self._controller.topic_configs.of(topic)
        for info in topic.partitions:
            try:
                partition = self._partitions.get(topic.name, info.partition)
            except StorageError:
                continue  # not led here, or not open yet: it will be opened with its new config
            log = partition.log
            was_caching = log.write_caching
            log.update_config(config)
            if log.write_caching and not was_caching:
                self._purgatory.notify(partition)  # consumers now see what was written
            elif was_caching and not log.write_caching:
                self._commit.flush_now(partition)  # acknowledged before, so flush it


def _pieces(resources: Sequence[Resource]) -> Iterator[list[Resource]]:
    """Divide resources into pieces of up to `TOGETHER`, with up to `KEYS_TOGETHER` if several."""
    piece: list[Resource] = []
    keys = 0
    for resource in resources:
        keys += len(resource.operations)
        if piece and (len(piece) == TOGETHER or keys > KEYS_TOGETHER):
            yield piece
            piece, keys = [], len(resource.operations)
        piece.append(resource)
    if piece:
        yield piece


def _static_texts(loaded: Loaded, node_id: int) -> dict[str, str]:
    texts = {name: setting.text for name, setting in loaded.static.items()}
    return texts | dict.fromkeys(NODE_ID_NAMES, str(node_id))
