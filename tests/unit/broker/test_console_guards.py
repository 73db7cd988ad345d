"""The console against visitors that leave, guess, or lose what let them in."""

import asyncio
import base64
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from broker.console import record_pages, topics_api, walks
from broker.console.console import BUSY_NS
from broker.console.entry import Doorkeeper, Entry
from broker.console.messages_api import EXPORTS_MAX
from broker.http.attempts import OF_A_HOST_MAX
from broker.http.routes import PageRules
from broker.lifecycle.shutdown import EXIT_CLEAN
from broker.runtime.clock import ManualClock
from broker.security.acl.acl_codes import AclOperation, PatternType, PermissionType, ResourceType
from broker.security.acl.acl_entry import AclEntry
from protocol import records as records_module
from protocol.compression import ZSTD
from protocol.records import Record, build
from tests.support.console_client import AUTHORIZER, USERS, ConsoleBroker, EventReader
from tests.support.console_groups import commit
from tests.support.http_client import HttpClient, get
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


async def test_exports_that_are_asked_for_with_a_password_are_bounded_too(
    running: ConsoleBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their answers come a turn of the loop later, when others may have begun."""
    search_without_end(monkeypatch)
    await running.get("overview")
    clients = [await HttpClient.connect(running.port) for _ in range(5)]
    for client in clients:
        client.ask("/api/v1/export?topic=one&text=nowhere", "Authorization: Basic eDp5")
    for client in clients:
        await client.reader.read(1)
    assert console_of(running).exports_now <= EXPORTS_MAX
    for client in clients:
        client.close()
    await ends(running)


async def test_an_export_ends_with_the_login(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    running = await ConsoleBroker.start_with_users(tmp_path / "data")
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
    skipped = records_module.skipped

    def counted(*given: Any) -> Any:
        steps.append(given[-1])
        return skipped(*given)

    monkeypatch.setattr(record_pages, "skipped", counted)
    append(running, "one", build(records(20_000), codec=ZSTD))
    found = await running.get("message?topic=one&offset=19990")
    assert found["value"]["text"].startswith("v19990 ")
    assert len(steps) >= 19_990 // record_pages.SKIPPED
    assert set(steps) == {record_pages.SKIPPED}


async def test_a_batch_without_what_is_looked_for_is_not_opened(
    running: ConsoleBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = []
    iterate = records_module.iterate

    def counted(header: Any, *given: Any, **named: Any) -> Any:
        opened.append(header.base_offset)
        return iterate(header, *given, **named)

    monkeypatch.setattr(record_pages, "iterate", counted)
    for start in range(0, 100, 10):
        append(running, "one", build(records(10, start), codec=ZSTD if start % 20 else 0))
    for order in ("newest", "oldest"):
        page = await running.get(f"messages?topic=one&order={order}&text=v43%20&limit=1")
        assert [one["offset"] for one in page["messages"]] == [43]
        assert set(opened) == {40}
        assert page["looked_at"] >= 50
    (line,) = (await running.ask("/api/v1/export?topic=one&key=k77")).body.splitlines()
    assert json.loads(line)["offset"] == 77


async def test_a_search_rests_while_clients_ask(running: ConsoleBroker) -> None:
    await running.get("overview")
    console = console_of(running)
    running.metrics.requests_received += 1
    await console.rest()
    assert console._busy_until_ns > running.services.clock.monotonic_ns() - BUSY_NS
    console._busy_until_ns = 0
    before = running.metrics.requests_received
    await running.get("configs?type=topic&name=one")  # the console's own requests are not clients'
    assert running.metrics.requests_received > before
    await console.rest()
    assert console._busy_until_ns == 0


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


async def test_a_strangers_login_is_read_only_if_it_is_small(tmp_path: Path) -> None:
    running = await ConsoleBroker.start(tmp_path / "data", *USERS, AUTHORIZER)
    longest = "\u00e9" * 1_024  # which JSON escapes with six characters each
    await running.post("login", {"user": longest, "password": longest}, 401)
    found = await running.post(
        "login", {"user": "alice", "password": "x", "more": [0] * 9_000}, 413
    )
    assert found["error"]["code"] == "TOO_LARGE"
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

    async def end() -> None:
        monkeypatch.setattr(Doorkeeper, "_jaas_users", lambda _: [{"alice": "wonder"}])
        assert keeper.entry is Entry.USER

    kinds = await reader.kinds(end)
    assert (kinds[0], kinds[-1]) == ("overview", "ended")
    reader.close()


# -- odd bodies --------------------------------------------------------------------------------

HALF = "\ud800x"


async def test_a_body_that_would_take_long_to_read_is_refused(running: ConsoleBroker) -> None:
    for path, body in (
        ("groups/delete", {"group": "g" * 65_536, "confirm": ""}),
        ("messages/produce", {"topic": "one", "value": [[]] * 100_000}),
        ("messages/import", {"topic": "one", "records": [{}] * 100_000}),
    ):
        refused = await running.post(path, body, 413)
        assert refused["error"]["code"] == "TOO_LARGE"
    await running.post("messages/produce", {"topic": "one", "value": "{[" * 40_000})


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


# -- lists -------------------------------------------------------------------------------------


async def test_a_list_is_walked_over_once_for_all_and_again_after_a_change(
    running: ConsoleBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    walks = []
    summed = topics_api._summed

    async def counted(console: Any, topic: Any, turns: Any) -> Any:
        walks.append(topic.name)
        return await summed(console, topic, turns)

    monkeypatch.setattr(topics_api, "_summed", counted)
    await running.post("topics/create", {"name": "two", "partitions": 1})
    found = await asyncio.gather(*(running.get("topics") for _ in range(5)))
    assert [one["total"] for one in found] == [2] * 5
    assert sorted(walks) == ["one", "two"]
    await running.post("topics/delete", {"name": "two", "confirm": "two"})
    assert (await running.get("topics"))["total"] == 1


async def test_pages_of_many_rows_are_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(walks, "SORTED", 7)
    rows = [(n * 7_919) % 1_009 for n in range(1_009)]
    turns = walks.Turns(ManualClock())
    for offset in (0, 5, 1_000, 2_000):
        page = await walks.page_of_rows(rows, lambda row: -row, offset, 10, turns)
        assert page == sorted(rows, reverse=True)[offset : offset + 10]


def allowed(resource: ResourceType, name: str, operation: AclOperation) -> AclEntry:
    return AclEntry(
        resource, name, PatternType.LITERAL, "User:alice", "*", operation, PermissionType.ALLOW
    )


async def test_a_list_tells_nothing_of_topics_that_may_not_be_seen(tmp_path: Path) -> None:
    running = await ConsoleBroker.start(
        tmp_path / "data", *USERS, AUTHORIZER, "super.users=User:admin;User:ANONYMOUS"
    )
    await running.post("login", {"user": "admin", "password": "secret"})
    for name in ("seen", "secret"):
        await running.post("topics/create", {"name": name, "partitions": 1})
        append(running, name, build(records(9)))
        await commit(running, "readers", name, {0: 4})
    assert (await running.get("groups"))["groups"][0]["lag"] == 10
    assert (await running.get("group?id=readers"))["lag_history"]["step_s"] == 10
    authorizer = running.services.authorizer
    assert authorizer is not None
    authorizer.add(allowed(ResourceType.GROUP, "readers", AclOperation.DESCRIBE))
    authorizer.add(allowed(ResourceType.TOPIC, "seen", AclOperation.DESCRIBE))
    await running.post("logout", {})
    await running.post("login", {"user": "alice", "password": "wonder"})
    (row,) = (await running.get("groups"))["groups"]
    assert (row["lag"], row["topics"]) == (5, 1)
    found = await running.get("group?id=readers")
    assert "secret" not in json.dumps(found)
    assert found["lag"] == 5
    (topic,) = (await running.get("topics"))["topics"]
    assert (topic["name"], topic["retention_ms"]) == ("seen", None)
    authorizer.add(allowed(ResourceType.TOPIC, "seen", AclOperation.DESCRIBE_CONFIGS))
    assert (await running.get("topic?topic=seen"))["retention_ms"] == 604_800_000
    for name in ("secret", "not-there"):
        body = {"group": "readers", "topic": name, "to": "earliest", "dry_run": True}
        await running.post("groups/reset", body, 403)
    assert await running.stop() == EXIT_CLEAN


# -- import ------------------------------------------------------------------------------------


async def test_what_was_exported_is_imported(running: ConsoleBroker) -> None:
    await running.post("topics/create", {"name": "two", "partitions": 3})
    kept = [
        Record(
            0,
            7,
            b"k%d" % n,
            None if n % 3 else b"\xff%d" % n,
            (("h", b"x"), ("n", None), ("b", b"\xff")),
        )
        for n in range(40)
    ]
    append(running, "one", build(kept))
    lines = (await running.ask("/api/v1/export?topic=one")).body.splitlines()
    given = [
        {name: value for name, value in json.loads(line).items() if name != "partition"}
        for line in lines
    ]
    made = await running.post("messages/import", {"topic": "two", "records": given})
    assert made == {"topic": "two", "produced": 40}
    found = [
        json.loads(line)
        for line in (await running.ask("/api/v1/export?topic=two")).body.splitlines()
    ]
    assert {one["partition"] for one in found} == {0, 1, 2}
    strip = ("partition", "offset")
    told = [{k: v for k, v in one.items() if k not in strip} for one in (*given, *found)]
    assert sorted(map(str, told[:40])) == sorted(map(str, told[40:]))


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ([], "0 records"), ([{}] * 501, "501 records"), ([1], "records[0] is no object"),
        ([{}, {"value": 5}], "records[1]: value"), ([{"partition": 9}], "records[0]: partition"),
        ([{"headers": [{"name": 5}]}], "records[0]: headers"), ("x", "expected a list"),
        ([{"headers": [{"name": "h", "value": 5}]}], "records[0]: value"),
        ([{"value": "v"}, {"problem": {}}], "records[1] tells of records that the export could"),
        ([{"key": "k" * 65_537}], "records[0]: key has 65537 bytes"),
    ],
)  # fmt: skip
async def test_an_import_that_is_wrong_appends_nothing(
    running: ConsoleBroker, given: Any, said: str
) -> None:
    refused = await running.post("messages/import", {"topic": "one", "records": given}, 400)
    assert said in refused["error"]["message"]
    assert running.services.partitions.get("one", 0).log.end_offset == 0


# -- a broker in trouble -----------------------------------------------------------------------


async def test_a_full_disk_and_an_offline_log_are_said_and_everything_answers(
    tmp_path: Path,
) -> None:
    running = await ConsoleBroker.start(tmp_path / "data")
    await running.post("topics/create", {"name": "one", "partitions": 2})
    await running.post("messages/produce", {"topic": "one", "value": "x", "partition": 1})
    assert await running.stop() == EXIT_CLEAN
    (path,) = (tmp_path / "data").glob("one-0/*.log")
    path.unlink()
    path.mkdir()
    running = await ConsoleBroker.start(tmp_path / "data")
    running.metrics.disk_full_now = 1
    told = json.dumps((await running.get("overview"))["notices"])
    assert "The disk is full" in told
    assert "1 partitions are offline: one-0" in told
    assert (await running.get("disk"))["is_full"]
    assert (await running.get("topics"))["topics"][0]["offline"] == 1
    first, second = (await running.get("topic?topic=one"))["list"]
    assert (first["is_offline"], second["is_offline"]) == (True, False)
    assert len((await running.get("messages?topic=one"))["messages"]) == 1
    await running.get("messages?topic=one&partition=0", 503)
    for path_asked in ("groups", "clients", "log", "configs", "history", "transactions"):
        await running.get(path_asked)
    lines = (await running.ask("/metrics")).body.decode().splitlines()
    assert "barnabas_disk_full 1" in lines
    assert "kafka_server_replicamanager_offlinereplicacount 1" in lines
    await running.stop()
