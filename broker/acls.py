"""Create, find and delete ACLs while the broker runs.

    create, delete    recorded ── in force ── durable ── answer

An ACL is a record of the metadata log. All ACLs of a request are one batch of records, as in Kafka:
a crash leaves all of them or none, and one before the batch is durable may undo a change of which
no client has heard.

A change is in force before the answer, for every connection. Up to 200 ACLs are, in the turn of the
loop that writes their records. More take effect in the turns after it, in the order of the records:
those that deny come before those that allow, and go after them, so no client may do meanwhile what
it may do neither before nor afterwards. Threads encode so many; other changes wait meanwhile, so
each request finds all of another's or nothing.

An ACL that exists is created again without a record; the answer still waits until the first record
is durable.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Collection, Generator, Iterable, Sequence
from functools import partial
from typing import Any

from broker.metadata.acl_image import AclImage
from broker.metadata.controller import Controller
from broker.metadata.metadata_log import encode_batch
from broker.metadata.topic_rules import check_record_total
from broker.metadata_changes import MetadataChanges
from broker.runtime.blocking_pool import BlockingPool
from broker.runtime.clock import Clock
from broker.runtime.log_lines import RateLimiter
from broker.runtime.turns import InTurns
from broker.security.acl.acl_codes import (
    AclOperation,
    PatternType,
    PermissionType,
    ResourceType,
)
from broker.security.acl.acl_entry import AclEntry
from broker.security.acl.acl_filter import AclFilter
from broker.security.acl.authorizer import Authorizer
from broker.security.acl.never_matches import never_matches
from protocol.acl_records import AccessControlEntryRecord, RemoveAccessControlEntryRecord

logger = logging.getLogger("barnabas.authorizer")

_Change = tuple[AclEntry, bool]  # whether it is created
_Planned = tuple[
    list[AccessControlEntryRecord], bytearray, AclImage, dict[AclEntry, list[bytes]]
]  # with ids

CHANGED_PER_TURN = 200
COMPARED_PER_TURN = 1_000
WARNINGS_PER_SECOND_MAX = 10
NAMED_MAX = 3  # ACLs in one line of the log


class Acls:
    """The ACLs of the metadata log, which the authorizer obeys."""

    def __init__(
        self,
        controller: Controller,
        changes: MetadataChanges,
        authorizer: Authorizer,
        pool: BlockingPool,
        clock: Clock,
        random_bytes: Callable[[int], bytes],
    ) -> None:
        self._controller = controller
        self._changes = changes
        self._authorizer = authorizer
        self._pool = pool
        self._clock = clock
        self._random_bytes = random_bytes
        self._warnings = RateLimiter(clock, WARNINGS_PER_SECOND_MAX)
        self._planning = asyncio.Lock()  # from the look at what exists until it is recorded
        # Codes of a newer Kafka are all UNKNOWN here, so ACLs may seem equal.
        self._ids: dict[AclEntry, list[bytes]] = {}
        self._recorded: deque[_Change] = deque()  # and not in force yet; requests wait for them
        self._in_force_count = 0  # of those that have been in it
        controller.image.acls.listen(self._apply)

    def _apply(self, record: AccessControlEntryRecord, is_added: bool) -> None:  # noqa: FBT001
        entry = entry_of(record)
        if is_added:
            self._ids.setdefault(entry, []).append(bytes(record.id))
        else:
            ids = self._ids[entry]
            ids.remove(bytes(record.id))
            if ids:
                return
            del self._ids[entry]
        if self._recorded:
            self._recorded.append((entry, is_added))
        else:
            self._put_in_force(entry, is_added)

    def _put_in_force(self, entry: AclEntry, is_added: bool) -> None:  # noqa: FBT001
        if is_added:
            self._authorizer.add(entry)
        else:
            self._authorizer.remove(entry)

    def __contains__(self, entry: AclEntry) -> bool:
        """Return whether this ACL exists."""
        return entry in self._ids

    async def create(self, entries: Collection[AclEntry], by: str) -> None:
        """Create ACLs that were checked, and return when all are durable; `by` goes into the log.

        Those that exist stay, and this waits for their records, too. Raises TopicError if they are
        too many, too large, or their records do not get durable, LogFailed.
        """
        check_record_total(len(entries))
        async with self._planning:
            new = sorted((entry for entry in entries if entry not in self._ids), key=_is_allow)
            if len(new) <= CHANGED_PER_TURN:
                self._write(self._records(new))
            else:
                records, batch, image, ids = await self._pool.run(partial(self._planned, new))
                self._write(records, batch, partial(self._add_many, image, ids))
        _log("created", new, by)
        await self._carry_through(new)

    async def delete(self, entries: Collection[AclEntry], by: str) -> None:
        """Delete ACLs, and return when that is durable. Raises as `create` does."""
        async with self._planning:
            gone = [entry for entry in entries if entry in self._ids]
            gone.sort(key=_is_allow, reverse=True)
            ids = [acl_id for entry in gone for acl_id in self._ids[entry]]
            records = [RemoveAccessControlEntryRecord(id=acl_id) for acl_id in ids]
            if len(ids) <= CHANGED_PER_TURN:
                self._write(records)
            else:
                batch = await self._pool.run(partial(encode_batch, records, self._clock.now_ms()))
                self._write(records, batch, partial(self._remove_many, gone, ids))
        _log("deleted", gone, by)
        await self._carry_through(())

    def _records(self, entries: Iterable[AclEntry]) -> list[AccessControlEntryRecord]:
        return [self._record(entry) for entry in entries]

    def _planned(self, new: Sequence[AclEntry]) -> _Planned:
        """Return what creates these ACLs. For a thread."""
        records = self._records(new)
        ids = {entry: [bytes(record.id)] for entry, record in zip(new, records, strict=True)}
        return records, encode_batch(records, self._clock.now_ms()), AclImage(records), ids

    def _add_many(self, image: AclImage, ids: dict[AclEntry, list[bytes]]) -> None:
        self._controller.image.acls.add_many(image)
        self._ids.update(ids)
        self._recorded.extend((entry, True) for entry in ids)

    def _remove_many(self, gone: Sequence[AclEntry], ids: Sequence[bytes]) -> None:
        self._controller.image.acls.remove_many(ids)
        for entry in gone:
            self._ids.pop(entry, None)
        self._recorded.extend((entry, False) for entry in gone)

    def _write(
        self,
        records: Sequence[Any],
        batch: bytearray | None = None,
        apply: Callable[[], None] | None = None,
    ) -> None:
        if records:
            now_ms = self._clock.now_ms()
            self._controller.metadata_log.append(records, now_ms, batch, apply=apply)

    async def _carry_through(self, created: Sequence[AclEntry]) -> None:
        end_offset = self._controller.metadata_log.end_offset
        await self._changes.carry_through(self._finish(created, end_offset))

    async def _finish(self, created: Sequence[AclEntry], end_offset: int) -> None:
        """Put what is recorded in force, and return when it is durable."""
        while self._recorded:
            for _ in range(min(CHANGED_PER_TURN, len(self._recorded))):
                self._put_in_force(*self._recorded.popleft())
                self._in_force_count += 1
            await asyncio.sleep(0)
        async for entry in InTurns(created, CHANGED_PER_TURN):
            self._warn(entry)
        await self._changes.durable(end_offset)

    def find(self, wanted: AclFilter) -> Generator[int, None, list[AclEntry]]:
        """Return the ACLs that `wanted` matches, in steps; those that are recorded now count."""
        recorded_count = self._in_force_count + len(self._recorded)
        while self._in_force_count < recorded_count:
            yield 0
        found = []
        for number, entry in enumerate(self._authorizer.candidates(wanted)):
            if number % COMPARED_PER_TURN == COMPARED_PER_TURN - 1:
                yield 0
            if wanted.matches(entry):
                found.append(entry)
        return found

    def _record(self, entry: AclEntry) -> AccessControlEntryRecord:
        return AccessControlEntryRecord(
            id=self._random_bytes(16),
            resource_type=entry.resource_type,
            resource_name=entry.name,
            pattern_type=entry.pattern,
            principal=entry.principal,
            host=entry.host,
            operation=entry.operation,
            permission_type=entry.permission,
        )

    def _warn(self, entry: AclEntry) -> None:
        reason = never_matches(entry)
        if reason and self._warnings.allow() is not None:
            logger.warning(
                "an ACL was created that never has an effect: %(reason)s. %(entry)s",
                {"reason": reason, "entry": entry},
            )


def entry_of(record: AccessControlEntryRecord) -> AclEntry:
    """Return the ACL of a record; a code that is unknown here becomes UNKNOWN."""
    return AclEntry(
        ResourceType.of(record.resource_type),
        record.resource_name,
        PatternType.of(record.pattern_type),
        record.principal,
        record.host,
        AclOperation.of(record.operation),
        PermissionType.of(record.permission_type),
    )


def _is_allow(entry: AclEntry) -> bool:
    return entry.is_allow


def _log(verb: str, entries: Sequence[AclEntry], by: str) -> None:
    if entries:
        named = ", ".join(map(str, entries[:NAMED_MAX]))
        more = f" and {len(entries) - NAMED_MAX} more" if len(entries) > NAMED_MAX else ""
        logger.info(
            "%(by)s %(verb)s %(named)s%(note)s",
            {"by": by, "verb": verb, "named": named, "note": more},
        )
