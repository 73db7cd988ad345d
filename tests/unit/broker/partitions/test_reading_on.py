"""The usual fetch is answered as by a reading, where it is answered at all."""

import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from broker.network.connection_account import own_bytes
from protocol.messages.fetch import FetchRequest
from storage.files.os_filesystem import OsFile
from storage.log import Log
from tests.support.broker_rig import Rig, batch
from tests.support.log_transactions import end, send
from tests.support.rig_client import ask, create, produce
from tests.support.rig_fetch import VALUE, fetch, fill, of, values

FIRST_BYTES = len(batch(b"3", b"4", b"5"))


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[Rig]:
    made = Rig(tmp_path / "data")
    yield made
    assert await made.close()


async def read_both(
    rig: Rig, monkeypatch: pytest.MonkeyPatch, body: FetchRequest, version: int
) -> tuple[Any, bool]:
    """Return the answer, which both ways give, and whether the short way gave it."""
    reads: list[int] = []
    sound = Log.read_on

    def read_on(log: Log, *args: Any) -> Any:
        found = sound(log, *args)
        reads.append(0 if found is None else len(found))
        return found

    with monkeypatch.context() as patched:
        patched.setattr(Log, "read_on", read_on)
        short = plain(await ask(rig, body, version))
    with monkeypatch.context() as patched:
        patched.setattr(Log, "read_on", lambda *_: None)
        assert plain(await ask(rig, body, version)) == short
    return short, any(reads)


def plain(response: Any) -> Any:
    for topic in response.responses:
        for one in topic.partitions:
            one.records = bytes(one.records)
    return response


@pytest.mark.parametrize("version", [4, 11, 12, 13, 17])
@pytest.mark.parametrize("isolation_level", [0, 1])
@pytest.mark.parametrize("wait_ms", [0, 60_000])
async def test_the_answer_is_that_of_a_reading(
    rig: Rig, monkeypatch: pytest.MonkeyPatch, version: int, isolation_level: int, wait_ms: int
) -> None:
    await fill(rig)
    topic_id = rig.services.topics.by_name("t").topic_id
    named = {} if version < 13 else {"topic_id": topic_id}
    more = {"max_wait_ms": wait_ms, "isolation_level": isolation_level, **named}
    answer, is_short = await read_both(rig, monkeypatch, fetch(of(0, 3), **more), version)
    assert is_short
    (topic,) = answer.responses
    assert values(topic.partitions[0]) == [b"3", b"4", b"5", b"6"]


@pytest.mark.parametrize(
    ("body", "is_short"),
    [
        (fetch(of(0, 3)), True),
        (fetch(of(0, 3, FIRST_BYTES)), True),
        (fetch(of(0, 3), max_bytes=FIRST_BYTES), True),
        (fetch(of(0, 3, 20)), False),  # at least one batch
        (fetch(of(0, 3, 0)), False),
        (fetch(of(0, 3), max_bytes=-3), False),
        (fetch(of(0, 3), min_bytes=2, max_wait_ms=20), True),  # by a reading
        (fetch(of(0, 7)), False),  # the end
        (fetch(of(0, 8)), False),  # out of range
        (fetch(of(0, -1)), False),
        (fetch(of(0, 3, last_fetched_epoch=9)), False),
        (fetch(of(0, 3, current_leader_epoch=9)), False),
        (fetch(of(1, 5)), False),  # unknown
    ],
)
async def test_what_is_unusual_is_left_to_a_reading(
    rig: Rig, monkeypatch: pytest.MonkeyPatch, body: FetchRequest, is_short: bool
) -> None:
    await fill(rig)
    _, was_short = await read_both(rig, monkeypatch, body, 12)
    assert was_short == is_short


async def test_readers_of_committed_records(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a transaction was aborted, it must be named; where one is open, the end is before."""
    await fill(rig)
    log = rig.services.partitions.get("t", 0).log
    send(log, 5)
    await produce(rig, batch(VALUE))
    body = fetch(of(0, 3), isolation_level=1)
    (topic,) = (await read_both(rig, monkeypatch, body, 12))[0].responses
    assert values(topic.partitions[0]) == [b"3", b"4", b"5", b"6"]
    end(log, 5, commit=False)
    await produce(rig, batch(VALUE))
    answer, is_short = await read_both(rig, monkeypatch, body, 12)
    assert not is_short
    (named,) = answer.responses[0].partitions[0].aborted_transactions
    assert named.producer_id == 5


async def test_while_answers_wait_a_fetch_gets_less(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    await fill(rig)
    monkeypatch.setattr("broker.partitions.reading_on.PRESSED_BYTES_MAX", FIRST_BYTES)
    monkeypatch.setattr("broker.partitions.fetch_reading.PRESSED_BYTES_MAX", FIRST_BYTES)
    monkeypatch.setattr(type(rig.services.answers), "full", True)
    answer, is_short = await read_both(rig, monkeypatch, fetch(of(0, 3)), 12)
    assert is_short
    assert len(values(answer.responses[0].partitions[0])) == 3


@pytest.mark.parametrize("waits", [False, True])
async def test_what_is_cut_off_takes_no_memory_of_an_answer(
    rig: Rig, monkeypatch: pytest.MonkeyPatch, waits: bool
) -> None:
    """And what is sent is counted, also where the file system only has reads that may wait."""
    if waits:
        monkeypatch.setattr(OsFile, "pread_nowait", OsFile.pread)
    await create(rig)
    for value in (b"0", b"1", bytes(100_000)):
        await produce(rig, batch(value))
    found = rig.services.partitions.get("t", 0).log.read_on(1, 90_000, 3)
    assert own_bytes([found]) == len(found) == len(batch(b"1"))
    kept = found.obj if type(found) is memoryview else found
    assert sys.getsizeof(kept) < 1000
