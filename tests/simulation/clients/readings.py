"""What a fetcher reads, and a fetch of it on its way."""

from __future__ import annotations

from dataclasses import dataclass

from tests.simulation.clients.topics import Topic
from tests.simulation.world import Waiter
from tests.support.history_checker import Key


@dataclass(slots=True, eq=False)
class Reading:
    """A partition that is read, and from where."""

    topic: Topic
    partition: int
    key: Key
    topic_id: bytes
    position: int = 0
    seeks: bool = True
    epoch: int = -1  # of the last batch that was read


@dataclass(slots=True, eq=False)
class Asking:
    """A fetch on its way: what was asked, with the position of each partition."""

    waiter: Waiter
    version: int
    asked: list[tuple[Reading, int]]
    began_ns: int
    max_bytes: int
    partition_bytes: int
    is_in_session: bool  # in one that there cannot be
    wrong_epoch: int  # of the leader; -1: none
    connection_process: int
    begins_session: bool = False
    is_raw: bool = True
    is_committed: bool = False  # records of transactions that are open or aborted do not count
    wait_ms: int = 0  # for any byte; 0: it does not wait, or for more
