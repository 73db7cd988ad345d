"""The defaults of Kafka's broker keys that have no effect here, for DescribeConfigs.

A client that asks for all of a broker's configuration gets every key that Kafka 4.3 shows, so that
tools which read one of them find it. Each line is name, kind, whether it may be set while the
broker runs (`dynamic`, as for Kafka; without effect either way) and Kafka's default: `null` is not
set, nothing is an empty text or list, and `~` stands for Kafka's Java package. Keys that Kafka
changes for one broker or listener alone are `fixed` here: most belong to TLS and SASL.
config/without_effect.py says why a key has no effect. Neither Kafka nor this broker shows Kafka's
internal keys.
"""

from __future__ import annotations

import functools
from typing import NamedTuple

from config.values import Kind


class IdleKey(NamedTuple):
    """A key that changes nothing, as Kafka shows it; `default` None is not set."""

    name: str
    kind: Kind
    is_dynamic: bool
    default: str | None


# Kafka's DynamicBrokerConfig has these, and its static configuration not: shown when they are set.
DYNAMIC_ONLY = (
    "follower.replication.throttled.rate",
    "leader.replication.throttled.rate",
    "replica.alter.log.dirs.io.max.bytes.per.second",
)

JAVA_PACKAGE = "org.apache.kafka."

