"""The console against visitors that leave, guess, or lose what let them in."""

import asyncio
import base64
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from broker.console import record_pages
from broker.console.entry import Doorkeeper, Entry
from broker.http.attempts import OF_A_HOST_MAX
from broker.http.routes import PageRules
from broker.lifecycle.shutdown import EXIT_CLEAN
from protocol.compression import ZSTD
from protocol.records import Record, build
from tests.support.console_client import ConsoleBroker, EventReader
from tests.support.http_client import HttpClient, get
from tests.unit.broker.test_console_actions import AUTHORIZER, USERS
from tests.unit.broker.test_console_records import append, records


@pytest.fixture
async def running(tmp_path: Path) -> AsyncIterator[ConsoleBroker]:
    found = await ConsoleBroker.start(tmp_path / "data")
    await found.post("topics/create", {"name": "one", "partitions": 1})
    yield found
    assert await found.stop() == EXIT_CLEAN


def console_of(running: ConsoleBroker) -> Any:
    http = running.broker._serving._http
    assert http is not None
    return http._surroundings.console


async def ends(running: ConsoleBroker) -> None:
    async with asyncio.timeout(20):
        while console_of(running).exports_now:
            await asyncio.sleep(0.01)


def search_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    async def forward(*_: Any, **__: Any) -> AsyncIterator[tuple[int, list[Any]]]:
        position = 0
        while True:
            await asyncio.sleep(0)
            position += 1
            yield position, []

    monkeypatch.setattr(record_pages.RecordSource, "forward", forward)


async def exporting(running: ConsoleBroker) -> HttpClient:
    client = await HttpClient.connect(running.port)
    cookie = [f"Cookie: {running.cookie}"] if running.cookie else []
    client.ask("/api/v1/export?topic=one&text=nowhere", *cookie)
    await client.reader.readuntil(b"\r\n\r\n")
    assert console_of(running).exports_now == 1
    return client


