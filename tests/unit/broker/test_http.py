"""The HTTP listener of a whole broker: pages, what is checked before them, and bad input.

A broker runs in this process with its sockets; the client sends raw bytes. In each case of bad
input, a healthy client is answered meanwhile, and the broker holds nothing afterwards.
"""

import asyncio
import base64
import signal
import socket
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from broker.http import http_connection, http_listener, routes
from broker.http.host_check import host_name, is_for_us
from broker.http.http_messages import HttpAnswer, HttpRequest
from broker.http.password_check import refusal
from broker.http.routes import PageRules, answer_to
from broker.lifecycle.environment import system_environment
from broker.lifecycle.shutdown import EXIT_CLEAN
from broker.runtime.metrics import Metrics
from broker.server import Broker
from tests.support import failures
from tests.support.http_client import HttpClient, get
from tests.support.whole_broker import loaded, served

ON = "barnabas.http.listener=127.0.0.1:0"


class Running:
    """A broker with HTTP, and its port."""

    def __init__(self, broker: Broker, task: asyncio.Task[int]) -> None:
        self.broker = broker
        self.task = task
        assert broker._http is not None
        self.port: int = broker._http.getsockname()[1]
        self.metrics: Metrics = broker._assembly.services.metrics

    async def stop(self) -> int:
        task = asyncio.current_task()  # of a fixture, perhaps: not the broker's
        assert task is not None
        self.broker._shutdown._tasks_before.add(task)
        self.broker._signals.received(signal.SIGTERM)
        async with asyncio.timeout(20):
            return await self.task

    async def is_at_rest(self) -> None:
        async with asyncio.timeout(20):
            while self.metrics.http_connections_now:
                await asyncio.sleep(0.005)


async def started(directory: Path, *settings: str) -> Running:
    broker = Broker(loaded(directory, *settings), system_environment())
    return Running(broker, await served(broker))


@pytest.fixture
async def running(tmp_path: Path) -> AsyncIterator[Running]:
    found = await started(tmp_path / "data", ON)
    yield found
    await found.is_at_rest()
    assert await found.stop() == EXIT_CLEAN


async def test_the_broker_is_healthy_and_ready(running: Running) -> None:
    healthy = await get(running.port, "/healthz")
    assert (healthy.status, healthy.body) == (200, b"healthy\n")
    ready = await get(running.port, "/readyz")
    assert (ready.status, ready.body) == (200, b"ready\n")
    assert ready.headers["x-content-type-options"] == "nosniff"
    assert ready.headers["cache-control"] == "no-store"
    assert "frame-ancestors 'none'" in ready.headers["content-security-policy"]
    assert "access-control-allow-origin" not in ready.headers


async def test_requests_of_one_connection_are_answered_in_their_order(running: Running) -> None:
    client = await HttpClient.connect(running.port)
    client.ask("/healthz")
    client.ask("/readyz")
    client.ask("/nothing")
    client.ask("/healthz", method="HEAD")
    client.ask("/healthz")
    found = [await client.answer() for _ in range(3)]
    head = await client.answer(is_head=True)
    last = await client.answer()
    assert [one.status for one in found] == [200, 200, 404]
    assert b"/healthz" in found[2].body
    assert head.headers["content-length"] == "8"
    assert last.body == b"healthy\n"
    client.close()


@pytest.mark.parametrize(
    ("method", "path", "headers", "status"),
    [
        ("POST", "/healthz", ["Content-Length: 3"], 405),
        ("BREW", "/healthz", [], 405),
        ("CONNECT", "localhost:1", [], 400),
        ("OPTIONS", "*", [], 400),
        ("GET", "http://localhost/healthz", [], 400),
        ("GET", "/nothing", [], 404),
        ("GET", "/%2e%2e/healthz", [], 404),
        ("GET", "/healthz?" + "a=1&" * 1_001, [], 400),
        ("GET", "/healthz?a=%ff&b=%00<script>", [], 200),
        ("GET", "/" + "x" * 40_000, [], 431),
        ("GET", "/healthz", ["X: " + "y" * 40_000], 431),
        ("GET", "/healthz", ["Host: second"], 400),
        ("GET", "/healthz", ["Content-Length: 5", "Content-Length: 6"], 400),
        ("GET", "/healthz", ["Content-Length: many"], 400),
        ("GET", "/healthz", ["Transfer-Encoding: gzip"], 501),
        ("GET", "/healthz", ["no colon"], 400),
        ("GET", "/healthz", ["a: b\0c"], 400),
        ("GET", "/healthz", [f"X-{number}: 1" for number in range(5_000)], 431),
    ],
)
async def test_a_bad_request_is_answered(
    running: Running, method: str, path: str, headers: list[str], status: int
) -> None:
    client = await HttpClient.connect(running.port)
    client.ask(path, *headers, method=method)
    client.send(b"abc" if method == "POST" else b"")
    async with asyncio.timeout(20):
        assert (await client.answer()).status == status
    assert (await get(running.port, "/healthz")).status == 200
    client.close()


