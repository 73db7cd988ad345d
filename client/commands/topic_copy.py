"""`barnabas topics copy`: all records of a topic, with keys, headers, timestamps and partitions.

Records and the position reached in the source are written to the target's broker in one
transaction: the position as a commit of a group that has the name of the copy, for the partitions
of the target. So whatever ends a copy, the next one continues where it stopped, and each record is
in the target once for readers of committed records. The first transaction has the positions at
which the copy begins, of all partitions: so a copy that ends in the second one is known, too, and
the broker forgets the positions (`offsets.retention.minutes`) together, not those of a partition
that gets no records before the others, whose records would then be copied again.

The positions are read when the producer has its transactional id, which is the name as well: from
then on an earlier copy that still runs writes nothing more. The name has the id of the source: the
positions of a topic that was deleted mean nothing for another one of its name.

Batches are compressed with the codec of the source's: uncompressed, a record that fits the source
might be too large for the target.

A copy ends at the ends that the source had when it began, or at the first open transaction.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import click

from client.addresses import Address
from client.commands.careful_command import CarefulCommand
from client.commands.completing import topic_names
from client.commands.detached import detached
from client.commands.output import (
    broker_options,
    connect,
    fail,
    in_its_dialect,
    refusing,
    show_json,
)
from client.commands.running import run_to_end
from client.files.texts import plural
from client.places import Place

if TYPE_CHECKING:
    from client.kafka.connection import Connection
    from client.msgpack.async_transactional_producer import AsyncTransactionalProducer
    from client.msgpack.batch_openers import CodecOpener
    from client.msgpack.consumer import Consumer

TIMESTAMP_TYPE: Final = "message.timestamp.type"
KEPT: Final = "CreateTime"  # with LogAppendTime, times would not be kept
# Settings of the source that its copy does not get. The last two refuse records that are as old as
# those of a copy.
NOT_COPIED: Final = frozenset(
    (
        TIMESTAMP_TYPE,
        "message.timestamp.before.max.ms",
        "message.timestamp.difference.max.ms",
    )
)
BATCH_BYTES_MAX: Final = "max.message.bytes"
REQUEST_BYTES_MAX: Final = 1024 * 1024


class Plan(NamedTuple):
    """A copy: its topics, its name, and the largest batch that the target takes."""

    source: str
    target: str
    name: str
    batch_bytes_max: int


class Topic(NamedTuple):
    """A topic to copy: its cluster, its id, its number of partitions, and its own settings."""

    cluster_id: str
    topic_id: bytes
    partition_count: int
    configs: dict[str, str]


class Copied(NamedTuple):
    """How many records were copied, and whether they follow those of an earlier copy."""

    record_count: int
    is_continued: bool


@click.command(cls=CarefulCommand)
@click.argument("source", shell_complete=topic_names)
@click.argument("target")
@click.option(
    "--to", metavar="HOST:PORT", help="The broker of TARGET [default: the one of SOURCE]."
)
@click.option(
    "--to-command-config", metavar="FILE",
    help="As --command-config, for the broker of TARGET [default: the same file].",
)  # fmt: skip
@click.option("--append", is_flag=True, help="Copy behind the records that TARGET has.")
@broker_options
@refusing
def copy(
    source: str,
    target: str,
    *,
    to: str | None,
    to_command_config: str | None,
    append: bool,
    bootstrap: str,
    timeout_s: float,
    as_json: bool,
) -> None:
    """Copy the records of the topic SOURCE to TARGET, which is created if it does not exist.

    Partitions, keys, headers and timestamps stay; offsets do not. Only committed records are
    copied, in transactions. A copy that was ended, or is run again, continues where it stopped.
    Either broker may be Apache Kafka, of one node.
    """
    there = bootstrap if to is None else to
    if to is not None:
        there = _secured(to, to_command_config, bootstrap)
    elif to_command_config is not None:
        raise click.UsageError("--to-command-config needs --to.")
    with connect(bootstrap, timeout_s) as connection:
        topic = _read(connection, source)
    with connect(there, timeout_s) as connection:
        plan = _plan(connection, topic, source, target, append=append)
    run_to_end(
        _run(
            in_its_dialect(bootstrap, timeout_s),
            in_its_dialect(there, timeout_s),
            plan,
            timeout_s,
            as_json=as_json,
        )
    )


def _secured(to: str, file: str | None, bootstrap: str) -> str:
    """Return the address of the target's broker with its TLS and login."""
    if file is not None:
        found = import_module("client.security_file").read_security(file)
        return Address(to, found.tls, found.login)
    if isinstance(bootstrap, Address):
        return Address(to, bootstrap.tls, bootstrap.login)
    return to


