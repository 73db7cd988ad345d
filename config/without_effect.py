"""Kafka's broker keys that are accepted and change nothing, each group with its reason.

They make a Kafka's server.properties work: a known key causes no warning, and the broker lists at
its start the ones that are set. A key leaves this table when it gets an effect.
tests/golden/kafka_keys.tsv lists all keys of Kafka 4.3, and a test checks that each is declared or
listed here. Keys of one listener are accepted in the same way, but for those that
config/listener_keys.py knows.
"""

from __future__ import annotations

from typing import NamedTuple

from config.listener_keys import LISTENER_PREFIX, key_behind, split_prefix


class Group(NamedTuple):
    """Keys with one reason; `promises_safety` if ignoring one silently would be dangerous."""

    reason: str
    names: tuple[str, ...]
    promises_safety: bool = False


def _group(reason: str, names: str, *, promises_safety: bool = False) -> Group:
    return Group(reason, tuple(names.split()), promises_safety)


QUORUM = _group(
    "the node is its own controller, alone",
    """
    broker.heartbeat.interval.ms broker.session.timeout.ms
    controller.performance.always.log.threshold.ms controller.performance.sample.period.ms
    controller.quorum.append.linger.ms controller.quorum.auto.join.enable
    controller.quorum.bootstrap.servers controller.quorum.election.backoff.max.ms
    controller.quorum.election.timeout.ms controller.quorum.fetch.max.bytes
    controller.quorum.fetch.snapshot.max.bytes controller.quorum.fetch.timeout.ms
    controller.quorum.request.timeout.ms controller.quorum.retry.backoff.ms
    controller.quorum.voters controller.socket.timeout.ms early.start.listeners
    initial.broker.registration.timeout.ms internal.metadata.delete.delay.millis
    internal.metadata.log.segment.bytes internal.metadata.max.batch.size.in.bytes
    metadata.log.dir metadata.log.segment.bytes metadata.log.segment.ms
    metadata.max.idle.interval.ms
    server.max.startup.time.ms unclean.leader.election.interval.ms
    unstable.api.versions.enable unstable.feature.versions.enable
    """,
)

REPLICATION = _group(
    "there are no other replicas",
    """
    alter.log.dirs.replication.quota.window.num
    alter.log.dirs.replication.quota.window.size.seconds auto.leader.rebalance.enable
    controlled.shutdown.enable cordoned.log.dirs follower.fetch.last.tiered.offset.enable
    follower.replication.throttled.rate
    leader.imbalance.check.interval.seconds leader.replication.throttled.rate
    log.dir.failure.timeout.ms num.replica.alter.log.dirs.threads num.replica.fetchers
    offsets.topic.replication.factor
    replica.alter.log.dirs.io.max.bytes.per.second replica.fetch.backoff.ms
    replica.fetch.max.bytes replica.fetch.min.bytes replica.fetch.response.max.bytes
    replica.fetch.wait.max.ms replica.high.watermark.checkpoint.interval.ms
    replica.lag.time.max.ms replica.selector.class replica.socket.receive.buffer.bytes
    replica.socket.timeout.ms replication.quota.window.num
    replication.quota.window.size.seconds request.timeout.ms
    sasl.mechanism.inter.broker.protocol security.inter.broker.protocol
    socket.connection.setup.timeout.max.ms socket.connection.setup.timeout.ms
    transaction.state.log.min.isr transaction.state.log.replication.factor
    """,
)

COORDINATOR = _group(
    "the group coordinator has no threads and no buffers of its own",
    """
    group.coordinator.append.linger.ms group.coordinator.background.threads
    group.coordinator.cached.buffer.max.bytes group.coordinator.threads
    """,
)

CONSUMER_GROUPS = _group(
    "consumer groups get a new target as soon as they need one, look at expressions whenever topics"
    " or ACLs change, and have no settings of their own that could have bounds",
    """
    group.consumer.assignment.interval.ms group.consumer.max.assignment.interval.ms
    group.consumer.max.heartbeat.interval.ms group.consumer.max.session.timeout.ms
    group.consumer.min.assignment.interval.ms group.consumer.min.heartbeat.interval.ms
    group.consumer.min.session.timeout.ms group.consumer.regex.refresh.interval.ms
    group.coordinator.rebalance.protocols
    """,
)