@pytest.mark.parametrize(
    "sent",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",  # the hello of TLS
        b"\x00\x00\x00\x14\x00\x12\x00\x03\x00\x00\x00\x01",  # a request of Kafka's
        b"GET /healthz HTTP/9.9\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\n\r\n",  # no Host
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"\r\n" * 20_000,
    ],
)
async def test_what_is_no_request_ends_its_connection(running: Running, sent: bytes) -> None:
    client = await HttpClient.connect(running.port)
    client.send(sent)
    client.send(b"\r\n\r\n")
    async with asyncio.timeout(20):
        assert (await client.answer()).status in (400, 431, 505)
        assert await client.is_closed()
    assert (await get(running.port, "/healthz")).status == 200
    client.close()


async def test_a_body_is_bounded(running: Running) -> None:
    for framing in ("Content-Length: 3000000", "Transfer-Encoding: chunked"):
        client = await HttpClient.connect(running.port)
        client.ask("/healthz", framing, "Expect: 100-continue", method="POST")
        async with asyncio.timeout(20):
            assert (await client.answer(is_head=True)).status == 100
            piece = b"x" * 65536
            for _ in range(40):
                chunk = b"%x\r\n%b\r\n" % (len(piece), piece)
                client.send(piece if framing.startswith("Content") else chunk)
            assert (await client.answer()).status == 413
        client.close()
    assert running.metrics.http_requests_refused == 2


async def test_a_slow_request_is_ended_at_its_deadline(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_connection, "REQUEST_SECONDS", 0.2)
    client = await HttpClient.connect(running.port)
    async with asyncio.timeout(20):
        sending = asyncio.create_task(drip(client))
        assert (await client.answer()).status == 408
        assert await client.is_closed()
        await sending
    assert running.metrics.http_timeouts == 1
    client.close()


async def drip(client: HttpClient) -> None:
    """One byte of an endless header at a time."""
    client.send(b"GET /healthz HTTP/1.1\r\nX: ")
    for _ in range(10):
        client.send(b"y")
        await asyncio.sleep(0.05)


async def test_an_idle_connection_is_ended(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_connection, "IDLE_SECONDS", 0.1)
    client = await HttpClient.connect(running.port)
    async with asyncio.timeout(20):
        assert await client.is_closed()
    client.close()


async def test_a_body_in_chunks_of_one_byte_is_read_in_turns(running: Running) -> None:
    client = await HttpClient.connect(running.port)
    client.ask("/healthz", "Transfer-Encoding: chunked", method="POST")
    client.send(b"1\r\nx\r\n" * 4_000 + b"0\r\n\r\n")
    answer = asyncio.ensure_future(client.answer())
    turns = 0
    async with asyncio.timeout(20):
        while not answer.done():
            turns += 1
            await asyncio.sleep(0)
    assert (await answer).status == 405
    assert turns >= 4_000 // http_connection.BODY_PIECES_EACH
    client.close()


async def test_half_a_request_holds_nothing_when_its_client_goes(running: Running) -> None:
    for sent in (b"", b"GET", b"GET /healthz HTTP/1.1\r\nHost: x\r\n", b"\r\n"):
        client = await HttpClient.connect(running.port)
        client.send(sent)
        await client.writer.drain()
        client.close()
    await running.is_at_rest()


async def test_many_connections_displace_those_that_wait_for_their_clients(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_listener, "CONNECTIONS_MAX", 8)
    clients = []
    for _ in range(300):
        clients.append(await HttpClient.connect(running.port))
        assert running.metrics.http_connections_now <= 8
    assert (await get(running.port, "/healthz")).status == 200
    assert running.metrics.http_connections_displaced > 200
    for client in clients:
        client.close()


