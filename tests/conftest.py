"""What holds for every test: names that stay the same, and brokers whose loop never waits.

Tests that run in parallel are collected once in each process, and the names must agree; a failed
test is also run again by its name. Bytes make names that nobody can read and that may hold the
time of day, so long ones are only numbered.

A property's example may take any time: how fast the machine is says nothing about the code.

A broker that a test runs, in this process or another, makes no file call on its loop that may wait
for the disk (`tests.support.loop_guard`), and none of its steps fails as nobody expected
(`tests.support.failures`): either fails the test, unless it has taken what it caused.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

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

# A shell has what it runs in the background ignore Ctrl-C, and programs inherit that: those that
# tests start and stop by it would not stop.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

READABLE_BYTES_MAX = 16


def pytest_make_parametrize_id(config: pytest.Config, val: object, argname: str) -> str | None:
    """Name a long value by its argument; pytest numbers those that are called alike."""
    if isinstance(val, bytes | bytearray) and len(val) > READABLE_BYTES_MAX:
        return f"{argname} bytes"
    return None


@pytest.fixture(autouse=True)
def brokers_have_nothing_to_complain_of() -> Iterator[None]:
    """Fail the test whose broker made such a call, or failed so."""
    loop_guard.take_violations()
    failures.take()
    yield
    found = [str(violation) for violation in loop_guard.take_violations()]
    found += failures.take()
    found += broker_process.take_complaints()
    assert found == [], "\n".join(found)
