"""The groups of one shard by id, and their committed offsets."""

from __future__ import annotations

from broker.groups.group import Group
from broker.groups.offsets import Offsets
from protocol.errors import ErrorCode


class Registry:
    """Groups of both kinds by id: an id names one group at a time."""

    def __init__(self) -> None:
        self.groups: dict[str, Group] = {}
        self.offsets = Offsets()
        self.being_deleted: set[str] = set()  # ids of groups whose offsets are removed in turns

    def get(self, group_id: str) -> Group | None:
        """Return the group of that id."""
        return self.groups.get(group_id)

    def put(self, group: Group) -> None:
        """Register `group` under its id. Requests that wait in a predecessor keep waiting."""
        self.groups[group.group_id] = group

    def remove(self, group_id: str, code: ErrorCode) -> None:
        """Remove a group and answer its waiting requests with `code`. Its offsets stay."""
        group = self.groups.pop(group_id, None)
        if group is not None:
            group.removed(code)
