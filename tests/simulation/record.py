"""What the clients saw in one history, for the judges.

The clients fill it as things happen, and judge nothing themselves: whether an answer could be
right is known only at the end, when the whole log has been read back. Two of the judges are the
checkers of the fault tests, so their parts have their words:

    ops       sends and polls, for `tests.support.history_checker`
    batches, marks, offsets_of_time, producer ids    for `tests.support.log_ledger`
    requests without an answer, connections that the broker ended    for liveness and isolation
    failures  what is wrong by itself, such as an answer to another request

A process is a number of the history: one client has one, and takes a new one after an operation
whose outcome it does not know.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from tests.support.history_checker import Op


class Asked(NamedTuple):
    """A request that was sent and expects an answer."""

    sent_ns: int
    wire: str
    connection: int
    number: int
    api_key: int
    what: str


@dataclass(slots=True)
class Record:
    """See the module. Times are virtual nanoseconds."""

    # Wrong by itself.
    failures: list[str] = field(default_factory=list)

    # Requests and connections.
    request_count: int = 0
    answer_count: int = 0
    unanswered: dict[tuple[str, int], Asked] = field(default_factory=dict)
    gave_up: list[tuple[Asked, int]] = field(default_factory=list)  # and when its client left
    slowest_ns: int = 0
    ended: list[tuple[int, str, str]] = field(default_factory=list)  # by the broker: when, who, why
    cut_answers: list[tuple[int, str, int]] = field(default_factory=list)  # when, who, bytes

    # For the history.
    ops: list[Op] = field(default_factory=list)
    process_count: int = 0

    def answered(self, asked: Asked, now_ns: int) -> None:
        """Note that an answer has come."""
        self.answer_count += 1
        self.slowest_ns = max(self.slowest_ns, now_ns - asked.sent_ns)

    def new_process(self) -> int:
        """Return a number for a client, or for what it is after an unknown outcome."""
        self.process_count += 1
        return self.process_count

    def fail(self, who: str, what: str) -> None:
        """Note what is wrong by itself."""
        self.failures.append(f"{who}: {what}")
