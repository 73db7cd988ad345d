"""The transaction of one producer: a task's of a micro-batch, or the driver's for its decision.

It begins with InitProducerId, which aborts what an earlier holder of the id left open and refuses
it from then on. Partitions are added before the first batch is sent to them.
"""

from __future__ import annotations

from collections.abc import Iterable

from pyspark_barnabas.wire.cluster import Cluster
from pyspark_barnabas.wire.errors import BarnabasError, TransactionLost
from pyspark_barnabas.wire.protocol import TopicPartition
from pyspark_barnabas.wire.transactions import Holder, Transactions


class Transaction:
    """An open transaction of a transactional id, after `begin`."""

    def __init__(self, cluster: Cluster, transactional_id: str, timeout_ms: int) -> None:
        self.transactional_id = transactional_id
        self._timeout_ms = timeout_ms
        self._transactions = Transactions(cluster)
        self._holder: Holder | None = None
        self._added: set[TopicPartition] = set()

    @property
    def is_begun(self) -> bool:
        """Whether it has a producer id."""
        return self._holder is not None

    def begin(self) -> Holder:
        """Take the id over, once; return the holder."""
        if self._holder is None:
            self._holder = self._transactions.begin(self.transactional_id, self._timeout_ms)
        return self._holder

    def add(self, partitions: Iterable[TopicPartition]) -> None:
        """Add partitions that are new to it. Raises TransactionLost."""
        new = set(partitions) - self._added
        if new and self._transactions.add(self.begin(), sorted(new)):
            raise self.lost()
        self._added |= new

    def commit(self) -> bool:
        """Commit; return False if another holder of the id, or the timeout, has aborted it."""
        holder = self.begin()
        return self._transactions.end([holder], committed=True)[holder] == 0

    def abort(self) -> None:
        """Abort, if it can be done now; the timeout or the next commit does it otherwise."""
        if self._holder is not None and self._added:
            try:
                self._transactions.end([self._holder], committed=False)
            except BarnabasError:
                return

    def lost(self) -> TransactionLost:
        """Return the error for a transaction that is over."""
        return TransactionLost(
            f"the transaction {self.transactional_id} is over: it was open for longer than "
            f"kafka.transaction.timeout.ms ({self._timeout_ms} ms), an operator aborted it, or "
            "another attempt or driver has taken over. Spark runs the task again"
        )