def _read(connection: Connection, name: str) -> Topic:
    from client.kafka import admin
    from client.kafka.configs import TOPIC, Resource, describe, was_set

    resource = Resource(TOPIC, name)
    (found,) = admin.topics(connection, [name])
    configs = {
        one.name: one.value or ""
        for one in describe(connection, [resource])[resource]
        if was_set(resource, one) and one.name not in NOT_COPIED
    }
    cluster_id = admin.cluster(connection).cluster_id or ""
    return Topic(cluster_id, found.topic_id, len(found.partitions), configs)


def _plan(connection: Connection, topic: Topic, source: str, target: str, *, append: bool) -> Plan:
    """Create the target, or check it. Raises BrokerError; exits if it must not be written to."""
    from client.codes import code_text
    from client.kafka import admin
    from client.kafka.configs import TOPIC, Resource, describe
    from protocol.errors import ErrorCode

    found = admin.cluster(connection)
    if found.cluster_id == topic.cluster_id and source == target:
        fail(f"topic {source!r} cannot be copied to itself: name another topic, or another broker")
    name = f"barnabas-copy.{topic.cluster_id}.{source}.{topic.topic_id.hex()}.{target}"
    if all(one.name != target for one in found.topics):
        made = admin.create_topic(
            connection, target, partition_count=topic.partition_count, replication_factor=-1,
            configs=topic.configs | {TIMESTAMP_TYPE: KEPT}, validate_only=False,
        )  # fmt: skip
        if made.error_code == ErrorCode.NONE:
            return Plan(source, target, name, _batch_bytes_max(made.configs or ()))
        if made.error_code != ErrorCode.TOPIC_ALREADY_EXISTS:
            why = code_text(made.error_code, made.error_message)
            fail(f"topic {target!r} was not created: {why}")
    resource = Resource(TOPIC, target)
    settings = describe(connection, [resource], (TIMESTAMP_TYPE, BATCH_BYTES_MAX))[resource]
    for one in settings:
        if one.name == TIMESTAMP_TYPE and one.value != KEPT:
            fail(
                f"topic {target!r} has {TIMESTAMP_TYPE}={one.value}, and a copy keeps the times of"
                f" records: set it to {KEPT}, or name another topic"
            )
    _check(connection, topic, source, target, name=name, append=append)
    return Plan(source, target, name, _batch_bytes_max(settings))


def _batch_bytes_max(settings: Iterable[Any]) -> int:
    values = (one.value for one in settings if one.name == BATCH_BYTES_MAX)
    return int(next(values, None) or REQUEST_BYTES_MAX)


def _check(
    connection: Connection,
    topic: Topic,
    source: str,
    target: str,
    *,
    name: str,
    append: bool,
) -> None:
    """Exit if the target must not be written to. Raises BrokerError."""
    from client.kafka import admin

    count = len(admin.topics(connection, [target])[0].partitions)
    if count < topic.partition_count:
        fail(
            f"topic {target!r} has {count} partitions, {source!r} has {topic.partition_count}, and"
            " a copy keeps them: add partitions (topics alter), or name another topic"
        )
    # In this order: a copy writes positions before records.
    ends = admin.offsets(connection, {target: list(range(topic.partition_count))}, admin.LATEST)
    if append or not any(end > 0 for end, *_ in ends.values()):
        return
    reached = _reached(connection, name, target, is_stable=False)
    if not reached:
        fail(
            f"topic {target!r} has records, and none of an earlier copy of {source!r}: pass"
            " --append to copy behind them, or name another topic"
        )
    for (_, partition), (end, *_) in sorted(ends.items()):
        if end > 0 and partition not in reached:
            fail(
                f"{target}-{partition} has records, and the broker does not know which of"
                f" {source}-{partition} are among them (the position may have expired): pass"
                " --append to copy all of them behind, or name another topic"
            )


def _reached(connection: Connection, name: str, target: str, *, is_stable: bool) -> dict[int, int]:
    """Return the next offset of each partition that copies have reached. Raises BrokerError.

    `is_stable` waits for the transaction of an earlier copy, which may be open for a minute before
    the producer takes over.
    """
    from client.kafka import groups

    committed = groups.committed(connection, name, is_stable=is_stable)
    return {place.partition: at for place, at in committed.items() if place.topic == target}


