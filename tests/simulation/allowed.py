"""What a history's plan, and what has happened in it, allow: for judges that look at the broker."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from tests.simulation.clients.topics import CUT, topics_of
from tests.simulation.judges import quiet
from tests.simulation.plan import PER_ADDRESS
from tests.support.history_checker import Key

if TYPE_CHECKING:
    from tests.simulation.context import Context

# Faults after which a broker may refuse to start, or stop without writing everything.
BAD_DISK: Final = frozenset({quiet.DISK, quiet.FULL, quiet.FLIP})

_UNSETTLED: Final = re.compile(r"/([^/ ]+) has markers of transactions from offset")


def unsettled(messages: Iterable[str]) -> set[str]:
    """Return the directories of logs whose stop has left markers to the next start."""
    return {found[1] for found in map(_UNSETTLED.search, messages) if found}


def kept_keys(context: Context) -> set[Key]:
    """Return the partitions that take every good batch, and lose none while the machine is well."""
    if any(fault.kind == "clock jump" for fault in context.plan.faults):
        return set()  # a good time becomes one that lies too far ahead
    return {
        topic.key(number)
        for topic in topics_of(context).values()
        if not (topic.is_trimmed or topic.is_compacted or topic.may_be_gone)
        and not (topic.is_limited or topic.is_timed)
        for number in range(topic.partition_count)
    }


def per_address(context: Context) -> dict[str, int]:
    """Return how many connections the local address may have, unless somebody changes that."""
    limit = context.plan.settings.get(PER_ADDRESS, "")
    if not limit or any(client.kind == "config admin" for client in context.plan.clients):
        return {}
    return {"127.0.0.1": int(limit.rpartition(":")[2])}


def trimmed_to(context: Context) -> dict[Key, int]:
    """Return how far logs may have lost their beginning whose records only requests delete."""
    is_ruled = context.plan.settings.get("log.retention.bytes", "-1") != "-1"
    if is_ruled or any(one.kind == "config admin" for one in context.plan.clients):
        return {}
    topics = [topic for name, topic in topics_of(context).items() if name in CUT]
    keys = [topic.key(number) for topic in topics for number in range(topic.partition_count)]
    return {key: max(context.record.trims.get(key, ()), default=0) for key in keys}


def bytes_min(context: Context) -> dict[str, int]:
    """Return what is left of each log that retention by size deletes, if nothing else may."""
    if context.power_cuts_ns or context.injected & BAD_DISK:
        return {}
    return {
        f"{topic.name}-{number}": int(topic.configs["retention.bytes"])
        for topic in topics_of(context).values()
        if topic.is_sized
        for number in range(topic.partition_count)
    }
