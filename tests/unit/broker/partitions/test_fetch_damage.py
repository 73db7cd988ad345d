"""Fetch: bits that flip in what the running broker has written are not served."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from protocol.errors import ErrorCode
from storage.log import Log
from storage.segments.log_file import LogSlice
from tests.support.broker_rig import Rig, batch
from tests.support.rig_client import create, produce
from tests.support.rig_fetch import (
    BATCH_BYTES,
    VALUE,
    fetch,
    fill,
    of,
    read,
    read_one,
    sizes,
    values,
)


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[Rig]:
    made = Rig(tmp_path / "data")
    yield made
    assert await made.close()


def flip(rig: Rig, at: int, bit: int, partition: int = 0) -> None:
    """Flip a bit in what the running broker has written."""
    log = rig.services.partitions.get("t", partition).log
    with Path(log.segments.active.log_file.path).open("r+b") as file:
        file.seek(at)
        (byte,) = file.read(1)
        file.seek(at)
        file.write(bytes([byte ^ bit]))


@pytest.mark.parametrize("is_cold", [False, True])
async def test_a_rotten_base_offset_is_refused_where_it_is(
    rig: Rig, is_cold: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The broker wrote the bytes itself; no checksum covers them, so no client would notice."""
    await create(rig, count=2)
    for _ in range(5):
        await produce(rig, batch(VALUE))
    await produce(rig, batch(b"b"), partition=1)
    flip(rig, 3 * BATCH_BYTES + 6, 0x10)
    if is_cold:
        monkeypatch.setattr(LogSlice, "load_hot", lambda _: None)
    bad, good = await read(rig, fetch(of(0, 0), of(1, 0)))
    assert (bad.error_code, sizes([bad])) == (ErrorCode.NONE, [3 * BATCH_BYTES])
    assert values(good) == [b"b"]
    bad, good = await read(rig, fetch(of(0, 3), of(1, 0)))
    assert (bad.error_code, sizes([bad])) == (ErrorCode.KAFKA_STORAGE_ERROR, [0])
    assert (good.error_code, values(good)) == (ErrorCode.NONE, [b"b"])
    assert rig.services.metrics.request_errors == 0


async def test_mapped_records_are_not_looked_at(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """Touching their pages could end the process."""
    await fill(rig)

    def mapped(piece: LogSlice) -> memoryview:
        return memoryview(piece.read()).toreadonly()  # as a map is

    monkeypatch.setattr(LogSlice, "load_hot", mapped)
    monkeypatch.setattr(Log, "is_in_order", None)
    assert len(values(await read_one(rig, fetch(of(0, 0))))) == 7
