"""A broker in the test's own process, with its sockets: starts and calls `server.Broker`."""

import asyncio
import struct
from pathlib import Path

from broker.server import Broker
from config.load import Loaded, load
from protocol.kafka.codec import decode_message, encode_message
from protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse

API_VERSIONS = 18
FLEXIBLE_SINCE = 3


def loaded(directory: Path, *settings: str, port: int = 0) -> Loaded:
    listeners = f"listeners=PLAINTEXT://127.0.0.1:{port}"
    given = [listeners, "barnabas.http.listener=", *settings]
    return load(file=None, environment={}, set_values=given, data_dir=str(directory))


def port_of(broker: Broker) -> int:
    ((_, port),) = broker._assembly.bound
    return port


async def served(broker: Broker) -> asyncio.Task[int]:
    """Run a broker as a task; return once it listens."""
    task = asyncio.create_task(broker.run())
    async with asyncio.timeout(5):
        while not hasattr(broker, "_shutdown"):
            assert not task.done(), task.result()
            await asyncio.sleep(0.001)
    return task


async def api_versions(port: int, version: int = 0) -> ApiVersionsResponse:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    body = encode_message(ApiVersionsRequest(), 0)
    header = struct.pack(">hhih", API_VERSIONS, version, 1, -1)
    header += b"" if version < FLEXIBLE_SINCE else b"\0"  # no tagged fields
    writer.write(struct.pack(">i", len(header) + len(body)) + header + body)
    size = int.from_bytes(await reader.readexactly(4), "big")
    answer = await reader.readexactly(size)
    writer.close()
    await writer.wait_closed()
    response, _ = decode_message(ApiVersionsResponse, 0, memoryview(answer), 4)
    assert isinstance(response, ApiVersionsResponse)
    return response
