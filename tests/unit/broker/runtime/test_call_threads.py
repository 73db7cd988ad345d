"""Threads for blocking calls: how many start, what they hand back, and how they end."""

import threading
import time
from typing import Any

import pytest

from broker.runtime.call_threads import CallThreads


class Ends:
    """Collects what calls ended with."""

    def __init__(self) -> None:
        self.errors: list[BaseException | None] = []
        self.threads: list[str] = []
        self._has_ended = threading.Semaphore(0)

    def __call__(self, error: BaseException | None) -> None:
        self.errors.append(error)
        self.threads.append(threading.current_thread().name)
        self._has_ended.release()

    def wait(self, count: int) -> None:
        for _ in range(count):
            assert self._has_ended.acquire(timeout=30)


def until_idle(threads: CallThreads, count: int) -> None:
    """Return when so many threads are idle: they are some moments after their calls end."""
    deadline = time.monotonic() + 30
    while len(threads._idle) < count:
        assert time.monotonic() < deadline
        time.sleep(0.001)


def test_calls_end_with_none_or_their_error_in_a_thread_of_the_name() -> None:
    threads, ends = CallThreads(1, "flush"), Ends()
    failure = OSError(5, "Input/output error")

    def fail() -> None:
        raise failure

    threads.post(lambda: None, ends)
    threads.post(fail, ends)
    ends.wait(2)
    assert ends.errors == [None, failure]
    assert set(ends.threads) == {"flush_0"}
    threads.shutdown()


def test_an_idle_thread_is_used_before_another_starts() -> None:
    threads, ends = CallThreads(4, "flush"), Ends()
    for count in range(1, 6):
        threads.post(lambda: None, ends)
        ends.wait(1)
        until_idle(threads, 1)
        assert len(ends.errors) == count
    assert set(ends.threads) == {"flush_0"}
    threads.shutdown()


def test_calls_run_side_by_side_up_to_the_most_threads() -> None:
    threads, ends = CallThreads(3, "flush"), Ends()
    together = threading.Barrier(3)
    for _ in range(6):
        threads.post(lambda: together.wait(30) and None, ends)
    ends.wait(6)
    assert ends.errors == [None] * 6
    assert set(ends.threads) == {"flush_0", "flush_1", "flush_2"}
    threads.shutdown()


def test_futures_have_results_errors_and_may_be_cancelled() -> None:
    threads = CallThreads(1, "blocking")
    release = threading.Event()
    held = threads.submit(release.wait, 30)
    cancelled = threads.submit(int, "1")
    assert cancelled.cancel()
    release.set()
    assert held.result(30) is True
    assert threads.submit(int, "7", base=8).result(30) == 7
    with pytest.raises(ValueError, match="invalid literal"):
        threads.submit(int, "x").result(30)
    threads.shutdown()


def test_a_shutdown_runs_what_was_posted_and_takes_nothing_more() -> None:
    threads, ends = CallThreads(1, "flush"), Ends()
    done: list[Any] = []
    for number in range(5):
        threads.post(lambda number=number: done.append(number), ends)  # type: ignore[misc]
    threads.shutdown()
    threads.shutdown()
    assert done == list(range(5))
    assert not any(thread.is_alive() for thread in threads._threads)
    with pytest.raises(RuntimeError, match="after their shutdown"):
        threads.post(lambda: None, ends)


def test_calls_wait_for_the_threads_that_the_system_gives(monkeypatch: pytest.MonkeyPatch) -> None:
    threads, ends = CallThreads(3, "flush"), Ends()
    go_on = threading.Event()

    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", refuse)
        with pytest.raises(RuntimeError, match="can't start"):
            threads.post(lambda: None, ends)
    threads.post(go_on.wait, ends)
    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", refuse)
        threads.post(lambda: None, ends)
    go_on.set()
    ends.wait(2)
    assert ends.errors == [None, None], "and not the call that was refused"
    assert set(ends.threads) == {"flush_0"}
    threads.shutdown()


def test_threads_start_as_needed_when_the_system_gives_them_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    threads, ends = CallThreads(3, "flush"), Ends()
    first, second = threading.Event(), threading.Event()

    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    threads.post(first.wait, ends)
    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", refuse)
        threads.post(second.wait, ends)
    first.set()
    ends.wait(1)
    while not threads._calls.empty():
        time.sleep(0.001)
    # The only thread is held up by the call that has waited: another one is needed.
    threads.post(lambda: None, ends)
    ends.wait(1)
    second.set()
    ends.wait(1)
    assert set(ends.threads) == {"flush_0", "flush_1"}
    threads.shutdown()
