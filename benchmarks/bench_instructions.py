"""Instructions of one small request, counted: `python -m benchmarks.bench_instructions`.

Times are too noisy to tell one percent. So valgrind's callgrind counts the instructions of a broker
that serves requests. Its counts are set to zero when the broker is warm (`MARK`).
A request goes its whole way except for the socket: a connection receives it, a processor decodes
it, a worker dispatches it, and the connection writes the answer to a transport that drops it.
What is a matter of time does not happen, as a busy machine has more of it: nothing is flushed, no
slice of a worker ends, its connection is alone, and requests are timed as if they came fast.

Shapes: a Produce of one record of 100 B, acks 1, page cache; a Fetch of one 16 KiB batch from the
page cache. Settings: none; quotas that are never reached; an authorizer with 1,000 ACLs, some of
which allow the client. `--tree DIR` measures another checkout as well, for a comparison with an
earlier commit; this file is copied there.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Final

import uvloop

from benchmarks import frames
from broker import io_worker
from broker.dispatch import Dispatcher
from broker.handlers import HANDLERS
from broker.io_worker import IoWorker
from broker.network.connection import Connection
from broker.network.lone_senders import LoneSenders
from broker.network.processor import Processor
from broker.partitions.lingering import Lingering
from broker.partitions.partition import Partition
from broker.runtime import request_times
from broker.runtime.request import ConnectionInfo
from protocol.kafka.dialect import KafkaDialect
from protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from tests.support.broker_rig import LISTENER, Rig
from tests.support.fake_transport import FakeTransport

ROOT: Final = Path(__file__).resolve().parents[1]
SHAPES: Final = ("produce", "fetch")
SETTINGS: Final = ("none", "quotas", "acls")
WARM, MEASURED = 300, 1_255  # the latter a multiple of SAMPLED: as many are timed each time
MARK = "getppid"  # a function of libc that nothing else calls; callgrind begins anew with it
ACLS = 1_000
TOPIC, READ, WRITE, LITERAL, ALLOW = 2, 3, 4, 3, 3  # Kafka's codes
TOTAL = re.compile(r"Collected : (\d+)")


class DroppingTransport(FakeTransport):
    """Counts what is written."""

    answers = 0

    def write(self, data: Any) -> None:  # noqa: ARG002 - asyncio's signature
        self.answers += 1

    def writelines(self, list_of_data: Any) -> None:  # noqa: ARG002 - the same
        self.answers += 1


async def add_acls(rig: Rig) -> None:
    """Add ACLs of which two allow what is measured."""
    from protocol.messages.create_acls import AclCreation, CreateAclsRequest

    def acl(topic: str, principal: str, operation: int) -> AclCreation:
        return AclCreation(
            resource_type=TOPIC,
            resource_name=topic,
            resource_pattern_type=LITERAL,
            principal=principal,
            host="*",
            operation=operation,
            permission_type=ALLOW,
        )

    acls = [acl("t", "User:ANONYMOUS", operation) for operation in (READ, WRITE)]
    for number in range((ACLS - 2) // 2):
        acls.append(acl("t", f"User:user-{number}", READ))
        acls.append(acl(f"topic-{number}", "User:ANONYMOUS", WRITE))
    for at in range(0, len(acls), 100):
        answer = await rig.call(
            CreateAclsRequest(creations=acls[at : at + 100]), 3, principal="User:admin"
        )
        assert not any(one.error_code for one in answer.results)


async def add_quotas(rig: Rig) -> None:
    """Set byte rates that are never reached."""
    from protocol.messages.alter_client_quotas import (
        AlterClientQuotasRequest,
        AlteredQuotaEntity,
        QuotaAlteration,
        QuotaOperation,
    )

    ops = [
        QuotaOperation(key=key, value=1e12, remove=False)
        for key in ("producer_byte_rate", "consumer_byte_rate")
    ]
    entity = [AlteredQuotaEntity(entity_type="user", entity_name=None)]
    answer = await rig.call(
        AlterClientQuotasRequest(entries=[QuotaAlteration(entity=entity, ops=ops)]), 1
    )
    assert not answer.entries[0].error_code, answer


async def begin(directory: Path, settings: str) -> Rig:
    """Start a broker with a topic that holds one batch."""
    acls = {
        "authorizer_class_name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super_users": "User:admin",
    }
    rig = Rig(
        directory, is_timed=True, write_caching="true", **(acls if settings == "acls" else {})
    )
    await rig.loading
    asked = CreatableTopic(name="t", num_partitions=1, replication_factor=1)
    body = CreateTopicsRequest(topics=[asked])
    if settings == "acls":
        await rig.call(body, 7, principal="User:admin")
        await add_acls(rig)
    else:
        await rig.call(body, 7)
    if settings == "quotas":
        await add_quotas(rig)
    return rig


def shape_frame(shape: str, now_ms: int) -> bytes | bytearray:
    """Return the request of a shape."""
    if shape == "fetch":
        return frames.fetch("t", 0, 0, 16_384, 500)[0]
    return frames.produce("t", 0, frames.record_batch([bytes(100)], now_ms), 1)


def never(_: Lingering, partition: Partition, __: float) -> None:
    """Let a partition wait for a flush that does not come."""
    partition.flush_scheduled = True


def leave_time_out() -> None:
    """Let nothing depend on how long something takes."""
    Lingering.add = never  # type: ignore[method-assign]
    LoneSenders.is_alone = lambda *_: True  # type: ignore[method-assign]
    io_worker.SLICE_NS = 1 << 60
    request_times.EACH_NS = 1 << 60


async def serve(directory: Path, shape: str, settings: str) -> None:
    """Serve requests, one after the other."""
    leave_time_out()
    rig = await begin(directory, settings)
    network = rig.assembly.network
    processor = Processor(0, network)
    worker = IoWorker(0, network.queue, Dispatcher(rig.services), network.writes, rig.clock)
    tasks = [asyncio.create_task(one.run()) for one in (processor, worker)]
    dialect = KafkaDialect({int(row.api_key): row for row in HANDLERS})
    info = ConnectionInfo(LISTENER, dialect, ("127.0.0.1", 9092), ("127.0.0.1", 5))
    connection = Connection(processor, info, 1 << 20)
    processor.connections[connection] = None
    transport = DroppingTransport()
    connection.connection_made(transport)

    async def one(frame: bytes | bytearray) -> None:
        answered = transport.answers + 1
        buffer = connection.get_buffer(-1)
        buffer[: len(frame)] = frame
        connection.buffer_updated(len(frame))
        while transport.answers < answered:  # noqa: ASYNC110 - the turns are what is measured
            await asyncio.sleep(0)

    now_ms = time.time_ns() // 1_000_000
    batch, _ = frames.filled_batch(100, 16_384, now_ms)
    await one(frames.produce("t", 0, batch, 1))
    frame = shape_frame(shape, now_ms)
    gc.collect()
    gc.disable()  # a collection costs as much as many requests, and falls where it likes
    for _ in range(WARM):
        await one(frame)
    os.getppid()
    for _ in range(MEASURED):
        await one(frame)
    for task in tasks:
        task.cancel()
    os._exit(0)  # what a stop costs is not measured


def per_request(tree: Path, shape: str, settings: str) -> float:
    """Return the instructions of one request in a checkout."""
    with tempfile.TemporaryDirectory() as directory:
        done = subprocess.run(
            [
                *("valgrind", "--tool=callgrind", f"--callgrind-out-file={directory}/out"),
                f"--zero-before={MARK}",
                *(sys.executable, "-X", "utf8", "-m", "benchmarks.bench_instructions"),
                *("--serve", shape, settings, f"{directory}/data"),
            ],
            cwd=tree,
            env={**os.environ, "PYTHONHASHSEED": "0", "PYTHONDONTWRITEBYTECODE": "1"},
            capture_output=True,
            text=True,
            check=False,
        )
    total = TOTAL.search(done.stderr)
    if done.returncode or total is None:
        raise RuntimeError(done.stderr[-2_000:])
    return int(total[1]) / MEASURED


def main() -> int:
    """Print a table; with --serve, be the process that is measured."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--serve", nargs=3, help=argparse.SUPPRESS)
    parser.add_argument(
        "--tree", action="append", default=[], help="another checkout, measured too"
    )
    parser.add_argument("--only", default="", help="one of: " + ", ".join(SETTINGS))
    parser.add_argument("--no-own", action="store_true", help="only the trees of --tree")
    given = parser.parse_args()
    if given.serve:
        shape, settings, directory = given.serve
        uvloop.run(serve(Path(directory), shape, settings))
    if shutil.which("valgrind") is None:
        sys.stderr.write("valgrind is not installed: install the package valgrind\n")
        return 1
    sys.stdout.write("| tree | settings | request | instructions | |\n|---|---|---|---:|---:|\n")
    bases: dict[str, float] = {}
    for tree in [*map(Path, given.tree), *([] if given.no_own else [ROOT])]:
        is_other = tree != ROOT
        if is_other:
            shutil.copy(__file__, tree / "benchmarks")
        for settings in SETTINGS[: 1 if is_other else None]:
            if given.only not in ("", settings):
                continue
            for shape in SHAPES:
                found = per_request(tree, shape, settings)
                base = bases.setdefault(shape, found)
                change = f"{found / base - 1:+.2%}"
                sys.stdout.write(
                    f"| {tree.name} | {settings} | {shape} | {found:,.0f} | {change} |\n"
                )
                sys.stdout.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main())