OTHER_GROUPS = _group(
    "share groups and streams groups are not coordinated by this version",
    """
    group.share.assignment.interval.ms group.share.assignors
    group.share.delivery.count.limit group.share.heartbeat.interval.ms
    group.share.initialize.retry.interval.ms group.share.max.assignment.interval.ms
    group.share.max.delivery.count.limit group.share.max.heartbeat.interval.ms
    group.share.max.partition.max.record.locks group.share.max.record.lock.duration.ms
    group.share.max.session.timeout.ms group.share.max.share.sessions
    group.share.max.size group.share.min.assignment.interval.ms
    group.share.min.delivery.count.limit group.share.min.heartbeat.interval.ms
    group.share.min.partition.max.record.locks group.share.min.record.lock.duration.ms
    group.share.min.session.timeout.ms group.share.partition.max.record.locks
    group.share.persister.class.name group.share.record.lock.duration.ms
    group.share.session.timeout.ms group.streams.assignment.interval.ms
    group.streams.heartbeat.interval.ms group.streams.initial.rebalance.delay.ms
    group.streams.max.assignment.interval.ms group.streams.max.heartbeat.interval.ms
    group.streams.max.session.timeout.ms group.streams.max.size
    group.streams.max.standby.replicas group.streams.min.assignment.interval.ms
    group.streams.min.heartbeat.interval.ms group.streams.min.session.timeout.ms
    group.streams.num.standby.replicas group.streams.session.timeout.ms
    share.coordinator.append.linger.ms share.coordinator.cached.buffer.max.bytes
    share.coordinator.cold.partition.snapshot.interval.ms
    share.coordinator.load.buffer.size
    share.coordinator.snapshot.update.records.per.snapshot
    share.coordinator.state.topic.compression.codec
    share.coordinator.state.topic.min.isr share.coordinator.state.topic.num.partitions
    share.coordinator.state.topic.prune.interval.ms
    share.coordinator.state.topic.replication.factor
    share.coordinator.state.topic.segment.bytes share.coordinator.threads
    share.coordinator.write.timeout.ms share.fetch.purgatory.purge.interval.requests
    """,
)

TRANSACTIONS = _group(
    "a batch waits for the end of the transaction before without asking again, two-phase commit is"
    " not offered, as in Kafka 4.3, and a batch is verified in the step that appends it",
    """
    add.partitions.to.txn.retry.backoff.ms transaction.partition.verification.enable
    transaction.two.phase.commit.enable
    """,
)

COMPACTION = _group(
    "compaction reads and writes 1 MiB at a time",
    "log.cleaner.io.buffer.size",
)

TIERS = _group(
    "there is no remote storage",
    """
    remote.fetch.max.wait.ms remote.list.offsets.request.timeout.ms
    remote.log.index.file.cache.total.size.bytes remote.log.index.file.cache.ttl.ms
    remote.log.manager.copier.thread.pool.size remote.log.manager.copy.max.bytes.per.second
    remote.log.manager.copy.quota.window.num
    remote.log.manager.copy.quota.window.size.seconds
    remote.log.manager.expiration.thread.pool.size
    remote.log.manager.fetch.max.bytes.per.second remote.log.manager.fetch.quota.window.num
    remote.log.manager.fetch.quota.window.size.seconds
    remote.log.manager.follower.thread.pool.size remote.log.manager.task.interval.ms
    remote.log.manager.task.retry.backoff.max.ms remote.log.manager.task.retry.backoff.ms
    remote.log.manager.task.retry.jitter remote.log.manager.thread.pool.size
    remote.log.metadata.custom.metadata.max.bytes remote.log.metadata.manager.class.name
    remote.log.metadata.manager.class.path remote.log.metadata.manager.impl.prefix
    remote.log.metadata.manager.listener.name remote.log.reader.max.pending.tasks
    remote.log.reader.threads remote.log.storage.manager.class.name
    remote.log.storage.manager.class.path remote.log.storage.manager.impl.prefix
    remote.log.storage.system.enable
    """,
)

