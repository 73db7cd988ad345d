"""The broker's threads: real ones, of which one runs at a time, passing a baton.

A job runs in a thread of its own. At a file call, and where it waits for a lock or an event, it
gives the baton back to the loop's thread for some virtual time; so jobs overlap in any order that
the seed likes, and one may be stuck for minutes. Between such calls a job is not interrupted:
races between two bytecodes stay outside this simulation.

    Baton           who runs; `pause` gives it away
    BatonExecutor   the `concurrent.futures.Executor` that the broker's pools get
    BatonLock, BatonEvent    what stands for those of `threading` in the product's modules

A life that is killed ends its jobs where they wait, by `Killed`, before anything else happens: the
code that unwinds meets dead files.

A pause in which nothing else would happen needs no hand-over: the job goes on, later.

Threads are kept for later jobs, and for later histories.
"""

from __future__ import annotations

import _thread
import errno
import threading
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future
from contextlib import contextmanager
from types import ModuleType, SimpleNamespace
from typing import Any, Final, NoReturn

from tests.simulation.world import MS, NEVER_NS, US, Event, World

BEGIN_NS_MAX: Final = 200 * US
RETURN_NS_MAX: Final = 100 * US
STEPS_MAX: Final = 100_000
# Their jobs make no file calls that the simulation knows: a thread for each is not worth its time.
INLINE: Final = frozenset({"imports"})


class Killed(KeyboardInterrupt):  # asyncio lets a KeyboardInterrupt through wherever it is
    """The broker's process has ended."""


class _Thread:
    """A real thread that runs one job after another, when it has the baton."""

    idle: list[_Thread] = []  # noqa: RUF012 - of the whole process

    def __init__(self) -> None:
        self.go = _thread.allocate_lock()
        self.back = _thread.allocate_lock()
        self.go.acquire()
        self.back.acquire()
        self.job: Job | None = None
        threading.Thread(target=self._run, name="baton", daemon=True).start()

    def _run(self) -> None:
        while True:
            self.go.acquire()
            assert self.job is not None
            self.job.run()
            self.job = None
            self.back.release()


class Job:
    """One call of a pool, from its beginning in a thread to its end."""

    def __init__(self, baton: Baton, call: Callable[[], Any], future: Future[Any]) -> None:
        self.future = future
        self.is_over = False
        self.event: Event | None = None  # that will go on with it
        self._baton = baton
        self._call = call
        self._thread: _Thread | None = None
        self._result: Any = None
        self._error: BaseException | None = None

    def run(self) -> None:
        """Run the call, in the thread."""
        try:
            self._baton.check()
            self._result = self._call()
        except BaseException as error:
            self._error = error
        self.is_over = True

    def step(self) -> None:
        """Give it the baton until it pauses or ends. Called in the loop's thread."""
        self.event = None
        thread = self._thread
        if thread is None:
            thread = self._thread = _Thread.idle.pop() if _Thread.idle else _Thread()
            thread.job = self
        baton = self._baton
        before, baton.job = baton.job, self
        thread.go.release()
        thread.back.acquire()
        baton.job = before
        if self.is_over:
            _Thread.idle.append(thread)
            self._thread = None
            baton.jobs.remove(self)
            self.ended()

    def ended(self) -> None:
        """Called once, in the loop's thread, when the call has returned."""

    def tell(self) -> None:
        """Give the future what the call has returned or raised."""
        if self._baton.is_dead or isinstance(self._error, Killed):
            return
        if self._error is not None:
            self.future.set_exception(self._error)
        else:
            self.future.set_result(self._result)

    def give_baton_back(self) -> None:
        """Wait in the job's thread for the next step."""
        thread = self._thread
        assert thread is not None
        thread.back.release()
        thread.go.acquire()
        self._baton.check()


class Baton:
    """Says who runs in one life of the broker: the loop, or one job."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.job: Job | None = None  # that has the baton; None: the loop
        self.jobs: list[Job] = []  # that have begun
        self.is_dead = False
        self.killed_at_ns = NEVER_NS
        self.blocked_ns = 0  # for how long the loop has waited for locks
        # Whether nothing else would happen before a time: then a job goes on without a hand-over.
        self.is_alone_until: Callable[[int], bool] = lambda _ns: False

    @property
    def on_loop(self) -> bool:
        """Whether the caller runs in the loop's thread."""
        return self.job is None

    def check(self) -> None:
        """End a job whose process has ended; the loop's thread meets a dead disk then."""
        if self.is_dead:
            if self.job is None:
                raise OSError(errno.ESHUTDOWN, "the process has ended")
            raise Killed

    def die(self) -> NoReturn:
        """End the process, from the loop's thread. Whatever catches `Killed` meets a dead disk."""
        self.is_dead = True
        raise Killed

    def pause(self, ns: int) -> None:
        """Let virtual time pass: others run meanwhile, unless the caller is the loop."""
        self.check()
        job = self.job
        if job is None:
            self.world.now_ns += ns
            if self.world.now_ns >= self.killed_at_ns:
                self.die()
            return
        until_ns = self.world.now_ns + ns
        if until_ns < self.killed_at_ns and self.is_alone_until(until_ns):
            self.world.now_ns = until_ns
            return
        job.event = self.world.at(until_ns, job.step)
        job.give_baton_back()

    def wait_for(self, is_there: Callable[[], bool], waiting: list[Job]) -> None:
        """Let others run until `is_there`; `waiting` gets the job, for `wake`."""
        job = self.job
        if job is None:
            began_ns = self.world.now_ns
            self._run_jobs_until(is_there)
            self.blocked_ns += self.world.now_ns - began_ns
            return
        while not is_there():
            waiting.append(job)
            job.give_baton_back()

    def wake(self, waiting: list[Job]) -> None:
        """Let the jobs that wait look again."""
        jobs = [job for job in waiting if not job.is_over]  # a kill may have ended it
        waiting.clear()
        for job in jobs:
            job.event = self.world.after(0, job.step)

    def _run_jobs_until(self, is_there: Callable[[], bool]) -> None:
        """Run jobs, and nothing else, while the loop's thread is blocked."""
        for _ in range(STEPS_MAX):
            if is_there():
                return
            due = [job.event for job in self.jobs if job.event is not None]
            if not due:
                raise RuntimeError("the loop waits for a lock that nobody will release")
            event = min(due, key=lambda event: event.when_ns)
            self.world.now_ns = max(self.world.now_ns, event.when_ns)
            call = event.call
            event.cancel()
            assert call is not None
            call()
        raise RuntimeError("the loop waits for a lock for ever")

    def kill(self) -> None:
        """End the process: each job ends where it waits."""
        self.is_dead = True
        for job in self.jobs[:]:
            if job.event is not None:
                job.event.cancel()
            for _ in range(STEPS_MAX):
                if job.is_over:
                    break
                job.step()


