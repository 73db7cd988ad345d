"""Which comparisons run: where they take turns (`tests.interop.turns`), only those that are due.

What needs Apache Kafka is skipped where it cannot be had, and says what to install.
"""

from __future__ import annotations

from collections.abc import Generator

import pytest

from tests.interop import turns
from tests.interop.oracle.kafka import OracleMissingError


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup() -> Generator[None, None, None]:
    """Skip a test whose fixtures need what is missing."""
    return (yield from _skipping())


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call() -> Generator[None, None, None]:
    """Skip a test that needs what is missing."""
    return (yield from _skipping())


def _skipping() -> Generator[None, None, None]:
    try:
        return (yield)
    except OracleMissingError as missing:
        pytest.skip(str(missing))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out the comparisons that are not due."""
    waiting = {f"tests/interop/{name}.py" for name in turns.waiting()}
    left_out = [item for item in items if item.nodeid.partition("::")[0] in waiting]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in set(left_out)]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """List them for the end of `.ci/run`."""
    for name in turns.waiting():
        terminalreporter.write_line(f"NOT ITS TURN tests/interop/{name}.py")
