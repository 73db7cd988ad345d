"""Lives: how one ends, what the next makes of it, and what is in effect while one serves.

marked     a broker that exits with 0 has left the mark of a clean stop on the disk
patient    one that was told twice to stop still waits for the disk
epochs     a start after an unclean end leads each partition in a later epoch than before: of
           two batches at one offset, the later epoch's counts
configs    each log has the configuration that the metadata log records for its topic
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from storage.files import filenames

if TYPE_CHECKING:
    from broker.server import Broker
    from tests.support.memory_inodes import Directory

FORCED: Final = 3  # signals after which a broker leaves at once
EXIT_FORCED: Final = 130


class Lives:
    """The lives of one history, one after the other."""

    def __init__(self) -> None:
        self._epochs: dict[tuple[bytes, int], int] = {}
        self._was_clean = True

    def serves(self, broker: Broker) -> list[str]:
        """Judge the epochs of a broker that has started."""
        now = _epochs(broker)
        found = []
        for key, (name, epoch) in sorted(now.items()):
            before = self._epochs.get(key, -1)
            if epoch < before or (epoch == before and not self._was_clean):
                ended = "a clean stop" if self._was_clean else "an unclean end"
                found.append(f"{name} has epoch {epoch} after {ended}, it had {before} before")
        self._note(broker)
        return found

    def has_served(self, broker: Broker) -> None:
        """Note the epochs at the end of a life, also of topics that it has made."""
        self._note(broker)

    def _note(self, broker: Broker) -> None:
        self._epochs |= {key: epoch for key, (_, epoch) in _epochs(broker).items()}

    def ended(
        self, how: str, code: int, signals: int, data: Directory, *, disk_answers: bool
    ) -> list[str]:
        """Judge how a life has ended; `signals` are those that it has got."""
        mark = filenames.CLEAN_SHUTDOWN
        # Also one whose name could not be synced: what it says was on the disk before it.
        self._was_clean = mark in data.live
        is_durable = self._was_clean and data.live[mark] is data.durable.get(mark)
        found = []
        if (how, code) == ("stopped", 0) and not is_durable:
            found.append("a broker exits with 0, and its clean mark is not on the disk")
        has_left = how == "left" or (how, code) == ("stopped", EXIT_FORCED)
        if has_left and disk_answers and signals < FORCED:
            found.append(f"the broker left with {code} after {signals} signals")
        return found


def _epochs(broker: Broker) -> dict[tuple[bytes, int], tuple[str, int]]:
    """Return the name and the epoch of each partition that is led, by topic id and number."""
    services = broker._assembly.services
    topics = services.controller.image.topics
    logs = [partition.log for partition in services.partitions.all()]
    return {
        (topics[log.topic].topic_id, log.partition): (
            filenames.partition_directory(log.topic, log.partition),
            log.leader_epoch,
        )
        for log in logs
        if log.topic in topics
    }


def in_effect(broker: Broker) -> Iterator[str]:
    """Compare the configuration of each log with what is recorded."""
    services = broker._assembly.services
    controller = services.controller
    for partition in services.partitions.all():
        log = partition.log
        topic = controller.image.topics.get(log.topic)
        if topic is not None and log.config != controller.topic_configs.of(topic):
            yield f"{log.topic}-{log.partition} goes by other configs than its topic's"