async def _run(here: str, there: str, plan: Plan, timeout_s: float, *, as_json: bool) -> None:
    from client.kafka.connection import BrokerError
    from client.msgpack.async_transactional_producer import AsyncTransactionalProducer
    from client.msgpack.batch_openers import CodecOpener
    from client.msgpack.consumer import Consumer
    from client.transactions.transaction_settings import TransactionSettings

    def reached() -> dict[int, int]:
        with connect(there, timeout_s) as connection:
            return _reached(connection, plan.name, plan.target, is_stable=True)

    opener = CodecOpener()
    consumer = Consumer(here, plan.source, timeout_s=timeout_s, committed_only=True, opener=opener)
    request_bytes = min(plan.batch_bytes_max, REQUEST_BYTES_MAX)
    settings = TransactionSettings(answer_s=timeout_s, request_bytes=request_bytes)
    producer = AsyncTransactionalProducer(there, plan.name, settings)
    try:
        async with consumer, producer:
            found = await _copy(consumer, producer, opener, plan, await detached(reached))
    except BrokerError as error:  # TransactionError is one
        fail(
            f"{str(error).rstrip('.')}.",
            "What was copied stays. Run the command again to continue.",
        )
    if as_json:
        said: dict[str, Any] = {"source": plan.source, "target": plan.target}
        show_json(said | {"copied": found.record_count, "continued": found.is_continued})
        return
    again = ", behind those of an earlier copy" if found.is_continued else ""
    count = plural(found.record_count, "record")
    click.echo(f"Copied {count} of {plan.source} to {plan.target}{again}.")


async def _begin(
    consumer: Consumer, producer: AsyncTransactionalProducer, plan: Plan, reached: dict[int, int]
) -> dict[int, int]:
    """Move the consumer to what was reached, and note where the copy begins; return the ends."""
    ends = await consumer.end_offsets()
    starts = dict(consumer.positions)
    for partition, start in starts.items():
        at = reached.get(partition, start)
        if at > ends[partition]:
            fail(
                f"{plan.source}-{partition} ends at offset {ends[partition]}, and an earlier copy"
                f" has reached {at}: the topic has lost records, or was restored. Copy it to"
                f" another topic, or delete the group {plan.name} and pass --append"
            )
        if at < start:
            click.echo(
                f"{plan.source}-{partition}: the records from offset {at} to {start} were deleted"
                " before they were copied",
                err=True,
            )
        consumer.seek(partition, max(at, start))
    begun = {Place(plan.target, partition): at for partition, at in consumer.positions.items()}
    async with producer.transaction():
        await producer.send_offsets(plan.name, begun)
    return ends


async def _copy(
    consumer: Consumer,
    producer: AsyncTransactionalProducer,
    opener: CodecOpener,
    plan: Plan,
    reached: dict[int, int],
) -> Copied:
    """Copy up to the present ends, compressed as the source is: it may not fit otherwise."""
    ends = await _begin(consumer, producer, plan, reached)
    count = 0
    with CopyBar(plan, consumer.positions, ends) as progress:
        while unread := [one for one, at in consumer.positions.items() if at < ends[one]]:
            opener.codec = 0
            records = await consumer.poll(partitions=unread)
            if not records:
                continue
            producer.compress(opener.codec)
            async with producer.transaction():
                for partition, record in records:
                    await producer.send(
                        plan.target,
                        record.value,
                        key=record.key,
                        headers=record.headers,
                        timestamp_ms=record.timestamp,
                        partition=partition,
                    )
                positions = {
                    Place(plan.target, partition): consumer.positions[partition]
                    for partition in {one.partition for one in records}
                }
                await producer.send_offsets(plan.name, positions)
            count += len(records)
            progress.show(consumer.positions)
    return Copied(count, bool(reached))


class CopyBar:
    """A bar, on a terminal, of the offsets that were copied and committed."""

    def __init__(self, plan: Plan, positions: dict[int, int], ends: dict[int, int]) -> None:
        self._plan = plan
        self._from = sum(positions.values())
        self._total = sum(ends.values()) - self._from
        self._bar: Any = None

    def __enter__(self) -> CopyBar:
        if sys.stderr.isatty():
            from rich.console import Console
            from rich.progress import Progress as Bar

            self._bar = Bar(console=Console(stderr=True))
            self._bar.add_task(f"{self._plan.source} to {self._plan.target}", total=self._total)
            self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    def show(self, positions: dict[int, int]) -> None:
        """Show how far the copy is."""
        if self._bar is not None:
            self._bar.update(self._bar.task_ids[0], completed=sum(positions.values()) - self._from)
