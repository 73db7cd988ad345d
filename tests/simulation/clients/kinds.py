"""All kinds of clients that a plan may name."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, Final

from tests.simulation.clients import (
    admin,
    connection_stories,
    consumers,
    crash_stories,
    group_stories,
    groups,
    hand_markers,
    hostile,
    log_stories,
    login_changers,
    member_transactors,
    producers,
    quota_changers,
    rights_changers,
    transactors,
)

if TYPE_CHECKING:
    from tests.simulation.context import Context
    from tests.simulation.plan import ClientPlan

Run = Callable[["Context", "ClientPlan"], Coroutine[Any, Any, None]]

KINDS: Final[dict[str, Run]] = {
    **producers.KINDS,
    **consumers.KINDS,
    **groups.KINDS,
    **admin.KINDS,
    **hostile.KINDS,
    **transactors.KINDS,
    **member_transactors.KINDS,
    **hand_markers.KINDS,
    **rights_changers.KINDS,
    **login_changers.KINDS,
    **quota_changers.KINDS,
    **group_stories.KINDS,
    **log_stories.KINDS,
    **connection_stories.KINDS,
    **crash_stories.KINDS,
}
