"""Streams of the console while their topic, or the right to read it, goes."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from broker.console import message_choice, messages_api, record_pages
from broker.console.answers import ConsoleError
from broker.console.message_choice import OFFLINE
from broker.lifecycle.shutdown import EXIT_CLEAN
from broker.security.acl.acl_codes import AclOperation, PatternType, PermissionType, ResourceType
from broker.security.acl.acl_entry import AclEntry
from client.kafka import admin
from client.kafka.connection import Connection
from protocol.records import build
from tests.support.console_client import ConsoleBroker, EventReader
from tests.support.http_client import HttpClient
from tests.unit.broker.test_console_records import append, flush, records

LAST_CHUNK = b"0\r\n\r\n"


@pytest.fixture
async def running(tmp_path: Path) -> AsyncIterator[ConsoleBroker]:
    found = await ConsoleBroker.start(tmp_path / "data")
    await found.post("topics/create", {"name": "one", "partitions": 1})
    yield found
    assert await found.stop() == EXIT_CLEAN


async def test_a_tail_ends_with_the_right_to_read(tmp_path: Path) -> None:
    running = await ConsoleBroker.start_with_users(tmp_path / "data")
    authorizer = running.services.authorizer
    assert authorizer is not None
    entry = AclEntry(
        ResourceType.TOPIC, "one", PatternType.LITERAL, "User:alice", "*",
        AclOperation.READ, PermissionType.ALLOW,
    )  # fmt: skip
    authorizer.add(entry)
    await running.post("login", {"user": "admin", "password": "secret"})
    await running.post("topics/create", {"name": "one", "partitions": 1})
    await running.post("login", {"user": "alice", "password": "wonder"})
    reader = await EventReader.connect(running, "/api/v1/tail?topic=one")
    assert await reader.head() == 200

    async def end() -> None:
        authorizer.remove(entry)
        append(running, "one", build(records(1)))

    kinds = await reader.kinds(end)
    assert kinds == ["begun", "ended"]
    reader.close()
    assert await running.stop() == EXIT_CLEAN


async def test_a_tail_goes_on_with_a_topic_that_is_created_again(running: ConsoleBroker) -> None:
    append(running, "one", build(records(3)))
    reader = await EventReader.connect(running, "/api/v1/tail?topic=one")
    assert await reader.head() == 200
    events = reader.events()
    assert (await anext(events))[0] == "begun"
    await running.post("topics/delete", {"name": "one", "confirm": "one"})
    await running.post("topics/create", {"name": "one", "partitions": 1})
    append(running, "one", build(records(2)))
    seen: list[int] = []
    count = 0
    async for kind, found in events:
        count += 1
        assert kind == "messages"
        assert count < 5
        seen += [one["offset"] for one in found["messages"]]
        if seen:
            break
    assert seen == [0, 1]
    reader.close()


def grow(port: int) -> None:
    with Connection(f"127.0.0.1:{port}", 30.0) as connection:
        admin.add_partitions(connection, "one", 2, validate_only=False)


async def test_a_tail_waits_for_partitions_that_are_being_opened(
    running: ConsoleBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are known before they are open, and then read from their start."""
    reader = await EventReader.connect(running, "/api/v1/tail?topic=one")
    assert await reader.head() == 200
    events = reader.events()
    assert (await anext(events))[0] == "begun"
    services, partitions_of = running.services, messages_api.partitions_of

    def unopened(*_: Any) -> Any:
        raise ConsoleError(503, OFFLINE, "not yet")

    monkeypatch.setattr(messages_api, "partitions_of", unopened)
    await asyncio.to_thread(grow, running.kafka_port)
    assert (await anext(events))[1]["messages"] == []
    monkeypatch.setattr(messages_api, "partitions_of", partitions_of)
    new = services.partitions.get("one", 1)
    new.log.append(memoryview(build(records(2))), services.clock.now_ms())
    flush(new)
    seen: list[tuple[int, int]] = []
    while not seen:
        kind, found = await anext(events)
        assert kind == "messages"
        seen += [(one["partition"], one["offset"]) for one in found["messages"]]
    assert seen == [(1, 0), (1, 1)]
    reader.close()


async def test_a_tail_takes_nothing_old_for_new_when_it_follows_other_partitions(
    running: ConsoleBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a large topic, those with the most records are followed, chosen again when one opens."""
    monkeypatch.setattr(message_choice, "PARTITIONS_MAX", 1)
    await asyncio.to_thread(grow, running.kafka_port)
    services = running.services
    append(running, "one", build(records(3)))
    reader = await EventReader.connect(running, "/api/v1/tail?topic=one")
    assert await reader.head() == 200
    events = reader.events()
    assert (await anext(events))[0] == "begun"
    other = services.partitions.get("one", 1)
    other.log.append(memoryview(build(records(5))), services.clock.now_ms())
    flush(other)
    await running.post("topics/create", {"name": "two", "partitions": 1})
    seen: list[tuple[int, int]] = []
    for number in range(5, 15):
        seen += [(one["partition"], one["offset"]) for one in (await anext(events))[1]["messages"]]
        if seen:
            break
        other.log.append(memoryview(build(records(1, number))), services.clock.now_ms())
        flush(other)
    assert seen
    assert min(seen) >= (1, 5)
    reader.close()


async def cut_off(
    running: ConsoleBroker, monkeypatch: pytest.MonkeyPatch, goes: Callable[[], Awaitable[Any]]
) -> bytes:
    """Return an export of several fetches in the middle of which something goes."""
    for start in range(0, 3000, 1000):
        append(running, "one", build(records(1000, start)))
    monkeypatch.setattr(record_pages, "FETCHED_BYTES", 100)
    fetch = record_pages.RecordSource.fetch

    async def at_last(self: Any, partition: int, offset: int, bytes_max: int) -> Any:
        if offset >= 2000:
            await goes()
        return await fetch(self, partition, offset, bytes_max)

    monkeypatch.setattr(record_pages.RecordSource, "fetch", at_last)
    client = await HttpClient.connect(running.port)
    client.ask("/api/v1/export?topic=one", f"Cookie: {running.cookie}")
    body = await client.reader.read(-1)
    client.close()
    return body


async def test_an_export_whose_topic_goes_is_not_taken_for_whole(
    running: ConsoleBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    body = await cut_off(
        running,
        monkeypatch,
        lambda: running.post("topics/delete", {"name": "one", "confirm": "one"}),
    )
    assert body.startswith(b"HTTP/1.1 200 ")
    assert not body.endswith(LAST_CHUNK)


async def test_an_export_whose_login_ends_is_not_taken_for_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    running = await ConsoleBroker.start_with_users(tmp_path / "data")
    await running.post("login", {"user": "admin", "password": "secret"})
    await running.post("topics/create", {"name": "one", "partitions": 1})
    body = await cut_off(running, monkeypatch, lambda: running.post("logout", {}))
    assert body.startswith(b"HTTP/1.1 200 ")
    assert not body.endswith(LAST_CHUNK)
    assert await running.stop() == EXIT_CLEAN
