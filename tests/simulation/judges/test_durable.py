"""The judge of what may be seen: it must be on the disk."""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

from tests.simulation.disk_rig import disk_of, make
from tests.simulation.judges.durable import DurableWatch, told
from tests.support.batches import batch

PATH = "/data/t-0/00000000000000000000.log"


@dataclass(eq=False)
class Log:
    directory: str = "/data/t-0"
    topic: str = "t"
    high_watermark: int = 2
    write_caching: bool = False
    failed: OSError | None = None
    start_offset: int = 0
    durable_offset: int = 2


class Rig:
    def __init__(self) -> None:
        self.disk = disk_of().disk
        self.file = make(self.disk, PATH, bytes(batch(count=2)))
        self.log = Log()
        partitions = SimpleNamespace(all=lambda: [SimpleNamespace(log=self.log)])
        services = SimpleNamespace(services=SimpleNamespace(partitions=partitions))
        broker: Any = SimpleNamespace(_assembly=services)
        self.volatile: list[str] = []
        self.watch = DurableWatch(broker, self.disk.directory("/data"), lambda: self.volatile)

    def found(self, *volatile: str) -> list[str]:
        self.volatile[:] = volatile
        self.watch.look()
        return self.watch.found

    def append(self, base_offset: int) -> None:
        self.file.pwrite(bytes(batch(base_offset=base_offset)), self.file.size())


def test_records_below_the_high_watermark_are_on_the_disk() -> None:
    rig = Rig()
    assert rig.found() == []
    rig.append(2)
    assert rig.found() == []
    rig.log.high_watermark = 3
    (found,) = rig.found()
    assert found.startswith("records of t-0 below 3 may be seen, and 00000000000000000000.log, as")
    assert len(rig.found()) == 1  # once


def test_a_log_that_is_flushed_is_on_the_disk() -> None:
    rig = Rig()
    rig.append(2)
    rig.file.fdatasync()
    rig.log.high_watermark = 3
    assert rig.found() == []


def test_the_directory_of_a_log_has_a_durable_name() -> None:
    rig = Rig()
    rig.disk.rename("/data/t-0", "/data/t-9")
    rig.log.directory = "/data/t-9"
    assert rig.found() == [
        "records of t-9 below 2 may be seen, and the name of its directory is not on the disk"
    ]
    rig.log.directory = "/data/gone-0"
    assert len(rig.found()) == 1


def test_logs_with_write_caching_are_left_out() -> None:
    rig = Rig()
    rig.append(2)
    rig.log.high_watermark = 3
    assert rig.found("t") == []
    rig.log.write_caching = True
    assert rig.found() == []


def test_an_answer_tells_of_what_is_on_the_disk() -> None:
    rig = Rig()
    data = rig.disk.directory("/data")
    rig.append(2)
    assert told(data, "t-0", 2) == told(data, "t-0", 0) == told(data, "gone-0", 9) == []
    (found,) = told(data, "t-0", 3)
    assert found.startswith("t-0 is told to end at 3, and 00000000000000000000.log, as far as byte")


def test_a_high_watermark_never_falls() -> None:
    rig = Rig()
    rig.log.write_caching = True
    assert rig.found() == []
    rig.log.high_watermark, rig.log.failed = 1, OSError()
    assert rig.found() == []  # a failed log hides what is not on the disk
    rig.log.high_watermark, rig.log.failed = 0, None
    assert rig.found() == ["the high watermark of t-0 went from 1 to 0"]


def test_a_start_is_seen_once_it_is_durable() -> None:
    rig = Rig()
    rig.log.start_offset = 2
    assert rig.found() == ["t-0 is seen to begin at 2, and on the disk at 0"]


def test_a_start_in_the_checkpoint_is_durable() -> None:
    rig = Rig()
    rig.disk.replace("/data/log-start-offset-checkpoint", b"0\n2\nu 0 9\nt 0 2\n")
    rig.log.start_offset = 2
    assert rig.found() == []


def test_no_log_begins_behind_what_is_durable_of_it() -> None:
    rig = Rig()
    rig.disk.replace("/data/log-start-offset-checkpoint", b"0\n1\nt 0 3\n")
    rig.log.start_offset = 3
    assert rig.found() == ["t-0 begins at 3, and is durable up to 2"]
