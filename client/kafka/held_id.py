"""A transactional id as its producer holds it: its epoch now, and what a refusal of it means.

When the broker refuses the epoch, two things may have happened, and `explained` tells them apart by
asking to go on in this epoch (KIP-360). Either the broker aborted the transaction, and answers with
an epoch in which the producer may continue; or a newer producer has the id, and this one is fenced
for good.
"""

from __future__ import annotations

from typing import Final

from client.kafka.connection import BrokerError
from client.kafka.patience import PatientConnection
from client.kafka.transaction_errors import (
    ProducerFenced,
    RequestFailed,
    TransactionAborted,
    TransactionError,
    TransactionTimedOut,
)
from client.kafka.transaction_requests import Epoch, initialize
from client.kafka.transactions import OPERATOR, TIMEOUT, last_end
from protocol.errors import ErrorCode
from protocol.messages.describe_transactions import LastEnd

_REPLACED: Final = (
    ErrorCode.INVALID_PRODUCER_EPOCH,
    ErrorCode.PRODUCER_FENCED,
    ErrorCode.INVALID_PRODUCER_ID_MAPPING,
)


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

    def _reset(self) -> None:
        try:
            self.initialize()
        except RequestFailed as error:
            if error.code in _REPLACED:
                self._fenced = _fenced(self.epoch.transactional_id, self._last_end())
                raise self._fenced from error
            raise
        self.must_reset = False

    def explained(
        self, error: BrokerError, open_s: float, *, of_commit: bool = False
    ) -> BrokerError:
        """Return what the failure of a request means, after `open_s` seconds of a transaction."""
        if not isinstance(error, RequestFailed):
            return error
        name = self.epoch.transactional_id
        if error.code == ErrorCode.TRANSACTION_ABORTABLE:
            return TransactionAborted(
                f"the transaction of {name!r} must be aborted: {error}", is_over=False
            )
        has_ended = of_commit and error.code == ErrorCode.INVALID_TXN_STATE
        if error.code not in _REPLACED and not has_ended:
            return error
        ended = self._last_end()
        try:
            self._reset()
        except ProducerFenced as fenced:
            return fenced
        except BrokerError:
            return error
        return self._ended_by_broker(ended, open_s)

    def _ended_by_broker(self, ended: LastEnd | None, open_s: float) -> TransactionError:
        """Return the error for a transaction that is over, after which the producer may go on."""
        name = self.epoch.transactional_id
        timeout_s = self.timeout_ms / 1000
        why = ended.reason if ended is not None else TIMEOUT if open_s >= timeout_s else ""
        if why == TIMEOUT:
            return TransactionTimedOut(
                f"the broker aborted the transaction of {name!r}: it was open for {open_s:.1f} s, "
                f"and its timeout is {timeout_s:g} s. Begin a new one; if it needs longer, raise "
                "timeout_ms."
            )
        said = "An operator ended it" if why == OPERATOR else "The broker does not say more"
        return TransactionAborted(
            f"the transaction of {name!r} was aborted after {open_s:.1f} s. {said}. "
            "Begin a new one."
        )

    def _last_end(self) -> LastEnd | None:
        """Return how the id's last transaction ended, None if the broker does not tell."""
        name = self.epoch.transactional_id
        try:
            return self._broker.repeat(lambda connection: last_end(connection, name), 0)
        except BrokerError:
            return None


def _fenced(transactional_id: str, ended: LastEnd | None) -> ProducerFenced:
    if ended is not None and ended.reason == OPERATOR:
        return ProducerFenced(
            f"an operator ended the transaction of {transactional_id!r}, which fences its producer."
            " Start a new producer to go on."
        )
    return ProducerFenced(
        f"a newer producer has taken over the transactional id {transactional_id!r}; this one is "
        "fenced, and what it had open was aborted. If both shall run, give each an id of its own."
    )
