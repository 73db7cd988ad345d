"""A client of the HTTP listener that resets its connection, on the broker's own kind of loop."""

import asyncio
import socket
import struct

import uvloop

from broker.http import http_connection
from broker.http.http_messages import HttpAnswer, HttpRequest
from broker.runtime.clock import ManualClock
from broker.runtime.metrics import Metrics


async def reset_before_the_answer() -> None:
    server = socket.create_server(("127.0.0.1", 0))
    client = socket.create_connection(server.getsockname())
    sock, _ = server.accept()
    server.close()
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader()
    protocol = asyncio.StreamReaderProtocol(reader)
    transport, _ = await loop.connect_accepted_socket(lambda: protocol, sock)
    writer = asyncio.StreamWriter(transport, protocol, reader, loop)

    async def answer(_: HttpRequest) -> HttpAnswer:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        client.close()
        async with asyncio.timeout(20):
            while "closed=True" not in repr(transport):
                await asyncio.sleep(0)
        return HttpAnswer(200, b"late")

    client.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
    connection = http_connection.HttpConnection(
        reader, writer, answer, asyncio.Lock(), Metrics(), ManualClock()
    )
    await connection.run()
    assert transport.is_closing()


def test_a_client_that_resets_before_its_answer_is_no_failure() -> None:
    """uvloop raises a RuntimeError for what is written to a transport that has ended."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(reset_before_the_answer())