class BatonExecutor(Executor):
    """See the module. `threads` jobs have begun at a time; the others wait in order."""

    def __init__(self, baton: Baton, threads: int, name: str) -> None:
        self._baton = baton
        self._world = baton.world
        self._threads = threads
        self._chance = baton.world.chance(f"executor {name}")
        self._running: list[_PoolJob] = []
        self._waiting: deque[_PoolJob] = deque()
        self._is_shut = False
        self._is_inline = name in INLINE

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Run in a thread."""
        if self._is_shut or self._baton.is_dead:
            raise RuntimeError("cannot schedule new futures after shutdown")
        future: Future[Any] = Future()
        if self._is_inline:
            future.set_result(fn(*args, **kwargs))
            return future
        job = _PoolJob(self, self._baton, lambda: fn(*args, **kwargs), future)
        self._waiting.append(job)
        self._begin()
        return future

    def _begin(self) -> None:
        while self._waiting and len(self._running) < self._threads:
            job = self._waiting.popleft()
            self._running.append(job)
            self._baton.jobs.append(job)
            job.event = self._world.after(self._chance.randrange(BEGIN_NS_MAX), job.step)

    def job_ended(self, job: _PoolJob) -> None:
        """Begin the next; the result reaches the loop a little later."""
        self._running.remove(job)
        if self._baton.is_dead:
            return
        self._begin()
        self._world.after(self._chance.randrange(RETURN_NS_MAX), job.tell)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Take no new calls; with `wait`, block until the last has ended."""
        self._is_shut = True
        if wait:
            self._baton.wait_for(lambda: not self._running, [])


class _PoolJob(Job):
    def __init__(
        self,
        executor: BatonExecutor,
        baton: Baton,
        call: Callable[[], Any],
        future: Future[Any],
    ) -> None:
        super().__init__(baton, call, future)
        self._executor = executor

    def ended(self) -> None:
        self._executor.job_ended(self)


class BatonLock:
    """Stands for `threading.Lock`."""

    def __init__(self, baton: Baton) -> None:
        self._baton = baton
        self._held = False
        self._waiting: list[Job] = []

    def acquire(self) -> bool:
        """Wait for the lock."""
        if self._held:
            self._baton.wait_for(lambda: not self._held, self._waiting)
        self._held = True
        return True

    def release(self) -> None:
        """Let the next have it."""
        self._held = False
        self._baton.wake(self._waiting)

    def locked(self) -> bool:
        """Whether somebody has it."""
        return self._held

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()


class BatonEvent:
    """Stands for `threading.Event`."""

    def __init__(self, baton: Baton) -> None:
        self._baton = baton
        self._is_set = False
        self._waiting: list[Job] = []

    def is_set(self) -> bool:
        """Whether it is set."""
        return self._is_set

    def set(self) -> None:
        """Wake all."""
        self._is_set = True
        for job in self._waiting:
            if job.event is not None:  # its timeout
                job.event.cancel()
        self._baton.wake(self._waiting)

    def wait(self, timeout: float | None = None) -> bool:
        """Wait in a job's thread."""
        job = self._baton.job
        if job is None or timeout is None:
            raise RuntimeError("only jobs wait for events, and not for ever")
        if not self._is_set:
            self._waiting.append(job)
            self._baton.pause(int(timeout * 1000) * MS)
            if job in self._waiting:
                self._waiting.remove(job)
        return self._is_set


@contextmanager
def threading_of(baton: Callable[[], Baton], modules: list[ModuleType]) -> Iterator[None]:
    """Give the modules a `threading` whose locks and events know the baton of the life."""
    stand_in = SimpleNamespace(
        Lock=lambda: BatonLock(baton()),
        Event=lambda: BatonEvent(baton()),
        local=threading.local,
        get_ident=threading.get_ident,
    )
    before = [module.__dict__["threading"] for module in modules]
    for module in modules:
        module.__dict__["threading"] = stand_in
    try:
        yield
    finally:
        for module, real in zip(modules, before, strict=True):
            module.__dict__["threading"] = real
