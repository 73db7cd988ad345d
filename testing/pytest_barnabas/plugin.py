"""The fixtures of pytest: `barnabas`, and `barnabas_session`.

A test whose broker has something to say about its failure gets the end of the broker's log in its
report. With pytest-xdist each worker has brokers of its own.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import Any

import pytest

from pytest_barnabas.barnabas import Barnabas

_IN_USE = pytest.StashKey[list[Barnabas]]()


@pytest.fixture(scope="session")
def barnabas_settings() -> dict[str, object]:
    """Settings of all brokers of this session, such as {"num.partitions": 3}; override it."""
    return {}


@pytest.fixture
def barnabas(
    request: pytest.FixtureRequest, barnabas_settings: dict[str, object]
) -> Iterator[Barnabas]:
    """A fresh broker for this test. `@pytest.mark.barnabas({...})` adds settings."""
    settings = dict(barnabas_settings)
    for mark in reversed(list(request.node.iter_markers("barnabas"))):
        for given in (*mark.args, mark.kwargs):
            settings |= {name.replace("_", "."): value for name, value in given.items()}
    broker = Barnabas(settings)
    request.node.stash.setdefault(_IN_USE, []).append(broker)
    yield broker
    broker.close()


@pytest.fixture(scope="session")
def barnabas_session(barnabas_settings: dict[str, object]) -> Iterator[Barnabas]:
    """One broker for all tests of this session that ask for it."""
    with Barnabas(barnabas_settings) as broker:
        yield broker


def pytest_configure(config: pytest.Config) -> None:
    """Declare the mark."""
    config.addinivalue_line(
        "markers", "barnabas(settings): settings of the broker of the fixture `barnabas`"
    )


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, Any, Any]:
    """Fail the test itself if a rule that must be met was not."""
    result = yield
    for broker in item.stash.get(_IN_USE, []):
        broker.check_rules()
    return result


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, Any, Any]:
    """Add the broker's log to the report of a test that has failed."""
    report = yield
    if report.when in ("setup", "call") and report.failed:
        report.sections += [("Broker log", broker.log) for broker in _brokers_of(item)]
    return report


def _brokers_of(item: pytest.Item) -> list[Barnabas]:
    brokers = item.stash.get(_IN_USE, [])
    of_the_session = getattr(item, "funcargs", {}).get("barnabas_session")
    return [*brokers, of_the_session] if isinstance(of_the_session, Barnabas) else brokers
