"""Pages of the log that are mapped for sending are let go of: the process's memory stays small.

Resident memory depends on no other load of the machine, so it is bounded here and not only measured
(docs/performance.md).
"""

from pathlib import Path

from tests.support import raw_batches
from tests.support.broker_process import BrokerProcess
from tests.support.raw_client import RawClient

MAPPED_BYTES_MAX = 32 << 20
BATCH_BYTES = 800_000
BATCHES = 120  # some 96 MB, three times what may stay mapped
SLICE_BYTES = 1 << 20  # what was counted is released when the next slice is mapped
RESIDENT_BYTES_MAX = 100 << 20  # what docs/performance.md promises


def resident_bytes(pid: int, what: str) -> int:
    """Return `RssFile`, of mapped files, or `VmRSS`, all."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(f"{what}:"):
            return int(line.split()[1]) * 1024
    raise AssertionError(what)


def test_a_consumer_of_many_bytes_leaves_the_broker_small(tmp_path: Path) -> None:
    batch = raw_batches.batch([bytes(BATCH_BYTES)])
    with BrokerProcess(tmp_path / "data") as broker, RawClient(broker.host, broker.port) as client:
        assert client.create_topic("t") == 0
        for _ in range(BATCHES):
            assert client.produce("t", batch, acks=1).error == 0
        before = resident_bytes(broker.pid, "RssFile")
        largest = largest_of_all = 0
        for offset in range(BATCHES):
            fetched = client.fetch("t", offset, size_max=SLICE_BYTES)
            assert (fetched.error, len(fetched.records)) == (0, len(batch))
            largest = max(largest, resident_bytes(broker.pid, "RssFile") - before)
            largest_of_all = max(largest_of_all, resident_bytes(broker.pid, "VmRSS"))
        assert largest > SLICE_BYTES, "nothing was mapped: this test looks at something else"
        assert largest <= MAPPED_BYTES_MAX + 2 * SLICE_BYTES
        assert largest_of_all <= RESIDENT_BYTES_MAX
        assert broker.stop() == 0