@pytest.mark.slow
async def test_ten_thousand_connections_leave_room_for_a_healthy_client(running: Running) -> None:
    """Each sends half a request, and stays as long as it may: 64 are open at a time."""

    def flood(number: int) -> int:
        held = []
        for _ in range(number):
            sock = socket.create_connection(("127.0.0.1", running.port))
            sock.sendall(b"GET /metrics HTTP/1.1\r\nX: ")
            held.append(sock)
            if len(held) > 400:
                held.pop(0).close()
        for sock in held:
            sock.close()
        return number

    floods = [asyncio.create_task(asyncio.to_thread(flood, 2_500)) for _ in range(4)]
    answered = 0
    while not all(one.done() for one in floods):
        assert running.metrics.http_connections_now <= http_listener.CONNECTIONS_MAX
        assert (await get(running.port, "/healthz")).status == 200
        answered += 1
    assert sum([await one for one in floods]) == 10_000
    assert answered > 0
    assert running.metrics.http_connections_displaced > 9_000


def endless(request: HttpRequest, surroundings: Any) -> HttpAnswer:
    def pieces() -> Any:
        while True:
            yield "x" * 4096  # 64 a slice

    return HttpAnswer(200, pieces())


async def test_a_client_that_does_not_read_is_ended_and_the_page_with_it(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_connection, "SEND_SECONDS", 0.2)
    monkeypatch.setitem(vars(routes._BY_PATH["/healthz"]), "answer", endless)
    client = await HttpClient.connect(running.port, limit=1024)
    client.ask("/healthz")
    async with asyncio.timeout(30):
        while not running.metrics.http_timeouts:
            assert (await get(running.port, "/readyz")).status == 200
            await asyncio.sleep(0.02)
    client.close()


async def test_a_connection_that_is_answered_is_not_displaced(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_listener, "CONNECTIONS_MAX", 1)
    monkeypatch.setitem(vars(routes._BY_PATH["/healthz"]), "answer", endless)
    client = await HttpClient.connect(running.port)
    client.ask("/healthz")
    await client.reader.readexactly(100_000)
    other = await HttpClient.connect(running.port)
    async with asyncio.timeout(20):
        assert await other.is_closed()
    assert running.metrics.http_connections_refused == 1
    client.close()
    other.close()


