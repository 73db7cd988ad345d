"""Why some functions of the product are not reached by any history: path, function, reason.

A path and a function stand for all that begin with them. The first row that fits counts.
"""

from __future__ import annotations

from typing import Final

PROCESS: Final = "the real machine, in place of which the simulator has its own"
BUG: Final = "runs after an exception that nobody foresaw; seeded bugs reach it"
TRANSACTIONS: Final = "no transactions are made"
WORDS: Final = "words for logs, documents and debuggers"

REASONS: Final[tuple[tuple[str, str, str], ...]] = (
    ("storage/files/os_filesystem.py", "", PROCESS),
    ("storage/files/locks.py", "", PROCESS),
    ("broker/lifecycle/process.py", "", PROCESS),
    ("broker/lifecycle/environment.py", "system_environment", PROCESS),
    ("broker/network/acceptor.py", "bind", PROCESS),
    ("broker/runtime/blocking_pool.py", "thread_executor", PROCESS),
    ("broker/runtime/clock.py", "SystemClock", PROCESS),
    ("broker/runtime/clock.py", "ManualClock", "a clock for tests"),
    ("broker/runtime/log_lines.py", "_JsonFormatter", PROCESS),
    ("broker/runtime/log_lines.py", "_TextFormatter", PROCESS),
    ("broker/runtime/slow_steps.py", "", "watches the loop of a real process; off by default"),
    ("broker/server.py", "run", PROCESS),
    ("broker/server.py", "_run", PROCESS),
    ("broker/groups/states.py", "diagram", WORDS),
    ("broker/metadata/topic_life.py", "table", WORDS),
    ("broker/metadata/topic_life.py", "TopicLife.__repr__", WORDS),
    ("storage/producers/producer_state.py", "ProducerEntry.__", WORDS),
    ("storage/segments/log_file.py", "LogSlice.__repr__", WORDS),
    ("broker/handlers/", "error_response", BUG),
    ("broker/dispatch.py", "Dispatcher._fail", BUG),
    ("broker/runtime/owners.py", "failed", BUG),
    ("broker/runtime/owners.py", "FailureLog", BUG),
    ("storage/checkpointing.py", "_unforeseen", BUG),
    (
        "storage/producers/producer_state.py",
        "ProducerState.take_marker",
        TRANSACTIONS,
    ),
    ("storage/errors.py", "NoTransaction", TRANSACTIONS),
)
