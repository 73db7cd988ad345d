"""A transactional id as its producer holds it: its epoch now, and what a refusal of it means.

When the broker refuses the epoch, two things may have happened, and `explained` tells them apart by
asking to go on in this epoch (KIP-360). Either the broker aborted the transaction, and answers with
an epoch in which the producer may continue; or a newer producer has the id, and this one is fenced
for good.

Apache Kafka does not look at the epoch of that question while a transaction is open, and aborts it,
whoever opened it. So the id is described first: a transaction that is open in another epoch is a
newer producer's. So is the id if an instance that has begun ended the transaction: until that one
has asked again, the broker would let this one go on.
"""

from __future__ import annotations

from client.codes import BrokerError
from client.kafka.patience import PatientConnection
from client.kafka.transaction_requests import initialize
from client.kafka.transactions import ONGOING, describe_once
from client.transactions.endings import FENCED, REPLACED, ended_by_broker, explained, fenced
from client.transactions.epoch import Epoch
from client.transactions.errors import ProducerFenced, RequestFailed
from protocol.messages.describe_transactions import LastEnd, TransactionState


class HeldId:
    """`must_reset`: the broker may have a transaction open, or another epoch than `epoch`.

    `timeout_ms` is how long the broker leaves a transaction open.
    """

    def __init__(
        self, broker: PatientConnection, transactional_id: str, timeout_ms: int, retry_s: float
    ) -> None:
        self.epoch = Epoch(transactional_id, -1, -1)
        self.timeout_ms = timeout_ms
        self.must_reset = False
        self._broker = broker
        self._retry_s = retry_s
        self._fenced: ProducerFenced | None = None

    @property
    def is_fenced(self) -> bool:
        """Whether a newer producer has the id."""
        return self._fenced is not None

    def initialize(self) -> None:
        """Get an epoch; at the start it fences every other producer. Raises BrokerError."""
        self.epoch = self._broker.repeat(
            lambda connection: initialize(connection, self.epoch, self.timeout_ms), self._retry_s
        )

    def prepare(self) -> None:
        """Make sure that nothing is open in this epoch. Raises ProducerFenced, BrokerError."""
        if self._fenced is not None:
            raise self._fenced
        if self.must_reset:
            self._reset()

    def _reset(self) -> LastEnd | None:
        """Go on in an epoch with nothing open; return how the last transaction ended, if told."""
        told = self._told()
        ended = told.last_end if told is not None else None
        if told is not None and self._is_anothers(told):
            self._fenced = fenced(self.epoch.transactional_id, ended)
            raise self._fenced
        try:
            self.initialize()
        except RequestFailed as error:
            if error.code in REPLACED:
                self._fenced = fenced(self.epoch.transactional_id, ended)
                raise self._fenced from error
            raise
        self.must_reset = False
        return ended

    def _is_anothers(self, told: TransactionState) -> bool:
        if (self.epoch.producer_id, self.epoch.producer_epoch) == (
            told.producer_id,
            told.producer_epoch,
        ):
            return False
        ended = told.last_end
        return told.transaction_state == ONGOING or (ended is not None and ended.reason == FENCED)

    def explained(
        self, error: BrokerError, open_s: float, *, of_commit: bool = False
    ) -> BrokerError:
        """Return what the failure of a request means, after `open_s` seconds of a transaction."""
        name = self.epoch.transactional_id
        found = explained(error, name, of_commit=of_commit)
        if found is not None:
            return found
        try:
            ended = self._reset()
        except ProducerFenced as replaced:
            return replaced
        except BrokerError:
            return error
        return ended_by_broker(name, ended, open_s, self.timeout_ms)

    def _told(self) -> TransactionState | None:
        name = self.epoch.transactional_id
        try:
            return self._broker.repeat(lambda connection: describe_once(connection, name), 0)
        except BrokerError:
            return None
