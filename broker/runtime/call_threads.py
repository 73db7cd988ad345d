"""Threads for blocking calls: an executor with a cheaper way in for calls that need no future.

`ThreadPoolExecutor` makes a future with a condition and a lock for each call, and asks a semaphore
whether a thread is idle. `post` does without: a call and what to do after it go through a queue,
and an idle thread is a token in a deque, whose operations are atomic. Threads start as they are
needed and stay. Where the system gives no more of them, calls wait for those that there are. They
are daemons: one that the disk holds up does not hold up the process.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor, Future
from queue import SimpleQueue
from threading import Thread
from typing import Any, TypeVar

T = TypeVar("T")
Ended = Callable[[BaseException | None], None]


class CallThreads(Executor):
    """Up to `threads_max` threads. `post` and `submit` are called on one thread."""

    def __init__(self, threads_max: int, name: str) -> None:
        self._threads_max = threads_max
        self._name = name
        self._threads: list[Thread] = []
        self._calls: SimpleQueue[tuple[Callable[[], object], Ended] | None] = SimpleQueue()
        self._idle: deque[None] = deque()  # one for each thread that no call was posted for
        self._waiting: deque[None] = deque()  # one for each call that could have no thread
        self._is_shut_down = False

    def post(self, call: Callable[[], object], ended: Ended) -> None:
        """Run `call` in a thread, and then, in that thread, `ended` with None or its error."""
        if self._is_shut_down:
            raise RuntimeError(f"the threads {self._name} take no calls after their shutdown")
        self._calls.put((call, ended))
        try:
            self._idle.pop()
        except IndexError:
            if len(self._threads) < self._threads_max:
                self._start()

    def submit(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> Future[T]:
        """As any executor."""
        future: Future[T] = Future()
        results: list[T] = []

        def call() -> None:
            if future.set_running_or_notify_cancel():
                results.append(fn(*args, **kwargs))

        def ended(error: BaseException | None) -> None:
            if error is not None:
                future.set_exception(error)
            elif results:  # else it was cancelled
                future.set_result(results[0])

        self.post(call, ended)
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:  # noqa: FBT001, FBT002
        """End the threads when they have run what was posted; calls are never cancelled."""
        assert not cancel_futures, "what was posted is run"
        if not self._is_shut_down:
            self._is_shut_down = True
            for _ in self._threads:
                self._calls.put(None)
        if wait:
            for thread in self._threads:
                thread.join()

    def _start(self) -> None:
        name = f"{self._name}_{len(self._threads)}"
        thread = Thread(target=self._run, name=name, daemon=True)
        try:
            thread.start()
        except RuntimeError:
            if not self._threads:
                self._calls.get()  # the caller hears that it will not run
                raise
            self._waiting.append(None)
        else:
            self._threads.append(thread)

    def _run(self) -> None:
        take, idle, waiting = self._calls.get, self._idle, self._waiting
        while (taken := take()) is not None:
            call, ended = taken
            error: BaseException | None = None
            try:
                call()
            except BaseException as caught:
                error = caught
            ended(error)
            del call, ended, taken, error  # an idle thread holds nothing
            # Nothing was taken from `idle` for a call that waits, so nothing is put there either.
            if not (waiting and _took_one(waiting)):
                idle.append(None)


def _took_one(waiting: deque[None]) -> bool:
    """Take one away, unless another thread was faster."""
    try:
        waiting.pop()
    except IndexError:
        return False
    return True
