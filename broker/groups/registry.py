"""The groups that the coordinator knows, by id, and what they have committed."""

from __future__ import annotations

from broker.groups.group import Group
from broker.groups.offsets import Offsets
from protocol.errors import ErrorCode


class Registry:
    """Groups of both kinds under their ids: an id names one group at a time."""

    def __init__(self) -> None:
        self.groups: dict[str, Group] = {}
        self.offsets = Offsets()

    def get(self, group_id: str) -> Group | None:
        """Return the group of that id."""
        return self.groups.get(group_id)

    def put(self, group: Group) -> None:
        """Make `group` the one of its id; whoever waited in the one before is its affair."""
        self.groups[group.group_id] = group

    def remove(self, group_id: str, code: ErrorCode) -> None:
        """Let a group end; whoever waits in it is answered `code`. Its offsets stay."""
        group = self.groups.pop(group_id, None)
        if group is not None:
            group.removed(code)
