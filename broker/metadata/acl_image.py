"""The ACLs that the metadata log describes, by id and by what they say.

Two ACLs never say the same. An id that comes twice, an ACL that comes twice, or the removal of an
unknown id raises `ImageError`, as in Kafka: the log is damaged or another program made it.

A listener hears of each change in the turn in which the image changes. So a change holds from its
record on, before it is durable and answered. Many at once are for the one that makes them, which
knows them: a listener would take too long for one turn.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from broker.metadata.image_error import ImageError
from protocol.acl_records import AccessControlEntryRecord, RemoveAccessControlEntryRecord

Says = tuple[int, str, int, str, str, int, int]
AclListener = Callable[[AccessControlEntryRecord, bool], None]


class AclImage:
    """Every ACL, as its record has it."""

    def __init__(self, entries: Iterable[AccessControlEntryRecord] = ()) -> None:
        self._entries: dict[bytes, AccessControlEntryRecord] = {}
        self._ids: dict[Says, bytes] = {}
        self._listeners: list[AclListener] = []
        for entry in entries:
            self._add(entry)

    def __len__(self) -> int:
        return len(self._entries)

    def listen(self, listener: AclListener) -> None:
        """Call `listener(record, is_added)` with each ACL that is there, and with each change."""
        for record in self._entries.values():
            listener(record, True)  # noqa: FBT003 - a listener's own signature
        self._listeners.append(listener)

    def id_of(self, record: AccessControlEntryRecord) -> bytes | None:
        """Return the id of the ACL that says the same as `record`, or None."""
        return self._ids.get(says(record))

    def apply(self, record: AccessControlEntryRecord | RemoveAccessControlEntryRecord) -> None:
        """Change the image as `record` says. Raises ImageError."""
        if isinstance(record, AccessControlEntryRecord):
            self._add(record)
            changed = record
        else:
            changed = self._remove(bytes(record.id))
        for listener in self._listeners:
            listener(changed, changed is record)

    def add_many(self, records: AclImage) -> None:
        """Add all ACLs of another image, some 1 µs each. No listener hears of them."""
        for what, known, new in (
            ("ids", self._entries, records._entries),
            ("contents", self._ids, records._ids),
        ):
            if not known.keys().isdisjoint(new):
                raise ImageError(f"of {len(new)} new ACLs some have {what} that others have")
        self._entries.update(records._entries)
        self._ids.update(records._ids)

    def remove_many(self, ids: Sequence[bytes]) -> None:
        """Remove the ACLs with these ids, some 1 µs each. No listener hears of it."""
        for acl_id in ids:
            self._remove(acl_id)

    def _add(self, record: AccessControlEntryRecord) -> None:
        acl_id, content = bytes(record.id), says(record)
        if acl_id in self._entries:
            raise ImageError(f"two ACLs have the id {acl_id.hex()}")
        if content in self._ids:
            raise ImageError(
                f"an ACL comes twice, with ids {self._ids[content].hex()} and {acl_id.hex()}"
            )
        self._entries[acl_id] = record
        self._ids[content] = acl_id

    def _remove(self, acl_id: bytes) -> AccessControlEntryRecord:
        record = self._entries.pop(acl_id, None)
        if record is None:
            raise ImageError(f"the ACL {acl_id.hex()} is removed, but does not exist")
        del self._ids[says(record)]
        return record

    def records(self) -> Iterator[AccessControlEntryRecord]:
        """Yield the records that make an empty image what this one is now."""
        yield from self._entries.values()

    def capture(self) -> AclImage:
        """Return a copy that another thread can read while this one changes; it tells nobody."""
        captured = AclImage()
        captured._entries = self._entries.copy()
        captured._ids = self._ids.copy()
        return captured


def says(record: AccessControlEntryRecord) -> Says:
    """Return what an ACL says: all but its id."""
    return (
        record.resource_type,
        record.resource_name,
        record.pattern_type,
        record.principal,
        record.host,
        record.operation,
        record.permission_type,
    )
