"""A visitor over a quota sees records all the same: a page does not ask again as a client does."""

import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from broker.lifecycle.shutdown import EXIT_CLEAN
from broker.quotas.alterations import Alteration
from protocol.records import build
from tests.support.console_client import ConsoleBroker
from tests.unit.broker.test_console_records import append, offsets, records

USER = (("user", "ANONYMOUS"),)


@pytest.fixture
async def running(tmp_path: Path) -> AsyncIterator[ConsoleBroker]:
    found = await ConsoleBroker.start(tmp_path / "data")
    await found.post("topics/create", {"name": "one", "partitions": 1})
    yield found
    assert await found.stop() == EXIT_CLEAN


@pytest.mark.parametrize(
    ("key", "limit"), [("consumer_byte_rate", 100.0), ("request_percentage", 0.001)]
)
async def test_records_are_shown_over_a_quota(
    running: ConsoleBroker, key: str, limit: float
) -> None:
    for number in range(10):
        append(running, "one", build(records(1, number, size=2_000)))
    asked = [Alteration(USER, [(key, limit)])]
    outcomes = await running.services.quotas.alter(asked, is_long=False, validate_only=False)
    assert outcomes == {USER: None}
    for _ in range(3):
        assert await offsets(running, "order=oldest&limit=4") == list(range(10))
    found = await running.ask("/api/v1/export?topic=one")
    assert [json.loads(line)["offset"] for line in found.body.splitlines()] == list(range(10))
    assert running.metrics.requests_throttled > 0
