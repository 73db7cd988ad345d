"""Why some statements of the product are not reached by any history.

    REASONS     path, function, reason: both stand for all that begin with them
    TEXTS       how a statement begins, reason
    HANDLERS    the exceptions of the `except` that it is in, reason

The first row that fits counts. A row that no statement needs is an error.
"""

from __future__ import annotations

from typing import Final

PROCESS: Final = "the real machine, in place of which the simulator has its own"
BUG: Final = "runs after an exception that nobody foresaw; seeded bugs reach it"
WORDS: Final = "words for logs, documents and debuggers"
TESTS: Final = "only tests ask"
TOOLS: Final = "for tools that look at files beside a broker"
LARGE: Final = "takes an answer of 100 MB"
OFTEN: Final = "takes 64 look-ups in a row whose pages have left memory again"
LOOPBACK: Final = "the listeners of a history are on loopback, and their ports are free"

REASONS: Final[tuple[tuple[str, str, str], ...]] = (
    ("storage/files/copy_blocks.py", "", PROCESS),
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
    ("broker/lifecycle/stop_signals.py", "ignore", PROCESS),
    ("broker/runtime/log_lines.py", "configure", PROCESS),
    ("broker/runtime/request.py", "Request.give_up", BUG),
    ("broker/runtime/metrics.py", "Metrics.snapshot", TESTS),
    ("storage/files/open_files.py", "OpenFiles.descriptor_count", TESTS),
    ("storage/log_manager.py", "LogManager.__len__", TESTS),
    ("storage/log_manager.py", "LogManager.get", TESTS),
    ("storage/files/overlay.py", "Overlay.lock_", TOOLS),
    ("broker/runtime/steps.py", "AnswerTooLarge", LARGE),
    ("broker/runtime/steps.py", "_Job.step", LARGE),
    ("broker/partitions/warm_reads.py", "", OFTEN),
    ("broker/server.py", "Broker._bind", LOOPBACK),
    ("broker/server.py", "Broker._say_that_it_listens", LOOPBACK),
)

TEXTS: Final[tuple[tuple[str, str], ...]] = (
    ("owners.failed(", BUG),
    ("raise AssertionError", BUG),
    ("raise NotImplementedError", BUG),
)

HANDLERS: Final[tuple[tuple[str, str], ...]] = (("Exception", BUG),)
