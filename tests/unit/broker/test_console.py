"""The console's door and its views of the broker: a broker in this process, asked over HTTP."""

import asyncio
import hashlib
import json
import logging
from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from benchmarks.console import FIRST_VISIT
from broker.console import console as console_module
from broker.console.endpoints import ENDPOINTS
from broker.console.overview_api import GROWTH_SECONDS, VERSION, disk_of
from broker.exposition.history import SERIES
from broker.lifecycle.shutdown import EXIT_CLEAN
from tests.support.console_client import ConsoleBroker, EventReader

ROOT = Path(__file__).parents[3]


@pytest.fixture
async def running(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> AsyncIterator[ConsoleBroker]:
    caplog.set_level(logging.INFO, "barnabas")
    found = await ConsoleBroker.start(tmp_path / "data")
    yield found
    assert await found.stop() == EXIT_CLEAN


# -- the door ----------------------------------------------------------------------------------


def write_headers(port: int, **changed: str | None) -> list[str]:
    headers: dict[str, str | None] = {
        "Content-Type": "application/json",
        "X-Barnabas": "1",
        "Origin": f"http://127.0.0.1:{port}",
    }
    headers.update({name.replace("_", "-"): value for name, value in changed.items()})
    return [f"{name}: {value}" for name, value in headers.items() if value is not None]


@pytest.mark.parametrize(
    ("changed", "status"),
    [
        ({}, 200),
        ({"Sec_Fetch_Site": "same-origin"}, 200),
        ({"Origin": None, "Sec_Fetch_Site": "same-origin"}, 200),
        ({"Content_Type": "application/json; charset=utf-8"}, 200),
        ({"Origin": None}, 403),
        ({"Origin": "null"}, 403),
        ({"Origin": "http://evil.example"}, 403),
        ({"Origin": "http://127.0.0.1:1"}, 403),
        ({"Sec_Fetch_Site": "cross-site"}, 403),
        ({"Sec_Fetch_Site": "same-site"}, 403),
        ({"X_Barnabas": None}, 403),
        ({"Content_Type": None}, 403),
        ({"Content_Type": "text/plain"}, 403),
        ({"Content_Type": "application/x-www-form-urlencoded"}, 403),
        ({"Content_Type": "multipart/form-data; boundary=application/json"}, 403),
    ],
)
async def test_a_write_must_come_from_our_page(
    running: ConsoleBroker, changed: dict[str, str | None], status: int
) -> None:
    headers = write_headers(running.port, **changed)
    answered = await running.ask("/api/v1/logout", *headers, method="POST", body=b"{}")
    assert answered.status == status


async def test_no_get_changes_anything_and_no_post_only_reads(running: ConsoleBroker) -> None:
    for endpoint in ENDPOINTS:
        method = "GET" if endpoint.writes else "POST"
        answered = await running.ask(endpoint.path, method=method, body=b"{}")
        assert answered.status == 405, endpoint.path
    for path in ("/api/v1/login", "/api/v1/logout"):
        assert (await running.ask(path)).status == 405


async def test_pages_of_other_sites_read_nothing(running: ConsoleBroker) -> None:
    for site in ("cross-site", "same-site"):
        answered = await running.ask("/api/v1/overview", f"Sec-Fetch-Site: {site}")
        assert answered.status == 403
        assert "access-control-allow-origin" not in answered.headers
    answered = await running.ask("/api/v1/overview", method="OPTIONS")
    assert answered.status == 405


async def test_answers_are_for_no_frame_and_no_cache(running: ConsoleBroker) -> None:
    for path in ("/", "/api/v1/overview", "/api/v1/nothing"):
        headers = (await running.ask(path)).headers
        assert "frame-ancestors 'none'" in headers["content-security-policy"]
        assert "default-src 'self'" in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["cross-origin-resource-policy"] == "same-origin"
        assert headers["cache-control"] == ("no-cache" if path == "/" else "no-store")


async def test_a_path_that_is_not_there_is_named(running: ConsoleBroker) -> None:
    found = await running.get("nothing", 404)
    assert found["error"]["code"] == "NO_SUCH_PATH"
    assert "/api/v1/overview" in found["error"]["message"]
    for path in ("/assets/../door.py", "/assets/%2e%2e/door.py", "/assets/", "/assets/nothing.js"):
        assert (await running.ask(path)).status == 404


async def test_a_foreign_host_gets_421(running: ConsoleBroker) -> None:
    for path in ("/", "/api/v1/overview", "/assets/page.js"):
        client_headers = ("Host: evil.example",)
        answered = await running.ask(path, *client_headers)
        assert answered.status in (400, 421)  # two Host headers are malformed


async def test_files_are_compressed_and_known_again(running: ConsoleBroker) -> None:
    plain = await running.ask("/")
    packed = await running.ask("/", "Accept-Encoding: gzip, br")
    assert packed.headers["content-encoding"] == "gzip"
    again = await running.ask("/", f"If-None-Match: {plain.headers['etag']}")
    assert (again.status, again.body) == (304, b"")
    head = await running.ask("/", method="HEAD")
    assert int(head.headers["content-length"]) == len(plain.body)


VENDORED = ROOT / "broker/console/page/vendor"


async def test_a_first_visit_transfers_at_most_60_kb(running: ConsoleBroker) -> None:
    sizes = {}
    for path in FIRST_VISIT:
        answered = await running.ask(path, "Accept-Encoding: gzip")
        assert answered.status == 200, path
        sizes[path] = len(answered.body) + 600  # headers of both sides, generously
    assert sum(sizes.values()) <= 60_000, sizes


def test_vendored_files_are_those_of_the_list() -> None:
    listed = json.loads((VENDORED / "list.json").read_text())
    found = {one["file"]: one["sha256"] for one in listed}
    there = {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest()
        for path in VENDORED.iterdir()
        if path.suffix in (".js", ".css")
    }
    assert there == found
    assert all(one["licence"] and one["version"] in one["file"] for one in listed)
    licences = (VENDORED / "LICENSES.txt").read_text()
    assert licences.count("Permission is hereby granted") == 2
    assert "Apache License" in licences


def test_the_page_asks_nobody_else_and_has_no_code_of_its_own_inline() -> None:
    page = ROOT / "broker/console/page"
    html = (page / "index.html").read_text()
    assert "<style" not in html
    assert html.count("<script") == html.count('<script type="module" src="/assets/')
    for path in page.glob("*.*"):
        text = path.read_text().replace("http://www.w3.org/2000/svg", "")
        assert "http:" not in text, path
        assert "https:" not in text, path
        for word in ("innerHTML", "dangerouslySetInnerHTML", "eval(", "document.write"):
            assert word not in text, (path, word)


# -- views -------------------------------------------------------------------------------------


async def sampled(running: ConsoleBroker) -> None:
    async with asyncio.timeout(20):
        while not running.broker._serving._http._surroundings.history.seconds.last_ms:  # type: ignore[union-attr]
            await asyncio.sleep(0.02)


async def test_the_overview_is_the_brokers_state(running: ConsoleBroker) -> None:
    await sampled(running)
    found = await running.get("overview")
    assert found["version"] == VERSION
    assert f'version = "{VERSION}"' in (ROOT / "pyproject.toml").read_text()
    assert found["state"] == "running"
    assert found["notices"] == [] or found["notices"][0]["level"] == "warning"
    assert set(found["rates"]) == set(SERIES)
    assert found["resident_bytes"] > 1 << 20
    history = await running.get("history?range=15m")
    assert history["step_s"] == 1
    assert {len(column) for column in history["series"].values()} == {1} or history["last_ms"]
    assert (await running.get("history?range=24h"))["step_s"] == 60
    await running.get("history?range=1y", 400)


@pytest.mark.parametrize(
    ("growth", "free", "full_in_s"),
    [(1_000, 60_000, 60), (0, 60_000, None), (-5, 60_000, None), (1, 1 << 40, None)],
)
def test_the_disk_is_full_at_the_present_pace(
    growth: int, free: int, full_in_s: int | None
) -> None:
    sizes = [7_000 + growth * second for second in range(GROWTH_SECONDS)]
    console: Any = SimpleNamespace(
        history=SimpleNamespace(
            seconds=SimpleNamespace(column=lambda _: sizes), totals=(0, 0, 0, sizes[-1])
        ),
        surroundings=SimpleNamespace(pulse=SimpleNamespace(free_bytes=free)),
    )
    disk = disk_of(console)
    assert (disk["growth"], disk["full_in_s"]) == (growth, full_in_s)


async def test_events_come_each_second_and_the_viewers_are_bounded(
    running: ConsoleBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(console_module, "VIEWERS_MAX", 2)
    viewers = [await EventReader.connect(running, "/api/v1/events") for _ in range(2)]
    for viewer in viewers:
        assert await viewer.head() == 200
        async for kind, found in viewer.events():
            assert kind == "overview"
            assert found["state"] == "running"
            break
    refused = await EventReader.connect(running, "/api/v1/events")
    assert await refused.head() == 503
    assert (running.metrics.http_viewers_now, running.metrics.http_viewers_refused) == (2, 1)
    for viewer in (*viewers, refused):
        viewer.close()
    async with asyncio.timeout(20):
        while running.metrics.http_viewers_now:  # told by the next event
            await asyncio.sleep(0.02)


async def test_connections_are_listed(running: ConsoleBroker) -> None:
    clients = [await asyncio.open_connection("127.0.0.1", running.kafka_port) for _ in range(3)]
    found: dict[str, Any] = {}
    async with asyncio.timeout(20):
        while found.get("total") != 3:
            found = await running.get("clients")
    assert found["clients"][0]["listener"] == "PLAINTEXT"
    assert found["clients"][0]["software_name"] == "unknown"
    assert found["clients"][0]["since_ms"] > 0
    second = await running.get("clients?offset=1&limit=1")
    assert [one["port"] for one in second["clients"]] == [found["clients"][1]["port"]]
    await running.get("clients?limit=1000000", 400)
    await running.get("clients?offset=-1", 400)
    await running.get("clients?offset=%ff", 400)
    for _, writer in clients:
        writer.close()


async def test_the_log_can_be_followed(running: ConsoleBroker) -> None:
    lines = (await running.get("log"))["lines"]
    assert any("listening on PLAINTEXT" in line["message"] for line in lines)
    after = await running.get(f"log?after={lines[-1]['number']}")
    assert after["lines"] == []
    # Another broker's numbers begin again: what tells them apart is when it started.
    assert after["started_ms"] == (await running.get("overview"))["started_ms"] > 0


async def test_session_of_an_open_console(running: ConsoleBroker) -> None:
    found = await running.get("session")
    assert found["entry"] == "open"
    assert found["may_write"] is True
    assert found["principal"] == "User:ANONYMOUS"
    refused = await running.post("login", {"user": "a", "password": "b"}, 409)
    assert refused["error"]["code"] == "NO_LOGIN"


async def test_a_body_that_is_no_json_is_refused(running: ConsoleBroker) -> None:
    for body in (b"", b"{", b"[]", b"1", b"[" * 10_000, b"\xff\xfe", b'{"password": 5}'):
        answered = await running.ask(
            "/api/v1/login", *write_headers(running.port), method="POST", body=body
        )
        assert answered.status == 400, body[:10]
        assert json.loads(answered.body)["error"]["code"] == "BAD_REQUEST"
