"""HTTP and the JSON API under damage: requests that are cut, flipped and spliced, and odd values.

Whatever comes, a healthy client is answered, nothing fails unforeseen, and the broker holds nothing
afterwards. The seeds are fixed, so a failure can be repeated.
"""

import asyncio
import json
import random
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

from broker.console.endpoints import ENDPOINTS, Endpoint
from broker.lifecycle.shutdown import EXIT_CLEAN
from tests.support.console_client import ConsoleBroker
from tests.support.http_client import HttpClient, get

REQUESTS = (
    b"GET /metrics?name[]=kafka_brokers HTTP/1.1\r\nHost: localhost\r\n\r\n",
    b"GET /api/v1/messages?topic=one&text=x HTTP/1.1\r\nHost: localhost\r\nCookie: a=b; c\r\n\r\n",
    (b"POST /api/v1/messages/produce HTTP/1.1\r\nHost: localhost\r\nX-Barnabas: 1\r\nOrigin:"
    b" http://localhost\r\nContent-Type: application/json\r\nContent-Length: 27\r\n\r\n"
    b'{"topic":"one","value":"v"}'),
    (b"POST /api/v1/login HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
    b"5\r\n{\"a\":\r\n2\r\n1}\r\n0\r\nTrailer: x\r\n\r\n"),
    (b"HEAD /assets/page.js HTTP/1.1\r\nHost: localhost\r\nAccept-Encoding: gzip\r\n"
    b'If-None-Match: "x"\r\nConnection: keep-alive\r\n\r\n'),
)  # fmt: skip
ODD = (
    None, True, -1, 0, 1 << 31, 1 << 63, 1 << 200, 1.5, "", "one", "\0", "\ud800", "\u202e<script>",
    "x" * 5_000, [], [[]], [None], {}, {"": {}}, [["a", "b", "c"]], float("nan"), "earliest", "%",
)  # fmt: skip
NAMES = (
    "topic", "name", "type", "group", "id", "to", "value", "key", "partition", "partitions",
    "offset", "limit", "records", "headers", "set", "delete", "confirm", "dry_run", "text",
    "cursor", "timestamp", "range", "after", "filter", "sort", "order", "part", "configs",
)  # fmt: skip


@pytest.fixture
async def running(tmp_path: Path) -> AsyncIterator[ConsoleBroker]:
    found = await ConsoleBroker.start(tmp_path / "data")
    await found.post("topics/create", {"name": "one", "partitions": 1})
    yield found
    assert (found.metrics.unexpected_failures, found.metrics.request_errors) == (0, 0)
    async with asyncio.timeout(20):
        while found.metrics.http_connections_now:
            await asyncio.sleep(0.01)
    assert await found.stop() == EXIT_CLEAN


def damaged(chosen: random.Random) -> bytes:
    """Return a few requests one after the other, with some damage."""
    data = bytearray(b"".join(chosen.choices(REQUESTS, k=chosen.randint(1, 3))))
    for _ in range(chosen.randint(1, 6)):
        at = chosen.randrange(len(data))
        match chosen.randrange(5):
            case 0:
                data[at] = chosen.randrange(256)
            case 1:
                del data[at : at + chosen.randint(1, 20)]
            case 2:
                data[at:at] = chosen.choice((b"\r\n", b"\0", b"\n\n", b":", b" ", b"\xff" * 9))
            case 3:
                data[at:at] = chosen.choice(REQUESTS)[: chosen.randint(1, 60)]
            case _:
                data += data[:at]
        if not data:
            return b"\r\n"
    return bytes(data)


async def test_damaged_requests_end_their_connection_alone(running: ConsoleBroker) -> None:
    chosen = random.Random(19)
    for number in range(300):
        client = await HttpClient.connect(running.port)
        client.send(damaged(chosen))
        if chosen.random() < 0.5:
            client.writer.write_eof()
        await asyncio.wait([asyncio.ensure_future(client.reader.read(200))], timeout=0.01)
        client.close()
        if not number % 20:
            assert (await get(running.port, "/healthz")).status == 200


async def test_odd_values_are_refused_or_answered(running: ConsoleBroker) -> None:
    chosen = random.Random(19)
    for endpoint in ENDPOINTS:
        if endpoint.path.endswith(("events", "tail")):
            continue  # they end with their client alone
        for _ in range(20):
            fields = {name: chosen.choice(ODD) for name in chosen.sample(NAMES, 9)}
            fields.setdefault("topic", "one")
            status = await asked(running, endpoint, fields)
            assert status in (200, 400, 403, 404, 409, 413), (endpoint.path, fields)


async def asked(running: ConsoleBroker, endpoint: Endpoint, fields: dict[str, Any]) -> int:
    """Return the status of the answer."""
    if endpoint.writes:
        answered = await running.ask(
            endpoint.path, "Content-Type: application/json", "X-Barnabas: 1",
            f"Origin: http://127.0.0.1:{running.port}", method="POST",
            body=json.dumps(fields).encode(),
        )  # fmt: skip
    else:
        told = {name: str(value).encode("utf-8", "replace") for name, value in fields.items()}
        answered = await running.ask(f"{endpoint.path}?{urlencode(told)}")
    return answered.status