async def test_a_search_ends_when_its_visitor_leaves(
    running: ConsoleBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    search_without_end(monkeypatch)
    (await exporting(running)).close()
    await ends(running)


async def test_an_export_ends_with_the_login(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    running = await ConsoleBroker.start(
        tmp_path / "data", *USERS, AUTHORIZER, "super.users=User:admin"
    )
    await running.post("login", {"user": "admin", "password": "secret"})
    await running.post("topics/create", {"name": "one", "partitions": 1})
    search_without_end(monkeypatch)
    client = await exporting(running)
    await running.post("logout", {})
    await ends(running)
    client.close()
    assert await running.stop() == EXIT_CLEAN


async def test_a_record_far_into_a_batch_is_reached_in_steps(
    running: ConsoleBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = []
    skipped = record_pages.skipped

    def counted(*given: Any) -> Any:
        steps.append(given[-1])
        return skipped(*given)

    monkeypatch.setattr(record_pages, "skipped", counted)
    append(running, "one", build(records(20_000), codec=ZSTD))
    found = await running.get("message?topic=one&offset=19990")
    assert found["value"]["text"].startswith("v19990 ")
    assert len(steps) >= 19_990 // record_pages.SKIPPED
    assert set(steps) == {record_pages.SKIPPED}


async def test_one_large_batch_is_a_page(
    running: ConsoleBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A smaller window would read as much, and find nothing again."""
    monkeypatch.setattr(record_pages, "BYTES_MAX", 100_000)
    append(running, "one", build(records(9_000), codec=ZSTD))
    page = await running.get("messages?topic=one&limit=3")
    assert [one["offset"] for one in page["messages"]] == [8_999, 8_998, 8_997]


# -- passwords ---------------------------------------------------------------------------------


def basic(password: str) -> str:
    return "Authorization: Basic " + base64.b64encode(f"x:{password}".encode()).decode()


async def test_guesses_leave_room_for_others(tmp_path: Path) -> None:
    """Those of one host that are under way are bounded; the next is refused without a look."""
    running = await ConsoleBroker.start(tmp_path / "data", "barnabas.http.password=key")
    clients = [await HttpClient.connect(running.port) for _ in range(OF_A_HOST_MAX)]
    for client in clients:
        client.ask("/metrics", basic("wrong"))
    async with asyncio.timeout(20):
        while (await get(running.port, "/metrics", basic("key"))).status != 429:
            await asyncio.sleep(0)
    assert running.metrics.http_attempts_refused == 1
    assert (await get(running.port, "/healthz")).status == 200
    async with asyncio.timeout(20):
        assert {(await client.answer()).status for client in clients} == {401}
        while (await get(running.port, "/metrics", basic("key"))).status != 200:
            await asyncio.sleep(0.01)
    for client in clients:
        client.close()
    assert await running.stop() == EXIT_CLEAN


async def test_with_an_authorizer_the_password_opens_no_view(tmp_path: Path) -> None:
    """Not even where everybody may do everything: the password is Prometheus's."""
    running = await ConsoleBroker.start(
        tmp_path / "data", AUTHORIZER, "allow.everyone.if.no.acl.found=true",
        "barnabas.http.password=key",
    )  # fmt: skip
    assert (await running.get("session"))["entry"] == "closed"
    assert (await running.ask("/api/v1/topics", basic("key"))).status == 401
    await running.post("login", {"password": "key"}, 409)
    assert (await running.ask("/metrics", basic("key"))).status == 200
    assert await running.stop() == EXIT_CLEAN


@pytest.mark.parametrize("is_guest", [True, False])
async def test_what_the_password_opened_ends_when_there_are_users(
    running: ConsoleBroker, monkeypatch: pytest.MonkeyPatch, *, is_guest: bool
) -> None:
    await running.get("overview")
    keeper = console_of(running).keeper
    keeper._rules = PageRules((), "key", is_private=False)
    if not is_guest:
        await running.post("login", {"password": "key"})
    client = await HttpClient.connect(running.port)
    client.ask("/api/v1/events", basic("key") if is_guest else f"Cookie: {running.cookie}")
    reader = EventReader(client)
    assert await reader.head() == 200
    kinds = []
    async for kind, _ in reader.events():
        kinds.append(kind)
        if len(kinds) == 1:
            monkeypatch.setattr(Doorkeeper, "_jaas_users", lambda _: [{"alice": "wonder"}])
            assert keeper.entry is Entry.USER
    assert (kinds[0], kinds[-1]) == ("overview", "ended")
    reader.close()


# -- odd bodies --------------------------------------------------------------------------------

HALF = "\ud800x"


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("topics/create", {"name": HALF}),
        ("topics/create", {"name": "z", "configs": {HALF: HALF}}),
        ("topics/create", {"name": "z", "partitions": (1 << 31) - 1}),
        ("topics/create", {"name": "z", "partitions": 1 << 70}),
        ("topics/create", {"name": ""}),
        ("topics/delete", {"name": HALF, "confirm": HALF}),
        ("groups/delete", {"group": HALF, "confirm": HALF}),
        ("groups/delete", {"group": "", "confirm": ""}),
        ("groups/delete", {"group": "none", "confirm": "none"}),
        ("groups/reset", {"group": HALF, "topic": "one", "to": "earliest"}),
        ("groups/reset", {"group": "", "topic": "one", "to": "earliest"}),
        ("groups/reset", {"group": "none", "topic": "one", "to": "latest"}),
        ("configs/alter", {"type": "group", "name": HALF, "set": {"a": "1"}}),
        ("configs/alter", {"type": "topic", "name": "one", "set": {HALF: "1"}}),
        ("configs/alter", {"type": "topic", "name": "one", "set": {"retention.ms": HALF}}),
        ("configs/alter", {"type": "topic", "name": "one", "set": {"retention.ms": 1}}),
        ("configs/alter", {"type": "topic", "name": "one", "delete": [[]]}),
        ("configs/alter", {"type": "broker", "name": "no", "set": {"a": "1"}}),
        ("messages/produce", {"topic": "one", "value": HALF}),
        ("messages/produce", {"topic": "one", "timestamp": (1 << 63) - 1}),
        ("messages/produce", {"topic": "one", "timestamp": -(1 << 63)}),
        ("messages/produce", {"topic": HALF, "value": ""}),
    ],
)
async def test_no_body_is_more_than_refused(
    running: ConsoleBroker, path: str, body: dict[str, Any]
) -> None:
    answered = await running.ask(
        f"/api/v1/{path}", "Content-Type: application/json", "X-Barnabas: 1",
        f"Origin: http://127.0.0.1:{running.port}", method="POST", body=json.dumps(body).encode(),
    )  # fmt: skip
    assert 400 <= answered.status < 500, answered
    assert json.loads(answered.body)["error"]["message"]
    assert (running.metrics.unexpected_failures, running.metrics.request_errors) == (0, 0)


LARGEST = (1 << 63) - 1


@pytest.mark.parametrize(
    "query",
    [
        *(f"{name}?offset={LARGEST}" for name in
          ("topics", "groups", "clients", "client-metrics", "transactions")),
        f"topic?topic=one&offset={LARGEST}", f"messages?topic=one&offset={LARGEST}",
        f"messages?topic=one&timestamp={LARGEST}", f"message?topic=one&offset={LARGEST}",
        "message?topic=one&offset=0&partition=2147483647", f"export?topic=one&offset={LARGEST}",
        f"log?after={LARGEST}", "group?id=none", "group?id=", "configs?type=group&name=%ff",
        "messages?topic=one&cursor=0:9999999999999999999:9999999999999999999",
    ],
)  # fmt: skip
async def test_no_question_is_more_than_refused(running: ConsoleBroker, query: str) -> None:
    answered = await running.ask(f"/api/v1/{query}")
    assert 200 <= answered.status < 500, answered
    assert (running.metrics.unexpected_failures, running.metrics.request_errors) == (0, 0)


async def test_a_msgpack_value_is_unpacked_only_if_it_is_small(running: ConsoleBroker) -> None:
    for count, kind in ((10_000, "msgpack"), (100_000, "binary")):
        value = b"\xdd" + count.to_bytes(4, "big") + b"\x80" * count
        append(running, "one", build([Record(0, 7, None, value)]))
        offset = running.services.partitions.get("one", 0).log.end_offset - 1
        found = await running.get(f"message?topic=one&offset={offset}")
        assert found["value"]["kind"] == kind
