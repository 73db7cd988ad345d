"""Asks the console of a broker as its page does."""

import asyncio
import json
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

from broker.lifecycle.environment import system_environment
from broker.server import Broker
from tests.support.http_client import Answered, HttpClient
from tests.support.whole_broker import loaded, served

HTTP = "barnabas.http.listener=127.0.0.1:0"
AUTHORIZER = "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer"
USERS = (
    "listeners=SASL_PLAINTEXT://127.0.0.1:0",
    "sasl.enabled.mechanisms=PLAIN",
    (
        "listener.name.sasl_plaintext.plain.sasl.jaas.config="
        "org.apache.kafka.common.security.plain.PlainLoginModule required"
        ' user_admin="secret" user_alice="wonder";'
    ),
)


class ConsoleBroker:
    """A broker in this process with its console; `cookie` is that of a login."""

    def __init__(self, broker: Broker, task: asyncio.Task[int]) -> None:
        self.broker = broker
        self.task = task
        self.services = broker._assembly.services
        self.metrics = self.services.metrics
        assert broker._http is not None
        self.port: int = broker._http.getsockname()[1]
        self.kafka_port: int = broker._assembly.bound[0][1]
        self.cookie = ""

    @classmethod
    async def start(cls, directory: Path, *settings: str) -> "ConsoleBroker":
        broker = Broker(loaded(directory, HTTP, *settings), system_environment())
        return cls(broker, await served(broker))

    @classmethod
    async def start_with_users(cls, directory: Path) -> "ConsoleBroker":
        """Start one with the users admin, who may do everything, and alice, who may do nothing."""
        return await cls.start(directory, *USERS, AUTHORIZER, "super.users=User:admin")

    async def stop(self) -> int:
        task = asyncio.current_task()  # of a fixture, perhaps: not the broker's
        assert task is not None
        self.broker._shutdown._tasks_before.add(task)
        self.broker._signals.received(signal.SIGTERM)
        async with asyncio.timeout(20):
            return await self.task

    async def ask(
        self, path: str, *headers: str, method: str = "GET", body: bytes = b""
    ) -> Answered:
        client = await HttpClient.connect(self.port)
        try:
            given = [f"Cookie: {self.cookie}"] if self.cookie else []
            if body:
                given.append(f"Content-Length: {len(body)}")
            host = f"127.0.0.1:{self.port}"
            client.ask(path, *given, *headers, "Connection: close", method=method, host=host)
            client.send(body)
            async with asyncio.timeout(20):
                return await client.answer(is_head=method == "HEAD")
        finally:
            client.close()

    async def get(self, path: str, status: int = 200) -> Any:
        """GET JSON below /api/v1/."""
        found = await self.ask(f"/api/v1/{path}")
        assert found.status == status, (path, found)
        return json.loads(found.body)

    async def post(self, path: str, body: dict[str, Any], status: int = 200) -> Any:
        """POST JSON below /api/v1/, as the page does."""
        answered = await self.ask(
            f"/api/v1/{path}",
            "Content-Type: application/json",
            "X-Barnabas: 1",
            f"Origin: http://127.0.0.1:{self.port}",
            method="POST",
            body=json.dumps(body).encode(),
        )
        assert answered.status == status, (path, answered)
        if cookie := answered.headers.get("set-cookie"):
            self.cookie = cookie.partition(";")[0]
        return json.loads(answered.body)


class EventReader:
    """Reads server-sent events."""

    def __init__(self, client: HttpClient) -> None:
        self._client = client

    @classmethod
    async def connect(cls, broker: ConsoleBroker, path: str) -> "EventReader":
        client = await HttpClient.connect(broker.port)
        given = [f"Cookie: {broker.cookie}"] if broker.cookie else []
        client.ask(path, *given)
        return cls(client)

    async def head(self) -> int:
        """Return the status."""
        async with asyncio.timeout(20):
            head = await self._client.reader.readuntil(b"\r\n\r\n")
        return int(head.split(b" ")[1])

    async def events(self) -> AsyncIterator[tuple[str, Any]]:
        """Yield each event's kind and data."""
        while True:
            async with asyncio.timeout(20):
                size = int(await self._client.reader.readuntil(b"\r\n"), 16)
                piece = await self._client.reader.readexactly(size + 2)
            if not size:
                return
            kind, _, data = piece.decode().partition("\ndata: ")
            yield kind.removeprefix("event: "), json.loads(data)

    async def kinds(self, after_the_first: Callable[[], Awaitable[object]]) -> list[str]:
        """Return the kinds of all events until the stream ends; something happens meanwhile."""
        kinds = []
        async for kind, _ in self.events():
            kinds.append(kind)
            if len(kinds) == 1:
                await after_the_first()
        return kinds

    def close(self) -> None:
        self._client.close()
