"""A client of the HTTP listener that sends the bytes it is told to, and reads what comes."""

import asyncio
from typing import NamedTuple


class Answered(NamedTuple):
    """One answer; names of headers in lower case."""

    status: int
    headers: dict[str, str]
    body: bytes


class HttpClient:
    """One connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    @classmethod
    async def connect(cls, port: int, limit: int = 1 << 16) -> "HttpClient":
        return cls(*await asyncio.open_connection("127.0.0.1", port, limit=limit))

    def send(self, data: bytes) -> None:
        self.writer.write(data)

    def ask(self, path: str, *headers: str, method: str = "GET", host: str = "localhost") -> None:
        lines = [f"{method} {path} HTTP/1.1", f"Host: {host}", *headers, "", ""]
        self.send("\r\n".join(lines).encode())

    async def answer(self, *, is_head: bool = False) -> Answered:
        """Read one answer whole."""
        lines = (await self.reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        status = int(lines[0].split(" ")[1])
        pairs = (line.split(": ", 1) for line in lines[1:] if line)
        headers = {name.lower(): value for name, value in pairs}
        if is_head:
            return Answered(status, headers, b"")
        if headers.get("transfer-encoding") == "chunked":
            body = b""
            while size := int(await self.reader.readuntil(b"\r\n"), 16):
                body += await self.reader.readexactly(size)
                await self.reader.readexactly(2)
            await self.reader.readexactly(2)
        elif "content-length" in headers:
            body = await self.reader.readexactly(int(headers["content-length"]))
        else:
            body = await self.reader.read()
        return Answered(status, headers, body)

    async def is_closed(self) -> bool:
        """Wait until the broker has closed; whether it has sent nothing more."""
        try:
            return await self.reader.read(1) == b""
        except OSError:
            return True

    def close(self) -> None:
        self.writer.close()


async def get(port: int, path: str, *headers: str, method: str = "GET") -> Answered:
    """Ask on a connection of its own."""
    client = await HttpClient.connect(port)
    try:
        client.ask(path, *headers, "Connection: close", method=method)
        return await client.answer(is_head=method == "HEAD")
    finally:
        client.close()
