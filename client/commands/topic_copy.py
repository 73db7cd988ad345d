"""`barnabas topics copy`: all records of a topic, with keys, headers, timestamps and partitions.

Records and the position reached in the source are written to the target's broker in one
transaction: the position as a commit of a group that has the name of the copy, for the partitions
of the target. So whatever ends a copy, the next one continues where it stopped, and each record is
in the target once for readers of committed records.

A copy ends at the ends that the source had when it began, or at the first open transaction.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import click

from client.addresses import Address
from client.commands.careful_command import CarefulCommand
from client.commands.completing import topic_names
from client.commands.output import (
    broker_options,
    connect,
    fail,
    in_its_dialect,
    refusing,
    show_json,
)
from client.commands.running import run_to_end
from client.places import Place

if TYPE_CHECKING:
    from client.kafka.connection import Connection
    from client.msgpack.async_transactional_producer import AsyncTransactionalProducer
    from client.msgpack.consumer import Consumer

TIMESTAMP_TYPE: Final = "message.timestamp.type"  # by LogAppendTime, times would not be kept


class Plan(NamedTuple):
    """A copy: its topics, its name, and the next offset of each partition that was reached."""

    source: str
    target: str
    name: str
    reached: dict[int, int]


class Topic(NamedTuple):
    """A topic to copy: its cluster, its number of partitions, and its own settings."""

    cluster_id: str
    partition_count: int
    configs: dict[str, str]


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
    count = len(admin.topics(connection, [name])[0].partitions)
    configs = {
        one.name: one.value or ""
        for one in describe(connection, [resource])[resource]
        if was_set(resource, one) and one.name != TIMESTAMP_TYPE
    }
    return Topic(admin.cluster(connection).cluster_id or "", count, configs)


def _plan(connection: Connection, topic: Topic, source: str, target: str, *, append: bool) -> Plan:
    """Create the target, or check it. Raises BrokerError; exits if it must not be written to."""
    from client.codes import code_text
    from client.kafka import admin, groups
    from protocol.errors import ErrorCode

    found = admin.cluster(connection)
    name = f"barnabas-copy.{topic.cluster_id}.{source}.{target}"
    if found.cluster_id == topic.cluster_id and source == target:
        fail(f"topic {source!r} cannot be copied to itself: name another topic, or another broker")
    existing = next((one for one in found.topics if one.name == target), None)
    if existing is None:
        made = admin.create_topic(
            connection, target, partition_count=topic.partition_count, replication_factor=-1,
            configs=topic.configs, validate_only=False,
        )  # fmt: skip
        if made.error_code not in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
            why = code_text(made.error_code, made.error_message)
            fail(f"topic {target!r} was not created: {why}")
        return Plan(source, target, name, {})
    if len(existing.partitions) < topic.partition_count:
        fail(
            f"topic {target!r} has {len(existing.partitions)} partitions, {source!r} has"
            f" {topic.partition_count}, and a copy keeps them: add partitions (topics alter), or"
            " name another topic"
        )
    committed = groups.committed(connection, name)
    reached = {place.partition: at for place, at in committed.items() if place.topic == target}
    ends = admin.offsets(connection, {target: list(range(topic.partition_count))}, admin.LATEST)
    if not reached and not append and any(end > 0 for end, *_ in ends.values()):
        fail(
            f"topic {target!r} has records, and none of an earlier copy of {source!r}: pass"
            " --append to copy behind them, or name another topic"
        )
    return Plan(source, target, name, reached)


async def _run(here: str, there: str, plan: Plan, timeout_s: float, *, as_json: bool) -> None:
    from client.msgpack.async_transactional_producer import AsyncTransactionalProducer
    from client.msgpack.consumer import Consumer
    from client.transactions.errors import TransactionError
    from client.transactions.transaction_settings import TransactionSettings

    consumer = Consumer(here, plan.source, timeout_s=timeout_s, committed_only=True)
    settings = TransactionSettings(answer_s=timeout_s)
    producer = AsyncTransactionalProducer(there, plan.name, settings)
    try:
        async with consumer, producer:
            count = await _copy(consumer, producer, plan)
    except TransactionError as error:
        fail(f"{error}.", "What was copied stays. Run the command again to continue.")
    if as_json:
        said: dict[str, Any] = {"source": plan.source, "target": plan.target, "copied": count}
        show_json(said | {"continued": bool(plan.reached)})
        return
    again = ", behind those of an earlier copy" if plan.reached else ""
    noun = "record" if count == 1 else "records"
    click.echo(f"Copied {count} {noun} of {plan.source} to {plan.target}{again}.")


async def _copy(consumer: Consumer, producer: AsyncTransactionalProducer, plan: Plan) -> int:
    """Copy up to the present ends; return how many records were committed."""
    ends = await consumer.end_offsets()
    for partition, start in list(consumer.positions.items()):
        at = plan.reached.get(partition, start)
        if at < start:
            click.echo(
                f"{plan.source}-{partition}: the records from offset {at} to {start} were deleted"
                " before they were copied",
                err=True,
            )
        consumer.seek(partition, max(at, start))
    count = 0
    with CopyBar(plan, consumer.positions, ends) as progress:
        while unread := [one for one, at in consumer.positions.items() if at < ends[one]]:
            records = await consumer.poll(partitions=unread)
            if not records:
                continue
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
                reached = {
                    Place(plan.target, partition): consumer.positions[partition]
                    for partition in {one.partition for one in records}
                }
                await producer.send_offsets(plan.name, reached)
            count += len(records)
            progress.show(consumer.positions)
    return count


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
