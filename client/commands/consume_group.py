"""`barnabas consume --group`: read as a member of a group, and commit what has been written.

Only records written to standard output are committed: about once a second, before a partition is
revoked, and at the end, also after Ctrl-C or SIGTERM. So after a crash a record may be written
twice, but none is skipped. Once all records of an answer are written, the position is committed,
which has passed markers of transactions and gaps, too: so a group that has read everything has no
lag.

A thread does the writing, so that a slow reader does not delay the heartbeats. It is abandoned if
the command is stopped while nobody reads its output.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final

import click

from client.commands.detached import detached
from client.commands.patient_poll import poll_patiently
from client.commands.written_records import Written
from client.msgpack.group_consumer import GroupConsumer, GroupSettings, RebalanceListener
from client.msgpack.group_offsets import CommitError
from client.msgpack.transport import RequestRefused, TransportError
from client.places import Place

COMMIT_S: Final = 1.0
STDOUT: Final = 1
RESETS: Final = {"beginning": "earliest", "end": "latest"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The options of the command; `start` is where to begin without a committed offset."""

    topic: str
    bootstrap: str
    timeout_s: float
    group_id: str
    instance_id: str | None
    start: str
    follow: bool
    count_max: int | None
    committed_only: bool = False


class WrittenOffsets(RebalanceListener):
    """How far each partition has been written, and its end when it was assigned."""

    def __init__(self) -> None:
        self.consumer: GroupConsumer | None = None
        self.ends: dict[Place, int] = {}
        self._written: dict[Place, int] = {}  # and not committed
        self._reached: dict[Place, int] = {}
        self._committed_s = 0.0

    async def on_assigned(self, places: Collection[Place]) -> None:
        """Ask for the current ends: without --follow, partitions are read up to these."""
        assert self.consumer is not None
        ends = await self.consumer.end_offsets()
        self.ends.update({place: ends[place] for place in places})

    async def on_revoked(self, places: Collection[Place]) -> None:
        """Commit while the partitions are still ours."""
        await self.commit_or_say()
        await self.on_lost(places)

    async def on_lost(self, places: Collection[Place]) -> None:
        """Forget the partitions: another member reads them now."""
        for place in places:
            self._written.pop(place, None)
            self._reached.pop(place, None)
            self.ends.pop(place, None)

    def wrote(self, behind: Mapping[Place, int]) -> None:
        """Note, by partition, the offset below which everything is written."""
        moved = {place: at for place, at in behind.items() if self._reached.get(place) != at}
        self._reached.update(moved)
        self._written.update(moved)

    async def commit(self) -> None:
        """Commit what was written since the last commit. Raises as GroupConsumer.commit."""
        assert self.consumer is not None
        if self._written:
            await self.consumer.commit(self._written)
            self._written.clear()

    async def commit_last(self) -> None:
        """Commit before leaving. Raises CommitError."""
        try:
            await self.commit()
        except (CommitError, TransportError, RequestRefused) as error:
            raise CommitError(
                f"the last records were written but not committed, and will be read again: {error}"
            ) from error

    async def commit_or_say(self) -> None:
        """Commit; report a failure, as it will be tried again."""
        self._committed_s = asyncio.get_running_loop().time()
        try:
            await self.commit()
        except (CommitError, TransportError, RequestRefused) as error:
            click.echo(f"Not committed yet: {error}", err=True)

    async def commit_if_due(self) -> None:
        """Commit if the last commit was `COMMIT_S` ago."""
        if asyncio.get_running_loop().time() >= self._committed_s + COMMIT_S:
            await self.commit_or_say()

    def is_at_end(self) -> bool:
        """Whether every assigned partition has been read to the end it had."""
        assert self.consumer is not None
        held = self.consumer.assignment
        return bool(held) and all(self.consumer.position(one) >= self.ends[one] for one in held)


async def read_group(options: Options, written: Written) -> None:
    """Join the group, write records until there are enough, commit and leave."""
    task = asyncio.current_task()
    assert task is not None
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    offsets = WrittenOffsets()
    settings = GroupSettings(
        group_id=options.group_id,
        instance_id=options.instance_id,
        auto_offset_reset=RESETS[options.start],
        committed_only=options.committed_only,
    )
    async with GroupConsumer(
        options.bootstrap,
        settings,
        listener=offsets,
        timeout_s=options.timeout_s,
    ) as consumer:
        offsets.consumer = consumer
        consumer.subscribe([options.topic])
        try:
            await _read(consumer, offsets, options, written)
        finally:
            await offsets.commit_last()


async def write(descriptor: int, data: bytes) -> None:
    """Write all of `data` without blocking the loop, however long it takes. Raises OSError."""

    def put() -> None:
        left = memoryview(data)
        while left:
            left = left[os.write(descriptor, left) :]

    await detached(put)


async def _read(
    consumer: GroupConsumer, offsets: WrittenOffsets, options: Options, written: Written
) -> None:
    left = options.count_max
    loop = asyncio.get_running_loop()
    until_s = loop.time() + options.timeout_s
    while left != 0:
        if not options.follow and offsets.is_at_end():
            return
        if not options.follow and not consumer.assignment and loop.time() > until_s:
            if consumer.heartbeat_failure is not None:
                raise consumer.heartbeat_failure
            click.echo(
                f"Group {options.group_id} assigned no partition of {options.topic} within "
                f"{options.timeout_s:g} s: other members have them all, or the topic does not "
                "exist. Use --follow to wait.",
                err=True,
            )
            return
        found = await (poll_patiently(consumer) if options.follow else consumer.poll())
        lines = []
        behind = consumer.positions()
        for place, record in found:
            if left != 0 and (options.follow or record.offset < offsets.ends[place]):
                lines.append(written.line(place.partition, record))
                left = None if left is None else left - 1
            else:
                behind[place] = min(behind[place], record.offset)
        if lines:
            await write(STDOUT, b"".join(lines))
        offsets.wrote(behind)
        await offsets.commit_if_due()
