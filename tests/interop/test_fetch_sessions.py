"""Fetch sessions (KIP-227): each story gives the same answers as on Apache Kafka 4.3."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import pytest

from client.kafka.connection import Connection
from tests.interop.both_brokers import both_brokers
from tests.interop.fetch_stories import STORIES
from tests.interop.fetch_teller import BY_NAME, Teller

pytestmark = pytest.mark.interop

SLOTS: Final = 16  # two in each of Kafka's eight shards


@pytest.fixture(scope="module")
def connections(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Connection]]:
    with both_brokers(
        tmp_path_factory,
        {
            "max.incremental.fetch.session.cache.slots": str(SLOTS),
            "auto.create.topics.enable": "false",
        },
    ) as both:
        yield both


@pytest.mark.parametrize("version", [7, BY_NAME, 13, 18])
@pytest.mark.parametrize("story", STORIES)
def test_a_story(connections: list[Connection], story: str, version: int) -> None:
    if version in (7, 18) and story not in ("records_come", "in_turn", "added_and_forgotten"):
        pytest.skip("told in other versions")
    told = []
    for connection in connections:
        teller = Teller(connection, f"{story}-{version}-", version)
        STORIES[story](teller)
        teller.final()  # leaves its slot
        told.append(teller.told)
    kafkas, ours = told
    assert ours == kafkas


def test_slots(connections: list[Connection]) -> None:
    """With all slots taken by sessions that are in use, a fetch gets none."""
    told = []
    for connection in connections:
        teller = Teller(connection, "slots-", BY_NAME)
        teller.make("t")
        found: list[int] = []
        for _ in range(SLOTS + 4):
            teller.session_id = 0
            teller.full(("t", 0, 0))
            found.append(teller.session_id)
        answers: list[Any] = [bool(one) for one in found]
        for session_id in found:
            if session_id:
                teller.session_id = session_id
                teller.final()
        answers += [told[1:3] for told in teller.told]
        told.append(answers)
    kafkas, ours = told
    assert ours == kafkas
