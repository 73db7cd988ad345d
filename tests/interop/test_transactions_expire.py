"""A transactional id that nobody uses is forgotten, as by Apache Kafka 4.3; also while stopped.

Both are asked the same: what an id is told that comes back, and what `__transaction_state` holds
then. The time counts from the id's last record, so the time that the broker was stopped counts.
"""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from client.kafka.connection import Connection
from protocol.records import batches, read_records
from protocol.transaction_records import decode
from tests.interop.group_requests import State
from tests.interop.oracle.kafka import KafkaNode, libs
from tests.interop.transaction_brokers import SETTINGS, ready
from tests.interop.transaction_requests import (
    NOT_YET,
    READ_BYTES_MAX,
    STATE_TOPIC,
    TIMEOUT_S,
    until,
)
from tests.interop.transactor import Transactor
from tests.support.under_test import broker_on

pytestmark = pytest.mark.interop

EXPIRATION_MS = 6_000
LOOK_MS = "transaction.remove.expired.transaction.cleanup.interval.ms"
EXPIRING = {
    **SETTINGS,
    "transactional.id.expiration.ms": str(EXPIRATION_MS),
    LOOK_MS: "100",
}
GONE = "TRANSACTIONAL_ID_NOT_FOUND"


@pytest.fixture(params=["kafka", "ours"])
def broker(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    """A broker that is not started."""
    libs()
    if request.param == "kafka":
        made: Any = KafkaNode(tmp_path, settings=EXPIRING)
    else:
        made = broker_on(tmp_path, EXPIRING)
    yield made
    made.kill()


def is_gone(t: Transactor) -> Callable[[], bool]:
    return lambda: t.state_name() == GONE


def found_again(t: Transactor, connection: Connection) -> None:
    """Let a producer find the broker after its restart."""
    t.state = State(connection, {})
    until(lambda: t.find() not in NOT_YET, "the coordinator of transactions")


def told(t: Transactor) -> list[Any]:
    """Return what an id is told that has been forgotten, with what it had and anew."""
    had = t.having()
    answers: list[Any] = [t.add(), t.produce(), t.commit_offset(), t.end(), t.end("abort")]
    answers += [t.init(having=had), t.epoch, t.producer_id != had[0]]
    t.sequences.clear()
    return [*answers, t.produce()[0], t.end() != "NONE" and t.epoch]


TOLD = [*["INVALID_PRODUCER_ID_MAPPING"] * 5, "another id, epoch 0", 0, True, "NONE", 1]


def states(log: Path) -> dict[str, Any]:
    """Return whether the last record of each id in `__transaction_state-0` is a value."""
    found = {}
    for segment in sorted(log.glob("*.log")):
        data = segment.read_bytes()
        for position, _ in batches(data):
            for record in read_records(data, position, size_max=READ_BYTES_MAX):
                decoded: Any = decode(record.key or b"", record.value)
                found[decoded[0].transactional_id] = decoded[1] is not None
    return found


def test_what_is_not_used_is_forgotten_and_comes_back_with_another_producer_id(broker: Any) -> None:
    broker.start()
    with Connection(broker.address, TIMEOUT_S) as connection:
        state = ready(connection)
        left = {name: Transactor.create(state, name) for name in ("idle", "done", "older", "open")}
        for t in left.values():
            t.init()
        left["done"].produce()
        left["done"].end()
        left["older"].add()
        left["older"].end("abort", 3)
        left["open"].produce()
        for name in ("idle", "done", "older"):
            until(is_gone(left[name]), f"{name} is forgotten")
        assert left["open"].state_name() == "Ongoing", "however long it takes"
        for name in ("idle", "done", "older"):
            assert told(left[name]) == TOLD, name
        assert left["open"].end() == "e+1"


def test_the_time_counts_while_the_broker_is_stopped(broker: Any) -> None:
    broker.start()
    with Connection(broker.address, TIMEOUT_S) as connection:
        t = Transactor.create(ready(connection), "done")
        t.init()
        t.produce()
        assert t.end() == "e+1"
        t.rest()
    broker.stop()
    assert states(broker.data / f"{STATE_TOPIC}-0")["done"]
    time.sleep(EXPIRATION_MS / 1000)
    broker.start()
    with Connection(broker.address, TIMEOUT_S) as connection:
        found_again(t, connection)
        until(is_gone(t), "the id is forgotten")
        assert not states(broker.data / f"{STATE_TOPIC}-0")["done"], "a tombstone"
        assert told(t) == TOLD
