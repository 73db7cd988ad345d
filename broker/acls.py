"""Create, find and delete ACLs while the broker runs.

    create, delete    recorded, in force ── durable ── answer

An ACL is a record of the metadata log. It is in force, and one that is deleted is no longer, in the
turn of the loop that writes its record: before the answer, for every connection. A crash before the
record is durable may undo a change of which no client has heard.

An ACL that exists is created again without a record; the answer still waits until the first record
is durable. The broker writes and compares many ACLs in several turns of the loop.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Generator, Sequence

from broker.metadata.controller import Controller
from broker.metadata.topic_rules import check_record_total
from broker.metadata_changes import MetadataChanges
from broker.runtime.clock import Clock
from broker.runtime.log_lines import RateLimiter
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
        clock: Clock,
        random_bytes: Callable[[int], bytes],
    ) -> None:
        self._controller = controller
        self._changes = changes
        self._authorizer = authorizer
        self._clock = clock
        self._random_bytes = random_bytes
        self._warnings = RateLimiter(clock, WARNINGS_PER_SECOND_MAX)
        # Codes of a newer Kafka are all UNKNOWN here, so ACLs may seem equal.
        self._ids: dict[AclEntry, list[bytes]] = {}
        controller.image.acls.listen(self._apply)

    def _apply(self, record: AccessControlEntryRecord, is_added: bool) -> None:  # noqa: FBT001
        entry = entry_of(record)
        if is_added:
            self._ids.setdefault(entry, []).append(bytes(record.id))
            self._authorizer.add(entry)
            return
        ids = self._ids[entry]
        ids.remove(bytes(record.id))
        if not ids:
            del self._ids[entry]
            self._authorizer.remove(entry)

    def __contains__(self, entry: AclEntry) -> bool:
        """Return whether this ACL exists."""
        return entry in self._ids

    async def create(self, entries: Collection[AclEntry], by: str) -> None:
        """Create ACLs that were checked, and return when all are durable; `by` goes into the log.

        Those that exist stay, and this waits for their records, too. Raises TopicError if they are
        too many or their records do not get durable, LogFailed.
        """
        check_record_total(len(entries))
        new = [entry for entry in entries if entry not in self._ids]
        for some in _pieces(new):
            records = [self._record(entry) for entry in some if entry not in self._ids]
            if records:
                self._controller.metadata_log.append(records, self._clock.now_ms())
            for entry in some:
                self._warn(entry)
            await asyncio.sleep(0)
        _log("created", new, by)
        await self._durable()

    async def delete(self, entries: Collection[AclEntry], by: str) -> None:
        """Delete ACLs, and return when that is durable. Raises as `create` does."""
        gone = [entry for entry in entries if entry in self._ids]
        for some in _pieces(gone):
            ids = [acl_id for entry in some for acl_id in self._ids.get(entry, ())]
            records = [RemoveAccessControlEntryRecord(id=acl_id) for acl_id in ids]
            if records:
                self._controller.metadata_log.append(records, self._clock.now_ms())
            await asyncio.sleep(0)
        _log("deleted", gone, by)
        await self._durable()

    def find(self, wanted: AclFilter) -> Generator[int, None, list[AclEntry]]:
        """Return the ACLs that `wanted` matches, in steps."""
        found = []
        for number, entry in enumerate(self._authorizer.candidates(wanted)):
            if number % COMPARED_PER_TURN == COMPARED_PER_TURN - 1:
                yield 0
            if wanted.matches(entry):
                found.append(entry)
        return found

    async def _durable(self) -> None:
        end_offset = self._controller.metadata_log.end_offset
        await self._changes.carry_through(self._changes.durable(end_offset))

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
            logger.warning("an ACL was created that never has an effect: %s. %s", reason, entry)


def entry_of(record: AccessControlEntryRecord) -> AclEntry:
    """Return the ACL of a record; a code that is unknown here becomes UNKNOWN."""
    return AclEntry(
        ResourceType(record.resource_type),
        record.resource_name,
        PatternType(record.pattern_type),
        record.principal,
        record.host,
        AclOperation(record.operation),
        PermissionType(record.permission_type),
    )


def _pieces(entries: Sequence[AclEntry]) -> list[Sequence[AclEntry]]:
    starts = range(0, len(entries), CHANGED_PER_TURN)
    return [entries[start : start + CHANGED_PER_TURN] for start in starts]


def _log(verb: str, entries: Sequence[AclEntry], by: str) -> None:
    if entries:
        named = ", ".join(map(str, entries[:NAMED_MAX]))
        more = f" and {len(entries) - NAMED_MAX} more" if len(entries) > NAMED_MAX else ""
        logger.info("%s %s %s%s", by, verb, named, more)
