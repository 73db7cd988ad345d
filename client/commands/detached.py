"""Blocking calls in a thread that is abandoned once nobody waits for it.

A read from standard input or a write to a slow reader may never return. asyncio's executor joins
its threads on exit, so Ctrl-C would wait for a line that nobody types. A daemon thread per call
does not keep the process alive.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar

T = TypeVar("T")


async def detached(call: Callable[[], T]) -> T:
    """Return what `call` returns, or raise what it raises. If cancelled, abandon the call."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[T] = loop.create_future()

    def tell(result: Any, error: BaseException | None) -> None:
        if done.done():
            return  # cancelled
        if error is None:
            done.set_result(result)
        else:
            done.set_exception(error)

    def work() -> None:
        result, failure = None, None
        try:
            result = call()
        except Exception as error:
            failure = error
        with suppress(RuntimeError):  # the loop is closed: nobody waits any more
            loop.call_soon_threadsafe(tell, result, failure)

    threading.Thread(target=work, daemon=True).start()
    return await done
