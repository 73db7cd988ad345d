"""Look-ups in files, from the loop: tried again when what they need is in memory.

`storage.segments.cold` says how a look-up reports a page that is missing. One that still misses
pages after `ATTEMPTS_MAX` pulls, since memory is short or an index is being rebuilt and it walks a
whole segment, waits for the disk: an answer comes late then, but it comes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from broker.runtime.blocking_pool import BlockingPool
from broker.runtime.owners import Owner
from storage.segments.cold import Cold, without_waiting

T = TypeVar("T")
ATTEMPTS_MAX = 16


async def warm(pool: BlockingPool, look_up: Callable[[], T]) -> T:
    """Return what `look_up` returns, or raise what it raises; the loop does not wait for it."""
    for _ in range(ATTEMPTS_MAX):
        try:
            with without_waiting():
                return look_up()
        except Cold as cold:
            await pool.run(cold.pull)
    return look_up()


def when_warm(
    pool: BlockingPool,
    owner: Owner,
    look_up: Callable[[], T],
    done: Callable[[T | Exception], None],
    attempts: int = ATTEMPTS_MAX,
) -> None:
    """Call `done` with what `look_up` returns or raises, now or when it could be read."""
    found: T | Exception
    try:
        if attempts:
            with without_waiting():
                found = look_up()
        else:
            found = look_up()
    except Cold as cold:

        def pulled(error: BaseException | None) -> None:
            if isinstance(error, Exception):
                done(error)
            else:
                when_warm(pool, owner, look_up, done, attempts - 1)

        pool.submit(owner, cold.pull, pulled)
        return
    except Exception as error:
        found = error
    done(found)
