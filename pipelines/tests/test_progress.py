"""The progress line: often on a terminal, seldom elsewhere, never with --quiet."""

from __future__ import annotations

import io
from types import SimpleNamespace

from pyspark_barnabas.jobs.progress import (
    PLAIN_EVERY_MS,
    TERMINAL_EVERY_MS,
    Progress,
    tasks_text,
)


class Hand:
    """A clock that a test moves."""

    def __init__(self):
        self.ms = 0

    def elapsed_ms(self):
        return self.ms


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_a_terminal_has_one_line_that_changes():
    stream, clock = Terminal(), Hand()
    progress = Progress(stream, clock=clock)
    progress.show("one")
    progress.show("too soon")
    clock.ms += TERMINAL_EVERY_MS
    progress.show("x" * 500)
    progress.say("stays")
    assert stream.getvalue() == f"\r\x1b[Kone\r\x1b[K{'x' * 100}\r\x1b[Kstays\n"


def test_elsewhere_a_line_is_written_at_times_and_none_for_a_short_run():
    stream, clock = io.StringIO(), Hand()
    progress = Progress(stream, clock=clock)
    for _ in range(50):
        progress.show(f"at {clock.ms}")
        clock.ms += PLAIN_EVERY_MS // 10
    assert stream.getvalue() == "at 10000\nat 20000\nat 30000\nat 40000\n"


def test_quiet_is_quiet():
    stream = Terminal()
    progress = Progress(stream, is_quiet=True)
    progress.show("x")
    progress.say("y")
    progress.clear()
    assert stream.getvalue() == ""


def stage(total, active, done, failed=0):
    return SimpleNamespace(
        numTasks=total, numActiveTasks=active, numCompletedTasks=done, numFailedTasks=failed
    )


def test_tasks_are_counted_over_the_stages_that_run():
    stages = {1: stage(10, 2, 3), 2: stage(5, 0, 0, failed=1), 3: None}
    tracker = SimpleNamespace(getActiveStageIds=lambda: list(stages), getStageInfo=stages.get)
    assert tasks_text(tracker) == "3 of 15 tasks done, 2 running, 1 failed and retried"
    stages.clear()
    assert tasks_text(tracker) == "planning"


def test_what_is_shown_from_a_thread_ends_with_its_block():
    stream = Terminal()
    progress = Progress(stream)
    said = []

    def text():
        said.append(1)
        if len(said) > 1:
            raise RuntimeError("Spark has gone")
        return "working"

    with progress.showing(text):
        while len(said) < 2:
            pass
    assert stream.getvalue() == "\r\x1b[Kworking\r\x1b[K"
