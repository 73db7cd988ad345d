"""A coordinator for one group: the test advances time, reads records, and makes them durable."""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from broker.groups.alarm import Alarm
from broker.groups.errors import GroupError
from broker.groups.group import GroupRecord
from broker.runtime.clock import MS_NS, ManualClock
from config.broker import BrokerConfig
from protocol.errors import ErrorCode

T = TypeVar("T")


class Timer:
    """One `call_later`."""

    def __init__(self, due_ns: int, call: Callable[[], None]) -> None:
        self.due_ns = due_ns
        self.call = call
        self.cancelled = False

    def cancel(self) -> None:
        self.cancelled = True


class FakeHost:
    """Implements broker.groups.group.Host. With `holds`, writes become durable at `flush`."""

    def __init__(self, **settings: Any) -> None:
        self.config = BrokerConfig(**settings)
        self.clock = ManualClock()
        self.topics: Any = None
        self.configs: dict[str, str] = {}  # of every group
        self.records: list[GroupRecord] = []
        self.timers: list[Timer] = []
        self.alarm_count = 0
        self.refuses: ErrorCode | None = None  # of the next write
        self.holds = False
        self._held: list[Callable[[ErrorCode], None]] = []
        self._ids = 0
        self.computing: list[Callable[[], None]] = []  # the pool: each runs when it is called

    def write(
        self,
        group_id: str,
        records: Sequence[GroupRecord],
        done: Callable[[ErrorCode], None] | None = None,
    ) -> int:
        assert group_id, "a write of no group"
        if self.refuses is not None:
            code, self.refuses = self.refuses, None
            raise GroupError(code)
        first_offset = len(self.records)
        self.records.extend(records)
        self._held.append(done or (lambda _: None))
        if not self.holds:
            self.flush()
        return first_offset

    def when_durable(self, group_id: str, done: Callable[[ErrorCode], None]) -> None:
        assert group_id, "a question of no group"
        self._held.append(done)
        if not self.holds or len(self._held) == 1:
            self.flush()

    def own_configs(self, group_id: str) -> dict[str, str]:
        assert group_id, "the configs of no group"
        return self.configs

    def flush(self, code: ErrorCode = ErrorCode.NONE) -> None:
        """Complete the held writes: durable, or failed with `code`."""
        held, self._held = self._held, []
        for done in held:
            done(code)

    def alarm(self, ring: Callable[[int], int]) -> Alarm:
        return Alarm(ring, self.clock.monotonic_ns, self._call_later)

    def compute(self, call: Callable[[], T], done: Callable[[T | None], None]) -> None:
        self.computing.append(lambda: done(call()))

    def new_id(self) -> str:
        self._ids += 1
        return f"id{self._ids}"

    def _call_later(self, seconds: float, call: Callable[[], None]) -> Timer:
        self.alarm_count += 1
        timer = Timer(self.clock.monotonic_ns() + round(seconds * 1_000_000_000), call)
        self.timers.append(timer)
        return timer

    def advance(self, ms: int) -> None:
        """Advance time by `ms`; timers fire at their times."""
        end_ns = self.clock.monotonic_ns() + ms * MS_NS
        while True:
            live = [timer for timer in self.timers if not timer.cancelled]
            self.timers = live
            due = min(live, key=lambda timer: timer.due_ns, default=None)
            if due is None or due.due_ns > end_ns:
                break
            self.timers.remove(due)
            self._to(due.due_ns)
            due.call()
        self._to(end_ns)

    def _to(self, ns: int) -> None:
        self.clock.advance(max(0, -(-(ns - self.clock.monotonic_ns()) // MS_NS)))
