"""A metadata log with slow fsyncs, in a real broker, and clients that do not wait for them."""

import time
from pathlib import Path

import pytest

from tests.faults.faulty_broker import FaultyBroker
from tests.faults.test_disk_full import DELETE_TOPICS, delete_topic
from tests.support.raw_batches import batch
from tests.support.raw_client import RawClient, array, int32, string, topic_to_create

pytestmark = [pytest.mark.faults]

CREATE_TOPICS, CREATE_TOPICS_VERSION = 19, 2
HELD_S = 2
DEADLINE_S = 120


def wait_for_end(broker: FaultyBroker, topic: str, code: int) -> None:
    """Produce to `topic` with new clients until the answer is `code`."""
    ends = time.monotonic() + DEADLINE_S
    found = None
    while time.monotonic() < ends:
        with RawClient(broker.host, broker.port) as client:
            found = client.produce(topic, batch([b"v"])).error
        if found == code:
            return
        time.sleep(0.1)
    raise AssertionError(f"produce to {topic} is answered {found}, expected {code}")


def test_requests_complete_after_their_clients_disconnect(tmp_path: Path) -> None:
    broker = FaultyBroker(tmp_path / "data", {})
    broker.serving = [f"delay:{HELD_S * 1000} before fdatasync */__cluster_metadata-0/*.log 1+"]
    with broker:
        with RawClient(broker.host, broker.port) as client:
            body = array(topic_to_create("made", 3)) + int32(1) + b"\x00"
            client.send_request(CREATE_TOPICS, CREATE_TOPICS_VERSION, body)
        wait_for_end(broker, "made", 0)
        with RawClient(broker.host, broker.port) as client:
            client.send_request(DELETE_TOPICS, 3, array(string("made")) + int32(1))
        wait_for_end(broker, "made", 3)
        with RawClient(broker.host, broker.port) as client:
            assert client.create_topic("made") == 0
            assert client.produce("made", batch([b"v"])).base_offset == 0, "of the older topic"
            assert delete_topic(client, "made") == 0
        assert broker.stop() == 0, broker.output()
        names = [name for n in range(3) if (broker.data / (name := f"made-{n}")).exists()]
        assert names == [], "a deleted topic's directories are strays"
        assert "Traceback" not in broker.output()
