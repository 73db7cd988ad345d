"""A Java producer uses up the epochs of its producer id, and goes on with another one.

There are 32,767 epochs, so the test raises the epoch that the broker has on disk for a
transactional id, while the broker is stopped. The Java client 4.3 then passes the last epoch within
one life, by its transactions; that of 3.9 by the starts of producers that follow each other. Both
get another producer id; nothing that they commit is lost, and nothing that they abort is seen.
"""

from __future__ import annotations

import struct
import subprocess
from pathlib import Path

import pytest

from client.kafka.connection import Connection
from protocol.record_batch import batches, write_crc
from tests.interop.group_requests import State
from tests.interop.java_process import compiled
from tests.interop.oracle.kafka import KafkaNode, libs, older_clients
from tests.interop.transaction_brokers import SETTINGS, ready
from tests.interop.transaction_requests import NOT_YET, TIMEOUT_MS, TIMEOUT_S, until
from tests.interop.transactor import Transactor
from tests.support.broker_process import BrokerProcess

pytestmark = pytest.mark.interop

NEARLY_ALL = 32_760  # the last epoch that a client is given is 32,766
# The producers that follow each other, and the transactions of each.
LIVES = {"java-4": (1, 12), "java-3": (8, 2)}


def raise_epoch(log: Path, producer_id: int) -> None:
    """Change the epoch of an id that has none but its first."""
    data = bytearray(log.read_bytes())
    stored = struct.pack(">hqhi", 1, producer_id, 0, TIMEOUT_MS)
    raised = struct.pack(">hqhi", 1, producer_id, NEARLY_ALL, TIMEOUT_MS)
    assert data.count(stored) == 1
    for position, header in list(batches(bytes(data))):
        end = position + header.size
        data[position:end] = data[position:end].replace(stored, raised)
        write_crc(data, position)
    log.write_bytes(data)


def values_of(producers: int, transactions: int) -> list[bytes]:
    """What these have committed in the end: every third one is aborted."""
    return [
        b"%d-%d" % (life, number)
        for life in range(producers)
        for number in range(transactions)
        if number % 3 != 2
    ]


@pytest.mark.parametrize("kind", ["kafka", "ours"])
def test_a_producer_goes_on_with_another_id(tmp_path: Path, kind: str) -> None:
    jars = {"java-4": libs(), "java-3": older_clients()}
    broker: KafkaNode | BrokerProcess = KafkaNode(tmp_path, settings=SETTINGS)
    if kind == "ours":
        broker = BrokerProcess(tmp_path / "data", SETTINGS)
    broker.start()
    try:
        with Connection(broker.address, TIMEOUT_S) as connection:
            state = ready(connection)
            used = {name: Transactor.create(state, name) for name in LIVES}
            for t in used.values():
                assert t.init() == "e+0"
        broker.stop()
        for t in used.values():
            log = tmp_path / "data" / "__transaction_state-0" / f"{0:020d}.log"
            raise_epoch(log, t.producer_id)
        broker.start()
        with Connection(broker.address, TIMEOUT_S) as connection:
            for name, t in used.items():
                t.state = State(connection, {})
                until(lambda t=t: t.find() not in NOT_YET, "the coordinator")
                until(lambda t=t: t.describe()[:2] == ("Empty", f"e+{NEARLY_ALL}"), "its state")
                use_up(t, jars[name], tmp_path / name)
    finally:
        if broker.running:
            broker.kill()


def use_up(t: Transactor, jars: Path, directory: Path) -> None:
    """Let the producers live, and look at what they have left."""
    producers, transactions = LIVES[t.name]
    directory.mkdir()
    arguments = [t.connection.address, t.topic, t.name, str(producers), str(transactions)]
    done = subprocess.run(
        [*compiled("Transacts", directory, jars), *arguments],
        capture_output=True,
        timeout=120,
        check=False,
    )
    wanted = values_of(producers, transactions)
    assert done.stdout.split() == wanted, done.stderr[-3000:].decode()
    t.rest()
    assert t.read()[0] == wanted
    assert t.describe()[1].startswith("another id, epoch ")
