"""A connection that is opened again when it is lost, and requests that are repeated.

An attempt is a function of the open `Connection`. It raises `Again` if the broker's answer asks for
a repetition; a lost connection, a missing answer and a refused connection are repeated too. The
pauses grow from FIRST_PAUSE_S to PAUSE_S_MAX, because a transaction that is just ending takes
milliseconds, and a broker that restarts takes seconds.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final, TypeVar

from client.kafka.connection import BrokerError, Connection, NotServed
from client.transactions.errors import Again, OutOfTime, RequestFailed, TransactionError

FIRST_PAUSE_S: Final = 0.01
PAUSE_S_MAX: Final = 1.0
_LASTING: Final = (NotServed, RequestFailed, TransactionError)

Result = TypeVar("Result")


class PatientConnection:
    """A connection to `address`; each answer may take `answer_s`, in seconds."""

    def __init__(
        self,
        address: str,
        answer_s: float,
        *,
        clock: Callable[[], float] = time.monotonic,
        wait: Callable[[float], None] = time.sleep,
    ) -> None:
        self.address = address
        self._answer_s = answer_s
        self._clock = clock
        self._wait = wait
        self._connection: Connection | None = None

    def opened(self) -> Connection:
        """Return the open connection; connect if there is none. Raises BrokerError."""
        if self._connection is None:
            connection = Connection(self.address, self._answer_s)
            connection.open()
            self._connection = connection
        return self._connection

    def close(self) -> None:
        """Close the connection; the next attempt opens another."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def repeat(self, attempt: Callable[[Connection], Result], within_s: float) -> Result:
        """Return the attempt's result, repeating it for `within_s` seconds.

        Raises OutOfTime, and at once NotServed, RequestFailed and TransactionError.
        """
        until_s = self._clock() + within_s
        pause_s = FIRST_PAUSE_S
        while True:
            try:
                return attempt(self.opened())
            except _LASTING:
                raise
            except Again as again:
                trouble: BrokerError = again
            except BrokerError as error:
                self.close()
                trouble = error
            except BaseException:
                self.close()  # its answer may still come, and would be taken for another's
                raise
            if self._clock() + pause_s > until_s:
                raise OutOfTime(f"no success within {within_s:g} s: {trouble}") from trouble
            self._wait(pause_s)
            pause_s = min(2 * pause_s, PAUSE_S_MAX)
