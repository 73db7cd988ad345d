"""The cost of groups: `python -m benchmarks.groups [--kafka]`.

    1,000 groups of 10 members   consumer groups (KIP-848), one topic of 16 partitions: resident
                                 memory with them, and processor time of a heartbeat, every member
                                 sending one every 3 seconds
    heartbeats under load        the same while a producer sends as fast as it can: how long a
                                 heartbeat waits for its answer
    a rebalance of 100 members   a classic group of 100, each on a connection of its own; one more
                                 joins: until all 101 have their assignments

With `--kafka` Apache Kafka 4.3 is measured, too (needs BARNABAS_ORACLE_LIBS). Members send frames
of our own codec: no client library adds to the measured time.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import struct
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

from benchmarks import frames, interpreter, load
from benchmarks.servers import Server, barnabas, kafka
from protocol.consumer_protocol import ConsumerProtocolSubscription, encode_subscription
from protocol.kafka.codec import decode_message, encode_message
from protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from protocol.messages.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
)
from protocol.messages.sync_group import (
    SyncGroupRequest,
    SyncGroupRequestAssignment,
    SyncGroupResponse,
)

TOPIC = "groups"
PARTITIONS = 16
GROUPS, MEMBERS = 1_000, 10
CONNECTIONS = 100
INTERVAL_SECONDS = 3.0
MEASURED_SECONDS = 15.0
REBALANCED = 100
MS = 1000


class Line:
    """One connection: requests one after the other, each answered before the next."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @classmethod
    async def open(cls, port: int) -> Line:
        return cls(*await asyncio.open_connection("127.0.0.1", port))

    async def ask(self, body: Any, response: type, version: int) -> Any:
        spec = type(body).MESSAGE
        flexible = spec.is_flexible(version)
        head = struct.pack(">hhih", spec.api_key, version, 1, -1) + (b"\0" if flexible else b"")
        frame = head + encode_message(body, version)
        self._writer.write(struct.pack(">i", len(frame)) + frame)
        (size,) = struct.unpack(">i", await self._reader.readexactly(4))
        data = memoryview(await self._reader.readexactly(size))
        return decode_message(response, version, data, 5 if flexible else 4)[0]

    def close(self) -> None:
        self._writer.close()


class Member:
    """A member of a consumer group."""

    def __init__(self, group_id: str, member_id: str) -> None:
        self.group_id = group_id
        self.member_id = member_id
        self.epoch = 0

    async def beat(self, line: Line) -> None:
        """Send one heartbeat; the first joins."""
        joining: dict[str, Any] = (
            {
                "rebalance_timeout_ms": 60_000,
                "subscribed_topic_names": [TOPIC],
                "topic_partitions": [],
            }
            if self.epoch == 0
            else {}
        )
        body = ConsumerGroupHeartbeatRequest(
            group_id=self.group_id, member_id=self.member_id, member_epoch=self.epoch, **joining
        )
        answer = await line.ask(body, ConsumerGroupHeartbeatResponse, 1)
        if answer.error_code:
            raise frames.LoadError(f"{answer.error_code}: {answer.error_message}")
        self.epoch = answer.member_epoch
        if answer.assignment is not None:  # immediately reports that it owns nothing else
            owned = ConsumerGroupHeartbeatRequest(
                group_id=self.group_id,
                member_id=self.member_id,
                member_epoch=self.epoch,
                topic_partitions=answer.assignment.topic_partitions,
            )
            again = await line.ask(owned, ConsumerGroupHeartbeatResponse, 1)
            self.epoch = again.member_epoch or self.epoch


async def rounds(
    lines: list[tuple[Line, list[Member]]], seconds: float, waits: list[float]
) -> None:
    """Let every member send a heartbeat every INTERVAL_SECONDS, spread over that time."""

    async def one(line: Line, members: list[Member], phase: float) -> None:
        begun = time.perf_counter()
        turn = 0
        while time.perf_counter() - begun < seconds:
            for place, member in enumerate(members):
                due = begun + (turn + (place + phase) / len(members)) * INTERVAL_SECONDS
                await asyncio.sleep(max(0.0, due - time.perf_counter()))
                sent = time.perf_counter()
                await member.beat(line)
                waits.append(time.perf_counter() - sent)
            turn += 1

    count = len(lines)
    await asyncio.gather(
        *(one(line, members, place / count) for place, (line, members) in enumerate(lines))
    )


async def many_groups(server: Server) -> None:
    """Fill the broker with groups, and measure their heartbeats without and under load."""
    await find_coordinator(server.port)
    before, _ = server.memory_bytes()
    lines = []
    for number in range(CONNECTIONS):
        members = [
            Member(f"group-{group}", f"member-{group}-{place}")
            for group in range(number, GROUPS, CONNECTIONS)
            for place in range(MEMBERS)
        ]
        lines.append((await Line.open(server.port), members))
    begun = time.perf_counter()
    await asyncio.gather(*(_all_join(line, members) for line, members in lines))
    joined_seconds = time.perf_counter() - begun
    await rounds(lines, 4 * INTERVAL_SECONDS, [])  # until every member has its assignment
    after, _ = server.memory_bytes()
    say(server, f"{GROUPS * MEMBERS} members joined in {joined_seconds:.1f} s, with"
        f" {(after - before) / 2**20:.0f} MiB more ({before / 2**20:.0f} before)")  # fmt: skip
    waits: list[float] = []
    cpu = server.cpu_seconds()
    await rounds(lines, MEASURED_SECONDS, waits)
    cpu = server.cpu_seconds() - cpu
    say(server, f"{len(waits)} heartbeats, {cpu / len(waits) * 1e6:.0f} us of the broker each;"
        f" {percentiles(waits)}")  # fmt: skip
    waits = []
    with ProcessPoolExecutor(1) as others:
        producer = asyncio.get_running_loop().run_in_executor(others, produce, server.port)
        await asyncio.sleep(1)
        await rounds(lines, MEASURED_SECONDS - 3, waits)
        say(server, f"beside a producer at {await producer:.0f} MB/s: {percentiles(waits)}")
    for line, _ in lines:
        line.close()


