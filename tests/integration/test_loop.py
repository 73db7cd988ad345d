"""A broker process keeps to the rules of its event loop."""

import os
import time
from pathlib import Path

from tests.support import broker_process, raw_batches
from tests.support.broker_process import BrokerProcess
from tests.support.raw_client import RawClient

WAIT_S = 60
SNAPSHOT_BATCHES = 300  # a checkpoint takes a snapshot after 256


def test_a_file_call_on_the_loop_is_a_complaint(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path / "data", environment={"LOOP_GUARD_TRIAL": "free_bytes"}) as broker:
        broker.stop()
    (complaint,) = broker_process.take_complaints()
    assert "FileSystem.free_bytes" in complaint
    assert "guarded_broker" in complaint


def test_a_snapshot_of_many_producers_is_made_beside_the_loop(tmp_path: Path) -> None:
    """The guard sees which thread encodes; some batches more than a snapshot needs, many ids."""
    with BrokerProcess(tmp_path / "data") as broker, RawClient(broker.host, broker.port) as client:
        assert client.create_topic("t") == 0
        for number in range(SNAPSHOT_BATCHES):
            sent = raw_batches.batch([b"v"], producer_id=number, producer_epoch=0, base_sequence=0)
            assert client.produce("t", sent).error == 0
        log = broker.data / "t-0"
        deadline = time.monotonic() + WAIT_S
        while not list(log.glob("*.snapshot")):
            assert time.monotonic() < deadline, sorted(os.listdir(log))
            time.sleep(0.05)
        assert broker.stop() == 0
        assert [text for text in broker_process.take_complaints() if "encode" in text] == []


def test_old_data_that_only_the_disk_has_are_read_beside_the_loop(tmp_path: Path) -> None:
    """After a restart no batch is known to be sound, and the test drops the pages."""
    with BrokerProcess(tmp_path / "data", {"log.index.interval.bytes": "64"}) as broker:
        with RawClient(broker.host, broker.port) as client:
            assert client.create_topic("t") == 0
            for _ in range(40):
                assert client.produce("t", raw_batches.batch([b"v" * 1000])).error == 0
        assert broker.stop() == 0
        broker.start()
        for path in (broker.data / "t-0").iterdir():
            with path.open("rb") as file:
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        with RawClient(broker.host, broker.port) as client:
            fetched = client.fetch("t", 20)
            assert (fetched.error, len(raw_batches.values_of(fetched.records))) == (0, 20)
        assert broker.stop() == 0
        assert broker_process.take_complaints() == []
