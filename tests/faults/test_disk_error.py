"""One log's disk error: only that log goes offline, and acknowledges nothing after the error.

After an error of the metadata log, topics cannot be changed; produce and fetch go on.
"""

import os
from pathlib import Path

import pytest

from tests.faults.faulty_broker import FaultyBroker
from tests.support.raw_batches import batch, values_of
from tests.support.raw_client import RawClient
from tests.support.small_disk import MIB, can_mount, remount, small_disk

pytestmark = [pytest.mark.faults]

STORAGE_ERROR = 56
TOPICS = int(os.environ.get("BARNABAS_FAILED_FSYNCS", "40"))


def all_values(client: RawClient, topic: str) -> list[bytes]:
    """Read a topic as a consumer does, to its high watermark."""
    found: list[bytes] = []
    while True:
        fetched = client.fetch(topic, len(found))
        assert fetched.error == 0
        if not fetched.records:
            return found
        found += values_of(fetched.records)


def test_no_acknowledgement_follows_a_failed_fsync(tmp_path: Path) -> None:
    """Each of many logs fails at its third fsync; later fsyncs succeed without writing anything."""
    broker = FaultyBroker(tmp_path / "data", {})
    broker.recovering = [
        f"eio before fdatasync */bad{number}-0/*.log 3" for number in range(TOPICS)
    ]
    refused, told = 0, {}
    with broker:
        with RawClient(broker.host, broker.port) as client:
            assert client.create_topic("good") == 0
            for number in range(TOPICS):
                topic = f"bad{number}"
                assert client.create_topic(topic) == 0
                told[topic] = []
                for value in (b"a", b"b", b"c", b"d", b"e"):
                    answer = client.produce(topic, batch([value]))
                    if answer.error:
                        assert answer.error == STORAGE_ERROR
                        refused += 1
                    else:
                        told[topic].append(value)
                assert client.produce("good", batch([b"g"])).error == 0
                assert all_values(client, topic) == told[topic] == [b"a", b"b"]
            assert len(all_values(client, "good")) == TOPICS
            assert refused == 3 * TOPICS
        assert broker.output().count("is offline for writes") == TOPICS
        assert "Traceback" not in broker.output()
        broker.stop()
        broker.recovering = []
        broker.start()
        with RawClient(broker.host, broker.port) as client:
            for topic, values in told.items():
                found = all_values(client, topic)
                assert found[:2] == values, "an acknowledged record is missing"
                assert client.produce(topic, batch([b"z"])).error == 0
            assert len(all_values(client, "good")) == TOPICS


@pytest.mark.parametrize("operation", ["fdatasync", "pwrite"])
def test_a_failed_metadata_log_stops_changes_and_nothing_else(
    operation: str, tmp_path: Path
) -> None:
    broker = FaultyBroker(tmp_path / "data", {})
    with broker, RawClient(broker.host, broker.port) as client:
        assert client.create_topic("t") == 0
        client.close()
        broker.stop()
        broker.recovering = [f"eio before {operation} */__cluster_metadata-0/*.log 1+"]
        broker.start()
        with RawClient(broker.host, broker.port) as again:
            codes = [again.create_topic("u"), again.create_topic("v")]
            assert set(codes) == {STORAGE_ERROR}
            for count in range(1, 4):
                assert again.produce("t", batch([b"x"])).error == 0
                assert len(all_values(again, "t")) == count
        assert "Traceback" not in broker.output()
        broker.stop()
        broker.recovering = []
        broker.start()
        with RawClient(broker.host, broker.port) as again:
            assert len(all_values(again, "t")) == 3
            assert again.create_topic("v") in (0, 36)  # not created before the error, or despite it


def test_a_directory_that_turns_read_only_is_read(tmp_path: Path) -> None:
    if reason := can_mount("ext4"):
        pytest.skip(reason)
    with small_disk(tmp_path, "ext4", 24 * MIB) as disk:
        broker = FaultyBroker(disk / "data", {})
        broker.output_path = tmp_path / "output"
        broker.recovering = ["erofs before pwrite */t-0/*.log 2+"]
        with broker:
            with RawClient(broker.host, broker.port) as client:
                assert client.create_topic("t") == 0
                assert client.produce("t", batch([b"a"])).error == 0
                assert client.produce("t", batch([b"b"])).error == STORAGE_ERROR
                assert all_values(client, "t") == [b"a"]
            broker.kill()
            remount(disk, "ro")
            with pytest.raises(Exception, match="Read-only file system") as caught:
                broker.start()
            assert "Traceback" not in broker.output(), caught.value
            assert "ended with 1" in str(caught.value)
            remount(disk, "rw")
            broker.recovering = []
            broker.start()
            with RawClient(broker.host, broker.port) as client:
                assert all_values(client, "t") == [b"a"]
                assert client.produce("t", batch([b"b"])).error == 0