async def _all_join(line: Line, members: list[Member]) -> None:
    for member in members:
        await member.beat(line)


def produce(port: int) -> float:
    """Produce batches of 16 KiB at full speed, acks 1; return MB/s. In a process of its own."""
    window = load.produce_load(
        port,
        TOPIC,
        frames.record_batch([bytes(1000)] * 16, time.time_ns() // 1_000_000),
        acks=1,
        connections=1,
        partitions=1,
        in_flight=5,
        warm_seconds=0.5,
        seconds=MEASURED_SECONDS,
        server_cpu=lambda: 0.0,
    )
    return window.size / window.seconds / 1e6


class ClassicMember:
    """A member of a classic group; every assignment is the number of members, from the leader."""

    def __init__(self, line: Line) -> None:
        self.line = line
        self._member_id = ""
        self._generation = -1
        self.size = 0  # of the group, according to the last assignment

    async def stay(self) -> None:
        """Join, sync, and send heartbeats 20 times a second; rejoin when the broker asks for it."""
        while True:
            if await self._join_and_sync():
                await self._beat_until_told()

    async def _join_and_sync(self) -> bool:
        subscription = encode_subscription(ConsumerProtocolSubscription(topics=[TOPIC]))
        joined = await self.line.ask(
            JoinGroupRequest(
                group_id="rebalanced",
                session_timeout_ms=30_000,
                rebalance_timeout_ms=60_000,
                member_id=self._member_id,
                protocol_type="consumer",
                protocols=[JoinGroupRequestProtocol(name="range", metadata=subscription)],
            ),
            JoinGroupResponse,
            3,  # an old version: the broker assigns the id at once
        )
        if joined.error_code:
            raise frames.LoadError(f"JoinGroup: {joined.error_code}")
        self._member_id, self._generation = joined.member_id, joined.generation_id
        size = str(len(joined.members)).encode()
        assignments = [
            SyncGroupRequestAssignment(member_id=member.member_id, assignment=size)
            for member in joined.members
        ]
        synced = await self.line.ask(
            SyncGroupRequest(
                group_id="rebalanced",
                generation_id=self._generation,
                member_id=self._member_id,
                assignments=assignments,
            ),
            SyncGroupResponse,
            2,
        )
        if synced.error_code:
            return False  # another rebalance has begun
        self.size = int(bytes(synced.assignment) or b"0")
        return True

    async def _beat_until_told(self) -> None:
        body = HeartbeatRequest(
            group_id="rebalanced", generation_id=self._generation, member_id=self._member_id
        )
        while True:
            answer = await self.line.ask(body, HeartbeatResponse, 2)
            if answer.error_code:
                return
            await asyncio.sleep(0.05)


async def rebalance(server: Server) -> None:
    """Time a rebalance of a classic group, from a new member's join to the last assignment."""
    await find_coordinator(server.port)
    party = [ClassicMember(await Line.open(server.port)) for _ in range(REBALANCED)]
    staying = [asyncio.create_task(member.stay()) for member in party]
    await _all_assigned(party)
    party.append(ClassicMember(await Line.open(server.port)))
    begun = time.perf_counter()
    staying.append(asyncio.create_task(party[-1].stay()))
    await _all_assigned(party)
    took = time.perf_counter() - begun
    say(server, f"{REBALANCED} members and one more rebalanced in {took:.2f} s, members asking"
        " every 50 ms")  # fmt: skip
    for task in staying:
        task.cancel()
    await asyncio.gather(*staying, return_exceptions=True)
    for member in party:
        member.line.close()


async def _all_assigned(party: list[ClassicMember]) -> None:
    for _ in range(60_000):
        if all(member.size == len(party) for member in party):
            return
        await asyncio.sleep(0.001)
    raise frames.LoadError("no rebalance ended within a minute")


async def find_coordinator(port: int) -> None:
    """Make the broker create its topic of groups."""
    line = await Line.open(port)
    for _ in range(100):
        answer = await line.ask(FindCoordinatorRequest(key="g"), FindCoordinatorResponse, 2)
        if not answer.error_code:
            break
        await asyncio.sleep(0.2)
    line.close()


def percentiles(waits: list[float]) -> str:
    """Format the median and the tail of the waiting times."""
    cuts = statistics.quantiles(waits, n=1000)
    return (
        f"p50 {cuts[499] * MS:.2f} ms, p99 {cuts[989] * MS:.2f} ms, p99.9 {cuts[998] * MS:.2f} ms"
    )


def say(server: Server, what: str) -> None:
    """Print a line of the result."""
    sys.stdout.write(f"{server.name}: {what}\n")
    sys.stdout.flush()


def main() -> None:
    """Measure each broker in turn."""
    interpreter.announce()
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--kafka", action="store_true", help="measure Apache Kafka, too")
    chosen = parser.parse_args()
    makers = [barnabas, kafka] if chosen.kafka else [barnabas]
    for make in makers:
        with tempfile.TemporaryDirectory(prefix="groups.") as directory:
            server = make(Path(directory) / "broker")
            server.start()
            try:
                server.create_topic(TOPIC, PARTITIONS)
                asyncio.run(rebalance(server))
                asyncio.run(many_groups(server))
            finally:
                server.stop()


if __name__ == "__main__":
    main()
