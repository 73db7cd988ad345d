"""Look-ups in files, from the loop: repeated once a thread has pulled what they miss.

`storage.segments.cold` describes how a look-up reports what it misses. A look-up that misses bytes
again and again walks a large part of a segment, because an index is being rebuilt and memory is
short. After `STARTS_MAX` starts it waits for the disk, so that its answer is late, not lost.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from broker.runtime.blocking_pool import BlockingPool
from broker.runtime.owners import Owner
from storage.segments.cold import Cold, Pulled, without_waiting

T = TypeVar("T")


async def warm(pool: BlockingPool, look_up: Callable[[], T]) -> T:
    """Return what `look_up` returns, or raise what it raises, without blocking the loop."""
    pulled = Pulled()
    while pulled.starts_left:
        try:
            with without_waiting(pulled):
                return look_up()
        except Cold as cold:
            await pool.run(cold.pull)
            pulled.starts_left -= 1
            cold.keep(pulled)
    return look_up()


def when_warm(
    pool: BlockingPool,
    owner: Owner,
    look_up: Callable[[], T],
    done: Callable[[T | Exception], None],
    pulled: Pulled | None = None,
) -> None:
    """Call `done` with what `look_up` returns or raises, now or when a thread has pulled for it."""
    pulled = pulled or Pulled()
    found: T | Exception
    try:
        if pulled.starts_left:
            with without_waiting(pulled):
                found = look_up()
        else:
            found = look_up()
    except Cold as cold:
        missing = cold

        def again(error: BaseException | None) -> None:
            if isinstance(error, Exception):
                done(error)
            else:
                pulled.starts_left -= 1
                missing.keep(pulled)
                when_warm(pool, owner, look_up, done, pulled)

        pool.submit(owner, cold.pull, again)
        return
    except Exception as error:
        found = error
    done(found)
