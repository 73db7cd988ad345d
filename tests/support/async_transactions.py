"""Programs with the asyncio transactional producer: `python -m … NAME HOST:PORT`.

`sums` commits, aborts and commits; after it has written the first record, it waits for a line on
its standard input. `duel` has two producers of one id, and prints the error of the older.
"""

from __future__ import annotations

import asyncio
import sys

from client.msgpack.async_transactional_producer import AsyncTransactionalProducer
from client.places import Place
from client.transactions.errors import TransactionError


async def sums(address: str) -> None:
    offsets = Place("sums", 0)
    async with AsyncTransactionalProducer(address, "sums") as producer:
        async with producer.transaction():
            await producer.send("sums", b"one")
            await producer.flush()
            sys.stdout.write("written\n")
            sys.stdout.flush()
            sys.stdin.readline()
            await producer.send_offsets("adders", {offsets: 5})
        try:
            async with producer.transaction():
                await producer.send("sums", b"two")
                await producer.send_offsets("adders", {offsets: 9})
                raise ZeroDivisionError
        except ZeroDivisionError:
            pass
        async with producer.transaction():
            await producer.send("sums", b"three")


async def duel(address: str) -> None:
    async def write(producer: AsyncTransactionalProducer, value: bytes) -> None:
        async with producer.transaction():
            await producer.send("duel", value)

    async with (
        AsyncTransactionalProducer(address, "duel") as older,
        AsyncTransactionalProducer(address, "duel") as newer,
    ):
        await write(newer, b"new")
        try:
            await write(older, b"old")
        except TransactionError as error:
            sys.stdout.write(f"{type(error).__name__}: {error}\n")
        await write(newer, b"newer")


if __name__ == "__main__":
    asyncio.run({"sums": sums, "duel": duel}[sys.argv[1]](sys.argv[2]))