SECURITY = _group(
    "delegation tokens, Kerberos and Java classes for security are not served",
    """
    delegation.token.expiry.check.interval.ms
    delegation.token.expiry.time.ms delegation.token.max.lifetime.ms
    delegation.token.secret.key principal.builder.class
    sasl.kerberos.principal.to.local.rules
    sasl.kerberos.service.name sasl.server.callback.handler.class
    ssl.engine.factory.class
    """,
    promises_safety=True,
)

LOGINS_OF_ITS_OWN = _group(
    "this broker logs in nowhere",
    """
    sasl.client.callback.handler.class sasl.kerberos.kinit.cmd
    sasl.kerberos.min.time.before.relogin sasl.kerberos.ticket.renew.jitter
    sasl.kerberos.ticket.renew.window.factor sasl.login.callback.handler.class
    sasl.login.class sasl.login.connect.timeout.ms sasl.login.read.timeout.ms
    sasl.login.refresh.buffer.seconds sasl.login.refresh.min.period.seconds
    sasl.login.refresh.window.factor sasl.login.refresh.window.jitter
    sasl.login.retry.backoff.max.ms sasl.login.retry.backoff.ms
    sasl.mechanism.controller.protocol sasl.oauthbearer.assertion.algorithm
    sasl.oauthbearer.assertion.claim.aud sasl.oauthbearer.assertion.claim.exp.seconds
    sasl.oauthbearer.assertion.claim.iss sasl.oauthbearer.assertion.claim.jti.include
    sasl.oauthbearer.assertion.claim.nbf.seconds sasl.oauthbearer.assertion.claim.sub
    sasl.oauthbearer.assertion.file sasl.oauthbearer.assertion.private.key.file
    sasl.oauthbearer.assertion.private.key.passphrase
    sasl.oauthbearer.assertion.template.file sasl.oauthbearer.client.credentials.client.id
    sasl.oauthbearer.client.credentials.client.secret
    sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms
    sasl.oauthbearer.jwks.endpoint.retry.backoff.ms
    sasl.oauthbearer.jwt.retriever.class sasl.oauthbearer.jwt.validator.class
    sasl.oauthbearer.scope sasl.oauthbearer.token.endpoint.url
    """,
)

SASL_BOUNDS = _group(
    "a frame before the login has at most 64 KiB",
    "sasl.server.max.receive.size",
)

TLS_OF_JAVA = _group(
    "TLS is OpenSSL's, and this broker connects to no other",
    """
    security.providers ssl.endpoint.identification.algorithm ssl.keymanager.algorithm
    ssl.protocol ssl.provider ssl.secure.random.implementation ssl.trustmanager.algorithm
    """,
)

QUOTAS = _group(
    "quotas are those that are recorded, and no class decides on them",
    "client.quota.callback.class",
)

JAVA = _group(
    "it names Java classes or their metrics",
    """
    alter.config.policy.class.name create.topic.policy.class.name
    kafka.metrics.polling.interval.secs kafka.metrics.reporters metric.reporters
    metrics.num.samples metrics.recording.level metrics.sample.window.ms
    """,
)

ELSEWHERE = _group(
    "deadlines are exact here, and tasks need no number",
    """
    background.threads delete.records.purgatory.purge.interval.requests
    fetch.purgatory.purge.interval.requests max.request.partition.size.limit
    producer.purgatory.purge.interval.requests
    """,
)

GROUPS_OF_KEYS = (
    QUORUM,
    REPLICATION,
    COORDINATOR,
    CONSUMER_GROUPS,
    OTHER_GROUPS,
    TRANSACTIONS,
    COMPACTION,
    TIERS,
    SECURITY,
    LOGINS_OF_ITS_OWN,
    SASL_BOUNDS,
    TLS_OF_JAVA,
    QUOTAS,
    JAVA,
    ELSEWHERE,
)

REASONS = {name: group for group in GROUPS_OF_KEYS for name in group.names}


def group_of(name: str) -> Group | None:
    """Return the group that a key belongs to, None if there is none."""
    if name.startswith(LISTENER_PREFIX):
        if key_behind(name) is not None:
            return None
        parts = split_prefix(name)
        return REASONS.get(parts.key, SECURITY) if parts else SECURITY
    return REASONS.get(name)