_TABLE = """
add.partitions.to.txn.retry.backoff.ms int fixed 20
alter.config.policy.class.name class fixed null
alter.log.dirs.replication.quota.window.num int fixed 11
alter.log.dirs.replication.quota.window.size.seconds int fixed 1
auto.leader.rebalance.enable boolean fixed true
background.threads int dynamic 10
broker.heartbeat.interval.ms int fixed 2000
broker.session.timeout.ms int fixed 9000
client.quota.callback.class class fixed null
controlled.shutdown.enable boolean fixed true
controller.quorum.append.linger.ms int fixed 25
controller.quorum.auto.join.enable boolean fixed false
controller.quorum.bootstrap.servers list fixed
controller.quorum.election.backoff.max.ms int fixed 1000
controller.quorum.election.timeout.ms int fixed 1000
controller.quorum.fetch.max.bytes int fixed 1048576
controller.quorum.fetch.snapshot.max.bytes int fixed 1048576
controller.quorum.fetch.timeout.ms int fixed 2000
controller.quorum.request.timeout.ms int fixed 2000
controller.quorum.retry.backoff.ms int fixed 20
controller.quorum.voters list fixed
controller.socket.timeout.ms int fixed 30000
cordoned.log.dirs list fixed
create.topic.policy.class.name class fixed null
delegation.token.expiry.check.interval.ms long fixed 3600000
delegation.token.expiry.time.ms long fixed 86400000
delegation.token.max.lifetime.ms long fixed 604800000
delegation.token.secret.key password fixed null
delete.records.purgatory.purge.interval.requests int fixed 1
early.start.listeners list fixed null
fetch.purgatory.purge.interval.requests int fixed 1000
follower.fetch.last.tiered.offset.enable boolean dynamic false
group.consumer.assignment.interval.ms int dynamic 1000
group.consumer.max.assignment.interval.ms int fixed 15000
group.consumer.max.heartbeat.interval.ms int fixed 15000
group.consumer.max.session.timeout.ms int fixed 60000
group.consumer.min.assignment.interval.ms int fixed 0
group.consumer.min.heartbeat.interval.ms int fixed 5000
group.consumer.min.session.timeout.ms int fixed 45000
group.coordinator.append.linger.ms int fixed -1
group.coordinator.background.threads int fixed 2
group.coordinator.cached.buffer.max.bytes int dynamic 1048588
group.coordinator.rebalance.protocols list fixed classic,consumer,streams
group.coordinator.threads int fixed 4
group.share.assignment.interval.ms int dynamic 1000
group.share.assignors list fixed simple
group.share.delivery.count.limit int fixed 5
group.share.heartbeat.interval.ms int fixed 5000
group.share.max.assignment.interval.ms int fixed 15000
group.share.max.delivery.count.limit int fixed 10
group.share.max.heartbeat.interval.ms int fixed 15000
group.share.max.partition.max.record.locks int fixed 4000
group.share.max.record.lock.duration.ms int fixed 60000
group.share.max.session.timeout.ms int fixed 60000
group.share.max.share.sessions int fixed 2000
group.share.max.size int fixed 200
group.share.min.assignment.interval.ms int fixed 0
group.share.min.delivery.count.limit int fixed 2
group.share.min.heartbeat.interval.ms int fixed 5000
group.share.min.partition.max.record.locks int fixed 100
group.share.min.record.lock.duration.ms int fixed 15000
group.share.min.session.timeout.ms int fixed 45000
group.share.partition.max.record.locks int fixed 2000
group.share.record.lock.duration.ms int fixed 30000
group.share.session.timeout.ms int fixed 45000
group.streams.assignment.interval.ms int dynamic 1000
group.streams.heartbeat.interval.ms int fixed 5000
group.streams.initial.rebalance.delay.ms int fixed 3000
group.streams.max.assignment.interval.ms int fixed 15000
group.streams.max.heartbeat.interval.ms int fixed 15000
group.streams.max.session.timeout.ms int fixed 60000
group.streams.max.size int fixed 2147483647
group.streams.max.standby.replicas int fixed 2
group.streams.min.assignment.interval.ms int fixed 0
group.streams.min.heartbeat.interval.ms int fixed 5000
group.streams.min.session.timeout.ms int fixed 45000
group.streams.num.standby.replicas int fixed 0
group.streams.session.timeout.ms int fixed 45000
initial.broker.registration.timeout.ms int fixed 60000
kafka.metrics.polling.interval.secs int fixed 10
kafka.metrics.reporters list fixed
leader.imbalance.check.interval.seconds long fixed 300
log.cleaner.io.buffer.size int dynamic 524288
log.dir.failure.timeout.ms long fixed 30000
max.request.partition.size.limit int fixed 2000
metadata.log.dir string fixed null
metadata.log.segment.bytes int fixed 1073741824
metadata.log.segment.ms long fixed 604800000
metadata.max.idle.interval.ms int fixed 500
metric.reporters list dynamic ~common.metrics.JmxReporter
metrics.num.samples int fixed 2
metrics.recording.level string fixed INFO
metrics.sample.window.ms long fixed 30000
num.replica.alter.log.dirs.threads int fixed null
num.replica.fetchers int dynamic 1
offsets.topic.replication.factor short fixed 3
principal.builder.class class fixed ~common.security.authenticator.DefaultKafkaPrincipalBuilder
producer.purgatory.purge.interval.requests int fixed 1000
remote.fetch.max.wait.ms int dynamic 500
remote.list.offsets.request.timeout.ms long dynamic 30000
remote.log.index.file.cache.total.size.bytes long dynamic 1073741824
remote.log.manager.copier.thread.pool.size int dynamic 10
remote.log.manager.copy.max.bytes.per.second long dynamic 9223372036854775807
remote.log.manager.copy.quota.window.num int fixed 11
remote.log.manager.copy.quota.window.size.seconds int fixed 1
remote.log.manager.expiration.thread.pool.size int dynamic 10
remote.log.manager.fetch.max.bytes.per.second long dynamic 9223372036854775807
remote.log.manager.fetch.quota.window.num int fixed 11
remote.log.manager.fetch.quota.window.size.seconds int fixed 1
remote.log.manager.follower.thread.pool.size int dynamic 2
remote.log.manager.task.interval.ms long fixed 30000
remote.log.manager.thread.pool.size int fixed 2
remote.log.metadata.custom.metadata.max.bytes int fixed 128
remote.log.metadata.manager.class.name string fixed ~server.log.remote.metadata.storage.\
TopicBasedRemoteLogMetadataManager
remote.log.metadata.manager.class.path string fixed null
remote.log.metadata.manager.impl.prefix string fixed rlmm.config.
remote.log.metadata.manager.listener.name string fixed null
remote.log.reader.max.pending.tasks int fixed 100
remote.log.reader.threads int dynamic 10
remote.log.storage.manager.class.name string fixed null
remote.log.storage.manager.class.path string fixed null
remote.log.storage.manager.impl.prefix string fixed rsm.config.
remote.log.storage.system.enable boolean fixed false
replica.fetch.backoff.ms int fixed 1000
replica.fetch.max.bytes int fixed 1048576
replica.fetch.min.bytes int fixed 1
replica.fetch.response.max.bytes int fixed 10485760
replica.fetch.wait.max.ms int fixed 500
replica.high.watermark.checkpoint.interval.ms long fixed 5000
replica.lag.time.max.ms long fixed 30000
replica.selector.class string fixed null
replica.socket.receive.buffer.bytes int fixed 65536
replica.socket.timeout.ms int fixed 30000
replication.quota.window.num int fixed 11
replication.quota.window.size.seconds int fixed 1
request.timeout.ms int fixed 30000
sasl.client.callback.handler.class class fixed null
sasl.kerberos.kinit.cmd string fixed /usr/bin/kinit
sasl.kerberos.min.time.before.relogin long fixed 60000
sasl.kerberos.principal.to.local.rules list fixed DEFAULT
sasl.kerberos.service.name string fixed null
sasl.kerberos.ticket.renew.jitter double fixed 0.05
sasl.kerberos.ticket.renew.window.factor double fixed 0.8
sasl.login.callback.handler.class class fixed null
sasl.login.class class fixed null
sasl.login.connect.timeout.ms int fixed null
sasl.login.read.timeout.ms int fixed null
sasl.login.refresh.buffer.seconds short fixed 300
sasl.login.refresh.min.period.seconds short fixed 60
sasl.login.refresh.window.factor double fixed 0.8
sasl.login.refresh.window.jitter double fixed 0.05
sasl.login.retry.backoff.max.ms long fixed 10000
sasl.login.retry.backoff.ms long fixed 100
sasl.mechanism.controller.protocol string fixed GSSAPI
sasl.mechanism.inter.broker.protocol string fixed GSSAPI
sasl.oauthbearer.assertion.algorithm string fixed RS256
sasl.oauthbearer.assertion.claim.aud string fixed null
sasl.oauthbearer.assertion.claim.exp.seconds int fixed 300
sasl.oauthbearer.assertion.claim.iss string fixed null
sasl.oauthbearer.assertion.claim.jti.include boolean fixed false
sasl.oauthbearer.assertion.claim.nbf.seconds int fixed 60
sasl.oauthbearer.assertion.claim.sub string fixed null
sasl.oauthbearer.assertion.file string fixed null
sasl.oauthbearer.assertion.private.key.file string fixed null
sasl.oauthbearer.assertion.private.key.passphrase password fixed null
sasl.oauthbearer.assertion.template.file string fixed null
sasl.oauthbearer.client.credentials.client.id string fixed null
sasl.oauthbearer.client.credentials.client.secret password fixed null
sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms long fixed 10000
sasl.oauthbearer.jwks.endpoint.retry.backoff.ms long fixed 100
sasl.oauthbearer.jwt.retriever.class class fixed ~common.security.oauthbearer.DefaultJwtRetriever
sasl.oauthbearer.jwt.validator.class class fixed ~common.security.oauthbearer.DefaultJwtValidator
sasl.oauthbearer.scope string fixed null
sasl.oauthbearer.token.endpoint.url string fixed null
sasl.server.callback.handler.class class fixed null
sasl.server.max.receive.size int fixed 524288
security.inter.broker.protocol string fixed PLAINTEXT
security.providers string fixed null
share.coordinator.append.linger.ms int fixed -1
share.coordinator.cached.buffer.max.bytes int dynamic 1048588
share.coordinator.load.buffer.size int fixed 5242880
share.coordinator.snapshot.update.records.per.snapshot int fixed 500
share.coordinator.state.topic.compression.codec int fixed 0
share.coordinator.state.topic.min.isr short fixed 2
share.coordinator.state.topic.num.partitions int fixed 50
share.coordinator.state.topic.replication.factor short fixed 3
share.coordinator.state.topic.segment.bytes int fixed 104857600
share.coordinator.threads int fixed 1
share.coordinator.write.timeout.ms int fixed 5000
share.fetch.purgatory.purge.interval.requests int fixed 1000
socket.connection.setup.timeout.max.ms long fixed 30000
socket.connection.setup.timeout.ms long fixed 10000
ssl.endpoint.identification.algorithm string fixed https
ssl.engine.factory.class class fixed null
ssl.keymanager.algorithm string fixed SunX509
ssl.protocol string fixed TLSv1.3
ssl.provider string fixed null
ssl.secure.random.implementation string fixed null
ssl.trustmanager.algorithm string fixed PKIX
transaction.partition.verification.enable boolean dynamic true
transaction.state.log.min.isr int fixed 2
transaction.state.log.replication.factor short fixed 3
transaction.two.phase.commit.enable boolean fixed false
"""


@functools.cache
def idle_keys() -> dict[str, IdleKey]:
    """Return the keys by name."""
    found = {key.name: key for key in map(_read, _TABLE.strip().splitlines())}
    for name in DYNAMIC_ONLY:
        found[name] = IdleKey(name, Kind.LONG, is_dynamic=True, default=None)
    return found


def _read(line: str) -> IdleKey:
    name, kind, update, *rest = line.split(" ", 3)
    default = rest[0] if rest else ""
    return IdleKey(name, Kind[kind.upper()], update == "dynamic", _default(default))


def _default(text: str) -> str | None:
    return None if text == "null" else text.replace("~", JAVA_PACKAGE)