async def test_pages_take_turns_with_the_loop_and_each_other(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many are asked for, a turn of the loop runs one slice of one of them."""
    slices = []
    made = http_connection.HttpConnection._slice

    def counted(self: Any, pieces: Any) -> Any:
        slices.append(turn)
        return made(self, pieces)

    monkeypatch.setattr(http_connection.HttpConnection, "_slice", counted)
    monkeypatch.setitem(vars(routes._BY_PATH["/healthz"]), "answer", endless)
    turn = 0
    clients = [await HttpClient.connect(running.port) for _ in range(8)]
    for client in clients:
        client.ask("/healthz")

    async def read(client: HttpClient) -> None:
        await client.reader.readexactly(2_000_000)

    reading = asyncio.gather(*map(read, clients))
    while not reading.done():
        turn += 1
        await asyncio.sleep(0)
    await reading
    assert len(slices) >= 8 * 8
    assert max(map(slices.count, set(slices))) == 1
    for client in clients:
        client.close()


async def test_a_page_that_fails_is_answered_and_reported(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(request: HttpRequest, surroundings: Any) -> HttpAnswer:
        raise ValueError("a defect")

    def breaks_later(request: HttpRequest, surroundings: Any) -> HttpAnswer:
        def pieces() -> Any:
            yield "begun"
            raise ValueError("a later defect")

        return HttpAnswer(200, pieces())

    monkeypatch.setitem(vars(routes._BY_PATH["/healthz"]), "answer", broken)
    assert (await get(running.port, "/healthz")).status == 500
    monkeypatch.setitem(vars(routes._BY_PATH["/healthz"]), "answer", breaks_later)
    with pytest.raises(asyncio.IncompleteReadError):
        await get(running.port, "/healthz")
    assert (await get(running.port, "/readyz")).status == 200
    assert len(failures.take()) == 2


async def test_while_the_broker_stops_it_is_healthy_and_not_ready(running: Running) -> None:
    client = await HttpClient.connect(running.port)
    http = running.broker._serving._http
    assert http is not None
    http.begin_stop()
    client.ask("/readyz")
    assert (await client.answer()).status == 503
    client.ask("/healthz")
    assert (await client.answer()).status == 200
    client.close()


async def test_a_stop_ends_http_whatever_it_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(vars(routes._BY_PATH["/healthz"]), "answer", endless)
    running = await started(tmp_path / "data", ON)
    clients = [await HttpClient.connect(running.port, limit=1024) for _ in range(3)]
    clients[0].ask("/healthz")
    clients[1].send(b"GET /he")
    await asyncio.sleep(0.05)
    assert await running.stop() == EXIT_CLEAN
    assert running.metrics.http_connections_now == 0
    for client in clients:
        client.close()


# -- the port ----------------------------------------------------------------------------------


async def test_a_named_port_that_is_taken_is_refused(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        broker = Broker(
            loaded(tmp_path / "data", f"barnabas.http.listener=127.0.0.1:{port}"),
            system_environment(),
        )
        with pytest.raises(OSError, match="cannot listen on HTTP://127"):
            await broker.run()


async def test_the_usual_port_that_is_taken_is_done_without(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    found = loaded(tmp_path / "data")
    static = {key: value for key, value in found.static.items() if "http" not in key}
    with socket.create_server(("127.0.0.1", 0)) as other:
        address = found.config.served_listeners[0]._replace(port=other.getsockname()[1])
        object.__setattr__(found.config, "http", address)
        object.__setattr__(found, "static", static)
        broker = Broker(found, system_environment())
        task = await served(broker)
    assert "no console, /metrics, /healthz and /readyz: cannot listen on" in caplog.text
    broker._signals.received(signal.SIGTERM)
    assert await task == EXIT_CLEAN


# -- who may ask -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("header", "is_ours"),
    [
        ("localhost", True), ("LOCALHOST:9095", True), ("localhost.", True), ("127.0.0.1", True),
        ("127.9.9.9:1", True), ("[::1]:9095", True), ("10.0.0.7:9095", True),
        ("broker.example", True), ("", False), ("evil.example", False), ("10.0.0.8", False),
        ("127.0.0.1.evil.example", False), ("127.evil.example", False), ("127.0.0.256", False),
        ("localhost.evil.example", False), ("[::2]", False), (":9095", False),
        ("127.0.0.1@evil", False),
    ],
)  # fmt: skip
def test_a_host_must_name_this_broker(header: str, is_ours: bool) -> None:
    assert is_for_us(header, "10.0.0.7", {"broker.example"}) == is_ours


def test_a_host_is_read_without_its_port() -> None:
    assert host_name(" [fe80::1]:80 ") == "fe80::1"
    assert host_name("::1") == "::1" or host_name("::1") == ":"


async def test_a_foreign_host_gets_421_except_from_probes(running: Running) -> None:
    client = await HttpClient.connect(running.port)
    for path, status in (("/nothing", 421), ("/", 421), ("/healthz", 200), ("/readyz", 200)):
        client.ask(path, host="evil.example")
        assert (await client.answer()).status == status
    client.close()


@pytest.mark.parametrize(
    ("password", "is_private", "status"),
    [(None, True, 421), ("key", True, 401), ("key", False, 401), (None, False, 403)],
)
def test_open_metrics_are_for_no_other_sites_name(
    password: str | None, is_private: bool, status: int
) -> None:
    """A page whose name resolves to 127.0.0.1 must not read them; Prometheus has a password."""
    rules = PageRules(("broker.example",), password, is_private)
    request = HttpRequest(method="GET", path="/metrics", headers={"host": "evil.example"})
    surroundings: Any = None
    answered = answer_to(request, surroundings, rules)
    assert isinstance(answered, HttpAnswer)
    assert answered.status == status


def basic(password: str) -> str:
    return "Basic " + base64.b64encode(f"someone:{password}".encode()).decode()


@pytest.mark.parametrize(
    ("password", "is_private", "header", "status"),
    [
        (None, True, None, 0), (None, False, None, 403), (None, False, basic(""), 403),
        ("key", True, None, 401), ("key", True, basic("key"), 0), ("key", False, basic("key"), 0),
        ("kéy:1", False, basic("kéy:1"), 0), ("key", False, basic("keys"), 401),
        ("key", False, basic(""), 401), ("key", False, "Basic %%%", 401),
        ("key", False, "Bearer key", 401), ("key", False, "", 401),
    ],
)  # fmt: skip
def test_the_password_is_demanded(
    password: str | None, is_private: bool, header: str | None, status: int
) -> None:
    headers = {} if header is None else {"authorization": header}
    request = HttpRequest(method="GET", path="/metrics", headers=headers)
    refused = refusal(request, password, is_private=is_private)
    assert (0 if refused is None else refused.status) == status
    if header is not None and status == 401:
        assert refused is not None
        assert refused.pause_seconds == 1.0
