"""Look-ups in files, from the loop: repeated once a thread has loaded the pages they need.

`storage.segments.cold` describes how a look-up reports a missing page. A look-up may still miss
pages after `ATTEMPTS_MAX` pulls, because memory is short, or because an index is being rebuilt and
the look-up walks a whole segment. It then waits for the disk, so that its answer is late, not lost.
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
    """Return what `look_up` returns, or raise what it raises, without blocking the loop."""
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
    """Call `done` with what `look_up` returns or raises, now or when its pages are loaded."""
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
