"""The newest lines of the broker's log."""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.console.answers import data_of_parts, packed
from broker.console.parameters import number_of
from broker.console.visitor import SEES_CLUSTER, Visitor
from broker.console.walks import Turns
from broker.http.http_messages import HttpAnswer, HttpRequest

if TYPE_CHECKING:
    from broker.console.console import Console


async def log(request: HttpRequest, visitor: Visitor, console: Console) -> HttpAnswer:
    """GET log?after=: the lines after that number, at most the last 1,000.

    Numbers begin again with the broker: `started_ms` tells which broker's they are.
    """
    visitor.must(SEES_CLUSTER)
    after = number_of(request, "after", 0)
    lines = console.surroundings.log_tail.after(after)
    turns, found = Turns(console.services.clock), []
    for line in lines:
        found.append(packed(line._asdict()))
        await turns.turn()
    started_ms = console.surroundings.pulse.started_ms
    return data_of_parts("lines", found, {"after": after, "started_ms": started_ms})
