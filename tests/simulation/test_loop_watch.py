"""The loop's side may not wait for the disk, nor do too much with it in a turn."""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType
from typing import Any

import pytest

from protocol.compression import GZIP, NONE
from storage.files.filesystem import ON_THE_LOOP, TURN_MAX
from tests.simulation.disk_rig import disk_of, make
from tests.support import loop_guard


def as_broker(call: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function as if a module of the broker had it."""
    return FunctionType(
        call.__code__, {"__name__": "broker.made_up", "__builtins__": __builtins__}, "made_up"
    )


def sync(file: Any) -> None:
    file.fdatasync()


def ask(disk: Any) -> None:
    disk.exists("/data")


def rename(disk: Any) -> None:
    disk.rename("/data/t-0/f", "/data/t-0/g")
    disk.rename("/data/t-0/g", "/data/t-0/f")


def do_what_is_allowed(disk: Any) -> None:
    file = disk.open("/data/t-0/g", create=True)
    file.pwrite(b"1234", 0)
    file.pread_nowait(4, 0)
    file.is_cached(0, 4)
    file.map(4)
    file.size()
    file.truncate(0)
    file.close()
    disk.rename("/data/t-0/g", "/data/t-0/h")
    disk.unlink("/data/t-0/h")


@pytest.fixture
def served() -> Any:
    rig = disk_of()
    rig.file = make(rig.disk)
    rig.baton.on_loop = True
    rig.disk.serving = True
    yield rig
    rig.disk.serving = False
    assert rig.disk.watch.count not in loop_guard.watchers


def test_a_call_that_may_wait_is_a_violation_on_the_loop(served: Any) -> None:
    as_broker(sync)(served.file)
    as_broker(sync)(served.file)
    (found,) = served.disk.violations
    assert found.startswith("File.fdatasync(/data/t-0/f)\n  broker.made_up:")
    as_broker(ask)(served.disk)
    assert served.disk.violations[1].startswith("FileSystem.exists(/data)")


def test_what_jobs_judges_and_a_broker_that_starts_do_is_none(served: Any) -> None:
    sync(served.file)
    served.baton.on_loop = False
    as_broker(sync)(served.file)
    served.baton.on_loop = True
    served.disk.serving = False
    as_broker(sync)(served.file)
    assert served.disk.violations == []


def test_the_loop_may_do_what_the_list_allows(served: Any) -> None:
    served.disk.full(100)
    as_broker(do_what_is_allowed)(served.disk)
    assert served.disk.violations == []
    assert len(ON_THE_LOOP) == 12, "the calls above are all but forget_pages and note_synced"


def test_the_work_of_a_turn_is_bounded(served: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(TURN_MAX, "FileSystem.rename", 4)
    for _ in range(3):
        as_broker(rename)(served.disk)
        as_broker(rename)(served.disk)
        served.disk.end_turn()
    assert served.disk.violations == []
    for _ in range(3):
        as_broker(rename)(served.disk)
    (found,) = served.disk.violations
    assert found.startswith("more than 4 FileSystem.rename a turn(/data/t-0/f)")


def unpack(codec: int) -> None:
    from protocol import recompression
    from protocol.compression import compress

    recompression.decompress(codec, compress(codec, b"records"), 100)


def test_a_compressed_batch_is_not_opened_on_the_loop(served: Any) -> None:
    as_broker(unpack)(NONE)
    assert served.disk.violations == []
    served.baton.on_loop = False
    as_broker(unpack)(GZIP)
    assert served.disk.violations == []
    served.baton.on_loop = True
    as_broker(unpack)(GZIP)
    (found,) = served.disk.violations
    assert found.startswith("a compressed batch is opened(long work)")
