"""`barnabas transactions`: list, describe and abort transactions, and find those that hang."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from client.commands.careful_command import CarefulGroup
from client.commands.output import (
    DRY_RUN,
    broker_options,
    connect,
    fail,
    refusing,
    show_json,
    show_table,
)

if TYPE_CHECKING:
    from client.kafka.connection import Connection
    from client.kafka.transactions import OpenTransaction
    from protocol.messages.describe_transactions import TransactionState

REASONS = {
    "client": "by its producer",
    "timeout": "because it was open for longer than its timeout",
    "fenced": "because a newer producer took over the id",
    "operator": "by an operator",
    "recovered": "as a broker that crashed had decided",
}


@click.group(cls=CarefulGroup)
def transactions() -> None:
    """List, describe and abort transactions, and find those that hang."""


@transactions.command("list")
@click.option("--state", "states", metavar="STATE", multiple=True, help="Repeatable.")
@click.option("--producer-id", "producer_ids", metavar="N", type=int, multiple=True,
              help="Repeatable.")  # fmt: skip
@click.option("--pattern", metavar="REGEX", help="Ids that match the expression as a whole (RE2).")
@click.option("--open-for", metavar="DURATION", help="Open for longer than 90s, 15m, 2h, 7d.")
@click.option(
    "--blocking", "topics", metavar="TOPIC[:N,N...]", multiple=True,
    help="Instead, show what is open in TOPIC and holds back its readers; repeatable.",
)  # fmt: skip
@broker_options
@refusing
def list_transactions(
    *,
    states: tuple[str, ...],
    producer_ids: tuple[int, ...],
    pattern: str | None,
    open_for: str | None,
    topics: tuple[str, ...],
    bootstrap: str,
    timeout_s: float,
    as_json: bool,
) -> None:
    """List the transactional ids, with their states and producer ids.

    With --blocking, list the transactions that are open in a topic, the oldest of each partition
    first: the partition's last stable offset (LSO), up to which consumers with read_committed
    read, is its first offset.
    """
    from client.commands.times import parse_duration
    from client.kafka import transactions as admin

    if topics:
        if states or producer_ids or pattern is not None or open_for is not None:
            raise click.UsageError("--blocking takes no other filter.")
        _show_blocking(topics, bootstrap, timeout_s, as_json=as_json)
        return
    open_for_ms = -1 if open_for is None else parse_duration(open_for)
    with connect(bootstrap, timeout_s) as connection:
        found = admin.list_transactions(
            connection,
            states=states,
            producer_ids=producer_ids,
            pattern=pattern,
            open_for_ms=open_for_ms,
        )
    if as_json:
        show_json(
            [
                {
                    "transactional_id": one.transactional_id,
                    "state": one.state,
                    "producer_id": one.producer_id,
                }
                for one in found
            ]
        )
        return
    show_table(
        ["Transactional id", "State", "Producer id"],
        [[one.transactional_id, one.state, one.producer_id] for one in found],
    )


def _show_blocking(
    topics: tuple[str, ...], bootstrap: str, timeout_s: float, *, as_json: bool
) -> None:
    from client.commands.times import time_text
    from client.kafka import admin
    from client.kafka import transactions as kafka

    with connect(bootstrap, timeout_s) as connection:
        asked = _partitions(connection, topics)
        opened = kafka.open_in(connection, asked)
        stable = kafka.stable_offsets(connection, asked)
        ends = admin.offsets(connection, asked, admin.LATEST)
        ids = _ids(connection, opened)
    rows: list[dict[str, Any]] = [
        {
            "topic": one.place.topic,
            "partition": one.place.partition,
            "last_stable_offset": stable[one.place],
            "end": ends[one.place][0],
            "first_offset": one.first_offset,
            "transactional_id": ids.get(one.producer_id),
            "producer_id": one.producer_id,
            "last_write_ms": one.last_ms,
        }
        for one in opened
    ]
    if as_json:
        show_json(rows)
    elif rows:
        show_table(
            ["Topic", "Partition", "LSO", "End", "First offset", "Transactional id", "Producer id",
             "Last write"],
            [[*list(row.values())[:-1], time_text(row["last_write_ms"])] for row in rows],
        )  # fmt: skip
    else:
        click.echo("Nothing is open there.")


def _partitions(connection: Connection, texts: tuple[str, ...]) -> dict[str, list[int]]:
    """Return the partitions that TOPIC and TOPIC:0,2 name; of all topics if there are none."""
    from client.kafka import admin
    from client.kafka.connection import BrokerError
    from client.kafka.resets import parse_topics

    try:
        wanted = parse_topics(texts)
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    found = {}
    for topic in admin.topics(connection, list(wanted)):
        name = topic.name or ""
        count = len(topic.partitions)
        found[name] = wanted.get(name) or list(range(count))
        if beyond := [number for number in found[name] if number >= count]:
            raise BrokerError(f"topic {name!r} has partitions 0 to {count - 1}, not {beyond[0]}")
    return found


def _ids(connection: Connection, opened: list[OpenTransaction]) -> dict[int, str]:
    """Return the transactional ids by producer id."""
    from client.kafka import transactions as admin

    producer_ids = sorted({one.producer_id for one in opened})
    if not producer_ids:
        return {}
    found = admin.list_transactions(connection, producer_ids=producer_ids)
    return {one.producer_id: one.transactional_id for one in found}


@transactions.command()
@click.argument("names", metavar="ID...", nargs=-1, required=True)
@broker_options
@refusing
def describe(names: tuple[str, ...], *, bootstrap: str, timeout_s: float, as_json: bool) -> None:
    """Show transactional ids: state, producer, what is open, and how the last one ended.

    Why it ended is told by Barnabas only, and forgotten when it restarts.
    """
    from client.kafka import transactions as admin

    with connect(bootstrap, timeout_s) as connection:
        found = [_row(admin.describe(connection, name)) for name in names]
    if as_json:
        show_json(found)
        return
    for number, row in enumerate(found):
        if number:
            click.echo()
        _show_description(row)


def _row(state: TransactionState, *, wall_ns: Callable[[], int] = time.time_ns) -> dict[str, Any]:
    from client.kafka.transactions import is_open

    # After its end, Kafka still tells when the last transaction began.
    start_ms = state.transaction_start_time_ms if is_open(state.transaction_state) else -1
    ended = state.last_end
    return {
        "transactional_id": state.transactional_id,
        "state": state.transaction_state,
        "producer_id": state.producer_id,
        "producer_epoch": state.producer_epoch,
        "timeout_ms": state.transaction_timeout_ms,
        "start_ms": None if start_ms < 0 else start_ms,
        "open_for_ms": None if start_ms < 0 else max(0, wall_ns() // 1_000_000 - start_ms),
        "partitions": sorted(
            [topic.topic, number] for topic in state.topics for number in topic.partitions
        ),
        "last_end": None
        if ended is None
        else {
            "outcome": "committed" if ended.committed else "aborted",
            "reason": ended.reason,
            "time_ms": ended.time_ms,
        },
    }


def _show_description(row: dict[str, Any]) -> None:
    from client.commands.times import time_text

    click.echo(
        f"Transactional id: {row['transactional_id']}  State: {row['state']}  "
        f"Producer id: {row['producer_id']}  Epoch: {row['producer_epoch']}  "
        f"Timeout: {row['timeout_ms'] / 1000:g} s"
    )
    if row["start_ms"] is not None:
        click.echo(
            f"Open since: {time_text(row['start_ms'])}, for {row['open_for_ms'] / 1000:.1f} s"
        )
    if row["partitions"]:
        held = " ".join(f"{topic}-{number}" for topic, number in row["partitions"])
        click.echo(f"Partitions: {held}")
    if row["last_end"] is not None:
        ended = row["last_end"]
        why = REASONS.get(ended["reason"], f"({ended['reason']})")
        click.echo(f"Last one: {ended['outcome']} at {time_text(ended['time_ms'])} {why}")


@transactions.command()
@click.argument("name", metavar="ID")
@click.option("--yes", is_flag=True, help="Abort without asking.")
@DRY_RUN
@broker_options
@refusing
def abort(
    name: str, *, yes: bool, dry_run: bool, bootstrap: str, timeout_s: float, as_json: bool
) -> None:
    """Abort the open transaction of ID in all of its partitions, and fence its producer.

    The coordinator does it, so that no part of the transaction is committed. Shows the transaction
    and asks first. Where there is no terminal, pass --yes.
    """
    from client.kafka import transactions as admin

    with connect(bootstrap, timeout_s) as connection:
        state = admin.describe(connection, name)
        if not admin.is_open(state.transaction_state):
            fail(
                f"transactional id {name!r} is {state.transaction_state}: it has no open "
                "transaction. Nothing was changed."
            )
        row = _row(state)
        if not as_json:
            _show_description(row)
        if not dry_run:
            _confirm(yes=yes, as_json=as_json)
            row["producer_epoch"] = admin.abort(
                connection, name, state.transaction_timeout_ms
            ).producer_epoch
            row["state"] = admin.describe(connection, name).transaction_state
    if as_json:
        show_json({**row, "aborted": not dry_run})
    elif dry_run:
        click.echo(f"Would abort the transaction of {name}.")
    else:
        click.echo(f"Aborted the transaction of {name}; its producer is fenced.")


def _confirm(*, yes: bool, as_json: bool) -> None:
    """Ask. Raises click.UsageError if it cannot, click.Abort if the answer is no."""
    if yes:
        return
    if as_json or not sys.stdin.isatty():
        raise click.UsageError("Not a terminal; pass --yes to abort, or --dry-run.")
    click.confirm("Abort this transaction? What it wrote will never be seen", abort=True)


@transactions.command("find-hanging")
@click.option(
    "--topic", "topics", metavar="TOPIC[:N,N...]", multiple=True,
    help="Look there only; repeatable [default: in all topics].",
)  # fmt: skip
@click.option(
    "--older-than", metavar="DURATION", default="15m", show_default=True,
    help="Without a write for longer than 90s, 15m, 2h, 7d.",
)  # fmt: skip
@broker_options
@refusing
def find_hanging(
    *,
    topics: tuple[str, ...],
    older_than: str,
    bootstrap: str,
    timeout_s: float,
    as_json: bool,
    wall_ns: Callable[[], int] = time.time_ns,
) -> None:
    """Find transactions that are open in a partition, and that no coordinator will ever end.

    They hold back all consumers with read_committed. Barnabas leaves none behind, and heals those
    it finds in the directory of another broker where it can tell their outcome; the others are
    shown here.

    Exit code: 0 there are none; 1 some were found, or the broker cannot be reached.
    """
    from client.commands.times import parse_duration, time_text
    from client.kafka import transactions as admin

    older_than_ms = wall_ns() // 1_000_000 - parse_duration(older_than)
    with connect(bootstrap, timeout_s) as connection:
        found = admin.find_hanging(connection, _partitions(connection, topics), older_than_ms)
    rows: list[dict[str, Any]] = [
        {
            "topic": one.transaction.place.topic,
            "partition": one.transaction.place.partition,
            "first_offset": one.transaction.first_offset,
            "producer_id": one.transaction.producer_id,
            "producer_epoch": one.transaction.producer_epoch,
            "transactional_id": one.transactional_id,
            "last_write_ms": one.transaction.last_ms,
            "why": one.why,
        }
        for one in found
    ]
    if as_json:
        show_json(rows)
    elif rows:
        show_table(
            ["Topic", "Partition", "First offset", "Producer id", "Epoch", "Transactional id",
             "Last write", "Why it hangs"],
            [
                [*list(row.values())[:-2], time_text(row["last_write_ms"]), row["why"]]
                for row in rows
            ],
        )  # fmt: skip
    else:
        click.echo("No transaction hangs.")
    if rows:
        sys.exit(1)
