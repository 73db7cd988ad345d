"""The periodic duties for transactions.

    late_transactions   every `transaction.abort.timed.out.transaction.cleanup.interval.ms`
    transactional_ids   every `transaction.remove.expired.transaction.cleanup.interval.ms`
    owed_markers        every second: tries again to write what ended transactions lack

Nothing is done, and nothing imported, before the broker coordinates its first transaction.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterator
from typing import Any, Final

from broker.services import Services

OWED_SECONDS: Final = 1.0


class TransactionDuties:
    """The duties of one broker."""

    def __init__(self, services: Services) -> None:
        self._services = services

    def all(self) -> Iterator[tuple[float, Callable[[], Coroutine[Any, Any, None]]]]:
        """Yield each duty, with how many seconds it waits between two turns."""
        config = self._services.config
        late_ms = config.transaction_abort_timed_out_transaction_cleanup_interval_ms
        unused_ms = config.transaction_remove_expired_transaction_cleanup_interval_ms
        yield late_ms / 1000, self._late_transactions
        yield unused_ms / 1000, self._transactional_ids
        yield OWED_SECONDS, self._owed_markers

    async def _late_transactions(self) -> None:
        if self._services.has_transactions:
            from broker.transactions.timeouts import abort_late

            await abort_late(self._services.transactions, self._services.metrics)

    async def _transactional_ids(self) -> None:
        if self._services.has_transactions:
            from broker.transactions.timeouts import expire_ids

            await expire_ids(self._services.transactions, self._services.metrics)

    async def _owed_markers(self) -> None:
        if self._services.has_transactions:
            await self._services.transactions.endings.retry()
