"""How a transaction can fail, as errors of the transactional producers.

After `ProducerFenced` the producer is of no more use. After the others it may begin its next
transaction; what the failed one should have written can be sent again in it.
"""

from __future__ import annotations

from client.codes import BrokerError


class TransactionError(BrokerError):
    """A transaction was not committed; the text says why, and what to do.

    `is_over`: the broker has ended it already.
    """

    def __init__(self, text: str, *, is_over: bool = True) -> None:
        super().__init__(text)
        self.is_over = is_over


class ProducerFenced(TransactionError):
    """A newer producer took over the transactional id. The open transaction was aborted."""


class TransactionTimedOut(TransactionError):
    """The transaction was open for longer than its timeout, and the broker aborted it."""


class TransactionAborted(TransactionError):
    """The transaction was aborted: by the broker, by an operator, or because a request failed."""


class OutcomeUnknown(TransactionError):
    """No answer to the request to commit: the transaction may be committed or aborted."""


class RequestFailed(BrokerError):
    """The broker refused a request with `code`, which does not pass by itself."""

    def __init__(self, text: str, code: int) -> None:
        super().__init__(text)
        self.code = code


class Again(BrokerError):
    """The broker cannot do this now; the text says why."""


class OutOfTime(BrokerError):
    """An attempt was repeated for as long as it may be; the text has the last reason."""
