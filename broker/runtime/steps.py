"""Answers that are made in steps, so that no request keeps the loop from the others.

A handler whose work or answer grows with the request, or with the size of the broker's state,
returns a generator (`Steps`) instead of a message. The generator yields after each bounded piece of
work, such as one topic of many, and returns what a handler returns. The value it yields is roughly
the number of bytes by which its answer has grown. The dialects encode in the same way.

    begin ── first slice, at once ──┬── done: encoded and sent, like any small answer
                                    └── queued ── a slice per turn of the loop, in rotation ── sent

All requests in progress share one slice of each turn. A request whose answer would be larger than
`ANSWER_BYTES_MAX` is refused as a whole (INVALID_REQUEST); the records that a fetch may have come
on top. One whose connection is gone is dropped.
The time of the steps that make an answer counts for quotas, that of its encoding does not.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator
from functools import partial
from types import GeneratorType
from typing import Any, Final, TypeVar

from broker.runtime import owners
from broker.runtime.clock import MS_NS, Clock
from broker.runtime.metrics import Metrics
from broker.runtime.owners import Owner
from broker.runtime.request import Pending, Request
from protocol.api_keys import ApiKey

Steps = Generator[int, None, Any]

# How long requests in progress keep the loop from its sockets, per turn.
SLICE_NS: Final = 2 * MS_NS
# Of an answer that was made in no time, and is encoded at once.
QUICK_ANSWER_BYTES: Final = 64 * 1024
# librdkafka's default limit (receive.message.max.bytes); it closes the connection above it.
ANSWER_BYTES_MAX: Final = 100_000_000


Result = TypeVar("Result")


def finished(steps: Generator[int, None, Result]) -> Result:
    """Run all steps at once, and return their result."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: Result = end.value
            return result


class AnswerTooLarge(Exception):
    """A request asks for more than fits into one answer."""

    def __init__(self) -> None:
        super().__init__(
            f"the answer would be larger than {ANSWER_BYTES_MAX} bytes; ask for less at a time"
        )


class Stepper:
    """Runs the steps of all requests in progress; `answer` and `fail` end a request."""

    __slots__ = (
        "_answer",
        "_clock",
        "_fail",
        "_finish",
        "_is_due",
        "_metrics",
        "_queue",
        "_spent_ns",
    )

    def __init__(
        self,
        clock: Clock,
        metrics: Metrics,
        answer: Callable[[Request, Any], None],
        fail: Callable[[Request, Exception], None],
        finish: Callable[[Request, Any], Steps] = lambda _request, response: _made(response),
    ) -> None:
        """`finish` returns, in steps, what is sent of an answer that `answer` does not get."""
        self._finish = finish
        self._clock = clock
        self._metrics = metrics
        self._answer = answer
        self._fail = fail
        self._queue: deque[_Job] = deque()  # bounded by the requests in flight
        self._spent_ns = 0  # in this turn
        self._is_due = False  # whether `_turn` is scheduled

    @property
    def is_busy(self) -> bool:
        """Whether a request is in progress."""
        return bool(self._queue)

    def begin(self, request: Request, steps: Steps) -> None:
        """Answer `request` with the result of `steps`; at once, if this turn has time for it."""
        job = _Job(request, steps, self._finish, self._clock)
        if self._spent_ns >= SLICE_NS or not self._advance(job, SLICE_NS - self._spent_ns):
            self._metrics.answers_in_steps += 1
            self._queue.append(job)
        if self._spent_ns or self._queue:
            self._schedule()

    def _schedule(self) -> None:
        if not self._is_due:
            self._is_due = True
            owners.soon(Owner.REQUEST, self._turn)

    def _turn(self) -> None:
        self._is_due = False
        self._spent_ns = 0
        queue = self._queue
        while queue and self._spent_ns < SLICE_NS:
            if self._advance(queue[0], SLICE_NS - self._spent_ns):
                queue.popleft()
            else:
                queue.rotate(-1)
        if queue:
            self._schedule()

    def _advance(self, job: _Job, slice_ns: int) -> bool:
        """Run steps for `slice_ns`, at least one; return whether the request is answered."""
        now_ns = self._clock.monotonic_ns
        started_ns = job.since_ns = now_ns()
        try:
            if job.request.abandoned:
                job.steps.close()
                self._answer(job.request, None)
                return True
            while not job.step():
                if now_ns() - started_ns >= slice_ns:
                    job.is_long = True
                    job.count_time()
                    return False
            if not job.is_encoded:
                job.count_time()
            self._end(job)
        except Exception as error:
            self._fail(job.request, error)
        finally:
            self._spent_ns += now_ns() - started_ns
        return True

    def _end(self, job: _Job) -> None:
        if job.is_encoded:
            job.request.connection.respond(job.request, job.result)
        elif job.is_long and type(job.result) is Pending:
            request = job.request
            job.result.then(partial(self.encode, request), partial(self._fail, request))
        else:
            self._answer(job.request, job.result)

    def encode(self, request: Request, response: Any) -> None:
        """Encode a long answer in steps, beginning in a later turn, and send it.

        It may have to be made first, in steps too.
        """
        is_to_be_made = isinstance(response, GeneratorType)
        steps = response if is_to_be_made else _made(response)
        job = _Job(request, steps, self._finish, self._clock)
        job.is_long = True
        self._queue.append(job)
        self._schedule()


def _made(response: Any) -> Steps:
    yield 0
    return response


class _Job:
    """One request in progress: its answer is made and, if that took long, encoded in steps."""

    __slots__ = (
        "_clock", "_finish", "_record_bytes_max", "is_encoded", "is_long", "request", "result",
        "since_ns", "size", "steps",
    )  # fmt: skip

    def __init__(
        self,
        request: Request,
        steps: Steps,
        finish: Callable[[Request, Any], Steps],
        clock: Clock,
    ) -> None:
        self.request = request
        self.steps = steps
        self._finish = finish
        self._clock = clock
        is_fetch = request.header.api_key == ApiKey.FETCH
        self._record_bytes_max = request.answer_bytes_max if is_fetch else 0
        self.since_ns = 0  # from when on its time is not counted yet
        self.size = 0
        self.is_long = False  # it has taken longer than a slice
        self.is_encoded = False
        self.result: Any = None

    def step(self) -> bool:
        """Run one step; return whether `result` is set."""
        try:
            self.size += next(self.steps)
        except StopIteration as end:
            self.result = end.value
            is_message = self.result is not None and type(self.result) is not Pending
            is_quick = not self.is_long and self.size <= QUICK_ANSWER_BYTES
            if self.is_encoded or is_quick or not is_message:
                return True
            if self.request.header.opens_records:  # which is a thread's work, if they are many
                return True
            self.count_time()
            self.steps = self._encoding(self.result)
            self.is_encoded = True
            self.size = 0
        if self.size > ANSWER_BYTES_MAX + self._record_bytes_max:
            self.steps.close()
            raise AnswerTooLarge
        return False

    def _encoding(self, response: Any) -> Steps:
        response = yield from self._finish(self.request, response)
        dialect = self.request.info.dialect
        return (yield from dialect.encode_in_steps(self.request.header, response))

    def count_time(self) -> None:
        """Count what has been spent, if there are quotas."""
        now_ns = self._clock.monotonic_ns()
        if hasattr(self.request, "spent_ns"):
            self.request.spent_ns += now_ns - self.since_ns
        self.since_ns = now_ns
