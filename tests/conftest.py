"""Rules for every test: test names are stable, and no broker blocks its event loop.

Parallel workers each collect the tests, and their names must agree; a failed test is also run
again by its name. Names made of bytes are unreadable and may contain the time of day, so long
values are only numbered.

Hypothesis examples have no deadline: the speed of the machine says nothing about the code.

A broker that a test runs, in this process or another, must not make a file call on its loop that
may wait for the disk (`tests.support.loop_guard`), and must not report an unexpected failure
(`tests.support.failures`). Both fail the test, unless the test caused them and took the report.
"""

from __future__ import annotations

import gc
import os
import signal
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, given, settings, strategies

from tests.support import broker_process, failures, loop_guard
from tests.support.thorough import examples

settings.register_profile(
    "any machine",
    deadline=None,
    max_examples=examples(100),
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("any machine")

loop_guard.guard_work()

# A shell makes its background jobs ignore Ctrl-C, and child processes inherit that: programs that
# tests start and stop with Ctrl-C would not stop.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Brokers of tests side by side would all want the same port; tests of HTTP set their own.
os.environ.setdefault("BARNABAS_HTTP_LISTENER", "")

READABLE_BYTES_MAX = 16


def pytest_make_parametrize_id(config: pytest.Config, val: object, argname: str) -> str | None:
    """Name a long value by its argument; pytest numbers equal names."""
    if isinstance(val, bytes | bytearray) and len(val) > READABLE_BYTES_MAX:
        return f"{argname} bytes"
    return None


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Exempt imports and tests from garbage collection: each time it would walk over all of them.

    They are millions of objects. For the same reason, no test may call `gc.unfreeze`.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        register_randomness()
        gc.freeze()
        gc.enable()


@settings(max_examples=1, database=None)
@given(strategies.none())
def register_randomness(_: None) -> None:
    """Let Hypothesis register its source of randomness, once in a process.

    It asks the collector who holds the source, and finds nobody among what is exempted.
    """


@pytest.fixture(autouse=True)
def brokers_have_nothing_to_complain_of() -> Iterator[None]:
    """Fail the test if its broker made such a call or reported such a failure."""
    loop_guard.take_violations()
    failures.take()
    yield
    found = [str(violation) for violation in loop_guard.take_violations()]
    found += failures.take()
    found += broker_process.take_complaints()
    assert found == [], "\n".join(found)
