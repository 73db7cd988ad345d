"""The HTTP listener: accepts connections within a bound, and gives their requests to the pages.

`CONNECTIONS_MAX` may be open. When one more comes, it displaces the one that has waited longest for
its client, so idle or slow clients cannot keep Prometheus out; if all are being answered, the new
one is closed. Both are counted. A connection that fails ends alone, a page that fails is answered
with 500, and a listener that cannot accept any more is reported: the broker serves on without it.

The stop has two parts: `begin_stop` makes /readyz say so while the broker finishes its requests,
`stop` closes the listener and its connections.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from typing import TYPE_CHECKING

from broker.http.attempts import Attempts, brings_password
from broker.http.http_messages import HttpAnswer, HttpRequest, sentence
from broker.http.routes import PageRules, answer_to
from broker.http.surroundings import Surroundings
from broker.network.acceptor import CAPACITY_ERRNOS, REST_SECONDS
from broker.runtime import owners
from broker.runtime.owners import Owner

if TYPE_CHECKING:
    from broker.http.http_connection import HttpConnection

logger = logging.getLogger("barnabas.http")

CONNECTIONS_MAX = 64
ANSWER_SECONDS = 60.0  # what a page asks of the broker has shorter ends of its own
# As long as the longest header that is read at once, and then some.
READ_LIMIT_BYTES = 64 * 1024


class HttpListener:
    """Accepts on `sock`, whose pages look at `surroundings` and are for whom `rules` say."""

    def __init__(self, sock: socket.socket, surroundings: Surroundings, rules: PageRules) -> None:
        services = surroundings.assembly.services
        self._sock = sock
        self._surroundings = surroundings
        self._rules = rules
        self._metrics = services.metrics
        self._clock = services.clock
        self._turns = asyncio.Lock()
        self._attempts = Attempts(services.metrics)
        self._accepting: asyncio.Task[None] | None = None
        self._serving: set[asyncio.Task[None]] = set()
        self._connections: dict[HttpConnection, None] = {}

    def start(self) -> None:
        """Accept from now on."""
        self._surroundings.pulse.start()
        self._surroundings.history.start()
        self._accepting = owners.spawn(Owner.HTTP, self._accept(), "http-acceptor")

    def begin_stop(self) -> None:
        """Let /readyz say that the broker stops."""
        self._surroundings.is_stopping = True

    async def stop(self) -> None:
        """Close the listener and end its connections."""
        self._sock.close()
        await self._surroundings.pulse.stop()
        await self._surroundings.history.stop()
        serving = sorted(self._serving, key=lambda task: task.get_name())
        tasks = [task for task in (self._accepting, *serving) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for connection in tuple(self._connections):  # its socket was accepted at the end
            connection.abort()

    async def _accept(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                sock, address = await loop.sock_accept(self._sock)
            except ConnectionAbortedError:
                continue
            except OSError as error:
                if error.errno not in CAPACITY_ERRNOS:
                    logger.error("HTTP accepts no more connections: %(error)s", {"error": error})
                    return
                self._metrics.accept_failures += 1
                await asyncio.sleep(REST_SECONDS)
                continue
            if self._has_room():
                self._metrics.http_connections_now += 1
                owners.spawn(Owner.HTTP, self._serve(sock), "http", among=self._serving)
            else:
                self._metrics.http_connections_refused += 1
                logger.debug("no room for the HTTP connection of %(host)s", {"host": address[0]})
                sock.close()
            await asyncio.sleep(0)  # a flood of connections must not keep the loop

    def _has_room(self) -> bool:
        """Whether one more may be open; displaces one that waits for its client."""
        if self._metrics.http_connections_now < CONNECTIONS_MAX:
            return True
        waiting = [one for one in self._connections if one.waits_since_ns]
        if not waiting:
            return False
        longest = min(waiting, key=lambda one: one.waits_since_ns)
        self._metrics.http_connections_displaced += 1
        self._drop(longest)
        longest.abort()
        return True

    def _drop(self, connection: HttpConnection) -> None:
        if connection in self._connections:
            del self._connections[connection]
            self._metrics.http_connections_now -= 1

    async def _serve(self, sock: socket.socket) -> None:
        connection: HttpConnection | None = None
        try:
            connection = await self._connected(sock)
            self._connections[connection] = None
            await connection.run()
        except OSError as error:
            logger.debug("an HTTP connection has ended: %(error)s", {"error": error})
        finally:
            if connection is None:
                self._metrics.http_connections_now -= 1
                sock.close()
            else:
                self._drop(connection)

    async def _connected(self, sock: socket.socket) -> HttpConnection:
        from broker.http.http_connection import HttpConnection

        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader(limit=READ_LIMIT_BYTES)
        protocol = asyncio.StreamReaderProtocol(reader)
        transport, _ = await loop.connect_accepted_socket(lambda: protocol, sock)
        writer = asyncio.StreamWriter(transport, protocol, reader, loop)
        return HttpConnection(reader, writer, self._answer, self._turns, self._metrics, self._clock)

    async def _answer(self, request: HttpRequest) -> HttpAnswer:
        """Return what the pages answer; never raises. A wrong password's answer comes late."""
        if not brings_password(request):
            return await self._answer_of_page(request)
        host = request.peer_host
        refused = self._attempts.refusal(host)
        if refused is not None:
            return refused
        with self._attempts.one(host):
            answer = await self._answer_of_page(request)
            await asyncio.sleep(answer.pause_seconds)
        return answer

    async def _answer_of_page(self, request: HttpRequest) -> HttpAnswer:
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                answer = answer_to(request, self._surroundings, self._rules)
                return answer if isinstance(answer, HttpAnswer) else await answer
        except TimeoutError:
            return sentence(504, f"The broker has not answered within {ANSWER_SECONDS:.0f} s")
        except Exception as error:
            owners.failed(Owner.HTTP, error, f"answering HTTP {request.path}")
            return sentence(500, "The broker failed to answer; its log has the reason")
