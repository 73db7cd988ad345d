"""An operator who writes markers by hand: WriteTxnMarkers, beside the coordinator.

Kafka's tool names a partition, and a producer that it found there. Here it is any producer of a
transactional id, with its epoch or one beside it, and some partitions of the ledgers, whether the
producer has anything open there or not. The judge of transactions knows what may come of it:
nothing is torn, and only its producer commits a transaction.
"""

from __future__ import annotations

from typing import Final

from protocol.errors import ErrorCode
from protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from tests.simulation.clients.client import Client, runs

VERSIONS: Final = (1, 2)
RECENT: Final = 3  # producers of a history, as many as a marker chooses from
PAUSES_MS: Final = (5, 50, 300)
SHIFTS: Final = (0, 0, 0, 0, -1, 1)  # of the epoch
COORDINATOR_EPOCHS: Final = (0, 0, -1)
EXPECTED: Final = frozenset(
    {
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.INVALID_TXN_STATE,
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.TRANSACTION_COORDINATOR_FENCED,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.REQUEST_TIMED_OUT,
    }
)


class HandMarker(Client):
    """See the module."""

    async def live(self) -> None:
        """Write markers now and then."""
        for _ in range(self.steps):
            await self.pause(*PAUSES_MS)
            if self.record.instances:
                await self.write()

    async def write(self) -> None:
        """Write the markers of one producer."""
        chance = self.chance
        one = chance.choice(self.record.instances[-RECENT:])
        ledgers = [
            topic for topic in self.topics.values() if topic.is_ledger and not topic.may_be_gone
        ]
        named = chance.sample(ledgers, chance.randint(1, len(ledgers)))
        marker = WritableTxnMarker(
            producer_id=one.producer_id,
            producer_epoch=max(one.epoch + chance.choice(SHIFTS), 0),
            transaction_result=chance.random() < 0.3,
            topics=[
                WritableTxnMarkerTopic(
                    name=topic.name, partition_indexes=[chance.randrange(topic.partition_count)]
                )
                for topic in named
            ],
            coordinator_epoch=chance.choice(COORDINATOR_EPOCHS),
            transaction_version=chance.choice((0, 1, 2)),
        )
        what = f"{marker.producer_id} {marker.producer_epoch} {marker.transaction_result}"
        body = WriteTxnMarkersRequest(markers=[marker])
        answer = await self.ask(body, chance.choice(VERSIONS), what)
        for told in answer.markers if answer is not None else ():
            for topic in told.topics:
                for part in topic.partitions:
                    self.note(f"marker in {topic.name}-{part.partition_index}: {part.error_code}")
                    if part.error_code not in EXPECTED:
                        self.record.fail(self.name, f"WriteTxnMarkers: code {part.error_code}")


KINDS: Final = {"marker": runs(HandMarker)}
