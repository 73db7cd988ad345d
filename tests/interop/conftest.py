"""In a run in which comparisons take turns (`tests.interop.turns`), only those that are due run."""

from __future__ import annotations

import pytest

from tests.interop import turns


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
