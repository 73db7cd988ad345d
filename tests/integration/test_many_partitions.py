"""Topics of many partitions come and go in a real broker, whose loop is watched meanwhile.

`tests.support.guarded_broker` complains of each file call on the loop that may wait for the disk,
and the complaint fails the test (tests/conftest.py).
"""

from pathlib import Path

from tests.faults.test_disk_full import delete_topic
from tests.support.broker_process import BrokerProcess
from tests.support.raw_batches import batch
from tests.support.raw_client import RawClient

COUNT = 300


def test_hundreds_of_partitions_are_made_deleted_and_made_anew_off_the_loop(tmp_path: Path) -> None:
    settings = {"log.segment.delete.delay.ms": "0"}
    with BrokerProcess(tmp_path / "data", settings) as broker:
        with RawClient(broker.host, broker.port, timeout_s=120) as client:
            for _ in range(2):
                assert client.create_topic("wide", COUNT) == 0
                for partition in (0, 1, COUNT - 1):
                    produced = client.produce("wide", batch([b"v"]), partition)
                    assert (produced.error, produced.base_offset) == (0, 0)
                assert delete_topic(client, "wide") == 0
                assert client.produce("wide", batch([b"v"])).error == 3
        assert broker.stop() == 0, broker.output()
        assert not list(broker.data.glob(f"wide-{COUNT - 1}"))
