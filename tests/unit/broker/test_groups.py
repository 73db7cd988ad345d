"""The coordinator with its log: commits, fetches, loading, restarts and failures."""

import asyncio
import threading
from collections.abc import Sized
from pathlib import Path

import pytest

from broker.groups.classic.classic_group import ClassicGroup
from broker.groups.errors import code_of_write
from broker.groups.registry import Registry
from broker.groups.removal import expire_offsets
from broker.groups.replay import Replayer, read_chunk
from broker.metadata.topic_rules import GROUP_TOPIC
from protocol.errors import ErrorCode
from protocol.group_records import OffsetCommitKey, OffsetCommitValue, encode_key, encode_value
from protocol.records import Record, build
from storage.errors import DamagedLog, LogFailed
from storage.flush import Flush
from tests.support.broker_rig import Rig
from tests.support.group_rig import commit, committed, find, heartbeat, member
from tests.support.rig_client import crash, create

LOADING, NOT_AVAILABLE, NOT_COORDINATOR, STORAGE = 14, 15, 16, 56


def rig_of(directory: Path, **settings: str) -> Rig:
    return Rig(directory, **{"offsets_topic_num_partitions": "3", **settings})


async def until_there_are(count: int, waiters: Sized) -> None:
    async with asyncio.timeout(10):
        while len(waiters) < count:
            await asyncio.sleep(0.001)


@pytest.fixture
async def rig(tmp_path):
    made = rig_of(tmp_path)
    await create(made, "t", 2)
    await find(made)
    yield made
    await made.close()


async def test_the_topic_is_kafkas(tmp_path):
    rig = Rig(tmp_path)
    assert rig.services.topics.by_name(GROUP_TOPIC) is None
    await asyncio.gather(*(find(rig) for _ in range(3)))
    topic = rig.services.topics.by_name(GROUP_TOPIC)
    assert topic is not None
    assert len(topic.partitions) == 50
    assert topic.configs == {
        "cleanup.policy": "compact",
        "compression.type": "producer",
        "segment.bytes": "104857600",
    }
    assert await rig.close()


async def test_segments_of_the_topic_below_the_floor_of_topics(tmp_path):
    """Kafka accepts the key at its start, and can then never create the topic."""
    rig = rig_of(tmp_path, offsets_topic_segment_bytes="1")
    await create(rig)
    await find(rig)
    assert rig.services.topics.by_name(GROUP_TOPIC).configs["segment.bytes"] == "1048576"
    assert await commit(rig, ("t", 0, 7)) == [("t", 0, 0)]
    assert await rig.close()


async def test_records_that_one_segment_cannot_hold_are_written_in_pieces(tmp_path):
    rig = rig_of(tmp_path, internal_segment_bytes="700")
    await find(rig)
    log = rig.services.groups.log
    gone = [(OffsetCommitKey(group="g", topic="t", partition=number), None) for number in range(60)]
    pieces = log.pieces(0, gone)
    assert [record for piece in pieces for record in piece] == gone
    assert [log.append(0, piece) for piece in pieces][-1] == 60
    assert await rig.close()


async def test_a_fetch_overtaken_by_a_stop_is_still_answered(rig, monkeypatch):
    await commit(rig, ("t", 0, 7))
    groups = rig.services.groups
    waiters = groups.log.partition(groups.partition_of("g")).waiters
    may_end, run = threading.Event(), Flush.run
    monkeypatch.setattr(Flush, "run", lambda flush: may_end.wait(10) and run(flush))
    commits = asyncio.create_task(commit(rig, ("t", 0, 8)))  # the fetch waits for it, too
    await until_there_are(1, waiters)
    fetches = asyncio.create_task(committed(rig, ("t", 0)))
    await until_there_are(2, waiters)
    groups.stop()
    may_end.set()
    assert await commits == [("t", 0, 0)]
    assert await fetches == {("t", 0): 8}
    assert await committed(rig, ("t", 0)) == NOT_COORDINATOR


async def test_before_the_offsets_topic_exists_no_group_is_coordinated(tmp_path):
    rig = rig_of(tmp_path)
    await create(rig)
    assert await commit(rig, ("t", 0, 1)) == [("t", 0, NOT_COORDINATOR)]
    assert await committed(rig, ("t", 0)) == NOT_COORDINATOR
    assert await heartbeat(rig, "m", 1) == NOT_COORDINATOR
    await rig.close()


async def test_commits_without_a_member(rig):
    assert await committed(rig, ("t", 0)) == {("t", 0): -1}
    assert await committed(rig) == {}
    assert await commit(rig, ("t", 0, 7), ("t", 1, 8)) == [("t", 0, 0), ("t", 1, 0)]
    assert await commit(rig, ("t", 1, 9)) == [("t", 1, 0)]
    assert await committed(rig) == {("t", 0): 7, ("t", 1): 9}
    assert await committed(rig, ("t", 1), ("t", 2), ("no", 0)) == {
        ("t", 1): 9,
        ("t", 2): -1,
        ("no", 0): -1,
    }


@pytest.mark.parametrize("clean", [True, False])
async def test_offsets_and_a_stable_group_survive_a_restart(tmp_path, clean):
    rig = rig_of(tmp_path)
    await create(rig)
    await find(rig)
    await commit(rig, ("t", 0, 7), metadata="why", group_id="simple")
    member_id, generation = await member(rig)
    kept = {"member_id": member_id, "generation_id_or_member_epoch": generation}
    assert await commit(rig, ("t", 0, 8), **kept) == [("t", 0, 0)]
    if clean:
        assert await rig.close()
    else:
        await crash(rig)
    again = rig_of(tmp_path)
    await again.loading
    assert await heartbeat(again, member_id, generation) == 0
    assert await committed(again) == {("t", 0): 8}
    assert await committed(again, group="simple") == {("t", 0): 7}
    found = again.services.groups.registry_of("simple").offsets.get("simple", "t", 0)
    assert found is not None
    assert (found.metadata, found.leader_epoch) == ("why", 3)
    assert await commit(again, ("t", 0, 9), **kept) == [("t", 0, 0)]
    assert await again.close()


async def test_while_groups_are_loaded(tmp_path):
    rig = rig_of(tmp_path, offsets_topic_num_partitions="1")
    await create(rig)
    await find(rig)
    member_id, generation = await member(rig)
    await rig.close()
    again = rig_of(tmp_path)
    assert await asyncio.wait_for(_codes(again, member_id), 5) == [LOADING, LOADING, 0]
    await again.loading
    assert await committed(again) == {}
    assert await heartbeat(again, member_id, generation) == 0
    assert await heartbeat(again, member_id, generation + 1) == 22
    await again.close()


async def _codes(rig: Rig, member_id: str) -> list[int]:
    """Return the error codes of requests before the loader's first turn."""
    rig.loading.cancel()
    codes = [(await commit(rig, ("t", 0, 1)))[0][2], await committed(rig)]
    codes.append(await heartbeat(rig, member_id, 99))
    rig.loading = asyncio.create_task(rig.services.groups.load())
    return codes


async def test_the_groups_of_a_damaged_log_are_not_coordinated(tmp_path, monkeypatch):
    rig = rig_of(tmp_path, offsets_topic_num_partitions="1")
    await create(rig)
    await find(rig)
    await commit(rig, ("t", 0, 1))
    await rig.close()
    again = rig_of(tmp_path)

    def fails(*_: object) -> None:
        raise DamagedLog("here", 0, 0, found="a bad batch", wanted="a good one")

    monkeypatch.setattr(Replayer, "apply", fails)
    await again.loading
    assert await committed(again) == NOT_COORDINATOR
    await again.close()


async def test_a_partition_that_is_offline_at_the_start_is_loaded_when_it_is_back(tmp_path):
    """The broker starts without it, and must not treat it as empty once its disk is back."""
    rig = rig_of(tmp_path, offsets_topic_num_partitions="1")
    await create(rig)
    await find(rig)
    await commit(rig, ("t", 0, 7))
    await rig.close()
    directory, unplugged = tmp_path / f"{GROUP_TOPIC}-0", tmp_path / "unplugged"
    directory.rename(unplugged)
    directory.symlink_to(tmp_path / "nowhere")
    again = rig_of(tmp_path)
    await again.loading
    assert await committed(again, ("t", 0)) == NOT_COORDINATOR
    assert await commit(again, ("t", 0, 8)) == [("t", 0, NOT_COORDINATOR)]
    await again.services.topics.open_offline()
    assert await committed(again, ("t", 0)) == NOT_COORDINATOR
    directory.unlink()
    unplugged.rename(directory)
    await again.services.topics.open_offline()
    assert await committed(again, ("t", 0)) == LOADING
    async with asyncio.timeout(5):
        while await committed(again, ("t", 0)) == LOADING:
            await asyncio.sleep(0.001)
    assert await committed(again, ("t", 0)) == {("t", 0): 7}
    await again.close()


async def test_a_commit_that_is_not_written_changes_nothing(rig):
    await commit(rig, ("t", 0, 1))
    number = next(
        number
        for number in range(3)
        if rig.services.partitions.get(GROUP_TOPIC, number).log.end_offset
    )
    log = rig.services.partitions.get(GROUP_TOPIC, number).log
    log.failed = LogFailed("here", "on purpose")
    assert await commit(rig, ("t", 0, 2)) == [("t", 0, NOT_COORDINATOR)]
    assert rig.services.groups.registry_of("g").offsets.get("g", "t", 0).offset == 1


async def test_a_commit_that_the_disk_does_not_confirm_is_not_confirmed(rig, monkeypatch):
    def wait(partition, end_offset, timeout_ms, answer, *, on_disk):
        answer(ErrorCode.REQUEST_TIMED_OUT)

    with monkeypatch.context() as patch:
        patch.setattr(rig.services.commit, "wait", wait)
        assert await commit(rig, ("t", 0, 2)) == [("t", 0, NOT_AVAILABLE)]
        assert await committed(rig) == NOT_COORDINATOR
    assert await committed(rig) == {("t", 0): 2}


@pytest.mark.parametrize(
    ("code", "told"),
    [
        (ErrorCode.NONE, 0),
        (ErrorCode.REQUEST_TIMED_OUT, NOT_AVAILABLE),
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, NOT_AVAILABLE),
        (ErrorCode.KAFKA_STORAGE_ERROR, NOT_COORDINATOR),
        (ErrorCode.RECORD_LIST_TOO_LARGE, -1),
        (ErrorCode.UNKNOWN_SERVER_ERROR, -1),
    ],
)
def test_errors_of_the_log_are_answered_as_errors_of_the_group(code, told):
    assert code_of_write(code) == told


async def test_a_record_that_does_not_fit_into_a_batch(rig):
    for number in range(3):
        log = rig.services.partitions.get(GROUP_TOPIC, number).log
        log.update_config(log.config.with_overrides({"max.message.bytes": "100"}))
    assert await commit(rig, ("t", 0, 2), metadata="x" * 200) == [("t", 0, -1)]
    assert await committed(rig, ("t", 0)) == {("t", 0): -1}


async def test_the_offsets_of_a_deleted_topic_are_deleted(rig):
    await create(rig, "u")
    await commit(rig, ("t", 0, 7), ("u", 0, 8))
    await rig.services.topics.delete("t")
    assert await committed(rig) == {("u", 0): 8}


async def test_without_its_topic_the_coordinator_knows_no_groups(rig):
    member_id, generation = await member(rig)
    await rig.services.topics.delete(GROUP_TOPIC)
    assert await heartbeat(rig, member_id, generation) == NOT_COORDINATOR
    await find(rig)
    assert await heartbeat(rig, member_id, generation) == 25
    assert await committed(rig) == {}


async def test_old_offsets_expire_and_the_group_with_the_last_one(rig):
    groups = rig.services.groups
    await commit(rig, ("t", 0, 7), group_id="old")
    await commit(rig, ("t", 0, 7), group_id="young")
    await commit(rig, ("t", 0, 7), group_id="own", version=4, retention_time_ms=1)
    member_id, generation = await member(rig, "alive")
    kept = {"member_id": member_id, "generation_id_or_member_epoch": generation}
    await commit(rig, ("t", 0, 7), group_id="alive", **kept)
    await expire_offsets(groups)
    now_ms = rig.clock.now_ms()
    week_ms = 7 * 24 * 60 * 60_000
    offsets = groups.registry_of("old").offsets.topics("old")["t"]
    offsets[0] = offsets[0]._replace(committed_ms=now_ms - week_ms - 1)
    await expire_offsets(groups)
    assert {group.group_id for group in groups.groups()} == {"young", "alive"}
    await crash(rig)


async def test_a_stop_answers_every_waiting_request(rig):
    await member(rig)
    waiting = asyncio.create_task(member(rig, "g", session_timeout_ms=9_000))
    await asyncio.sleep(0.05)
    rig.services.groups.stop()
    with pytest.raises(AssertionError, match="error_code=16"):
        await waiting


def record(offset: int, partition: int, committed_offset: int) -> Record:
    key = OffsetCommitKey(group="g", topic="t", partition=partition)
    value = OffsetCommitValue(offset=committed_offset, commit_timestamp=1)
    return Record(offset, 1, encode_key(key), encode_value(value))


def marker(producer_id: int, *, commits: bool) -> bytearray:
    key = b"\0\0" + (b"\0\1" if commits else b"\0\0")
    return build(
        [Record(0, 1, key, b"\0\0\0\0\0\0")],
        base_offset=50,
        producer_id=producer_id,
        transactional=True,
        control=True,
    )


@pytest.mark.parametrize(
    ("commits", "later", "wanted"),
    [(True, False, 5), (False, False, 1), (None, False, 1), (True, True, 6)],
)
async def test_offsets_of_a_transaction_count_when_it_is_committed(rig, commits, later, wanted):
    groups = rig.services.groups
    replayer = Replayer(groups.registry_of("g"), groups, lambda _: True)
    chunk = build([record(0, 0, 1)], base_offset=10)
    chunk += build([record(0, 0, 5)], base_offset=20, producer_id=9, transactional=True)
    if later:
        chunk += build([record(0, 0, 6)], base_offset=30)
    if commits is not None:
        chunk += marker(9, commits=commits)
    read = read_chunk(chunk)
    assert read[-1].next_offset == (51 if commits is not None else 21)
    assert list(replayer.apply(read)) == []
    assert (await committed(rig)) == {("t", 0): wanted}


async def test_records_without_a_meaning_here_are_skipped(rig):
    replayer = Replayer(registry := Registry(), rig.services.groups, lambda _: True)
    keys = [b"", b"\0\x63more", b"\0\1", None]
    chunk = build([Record(0, 1, key, b"\0\0") for key in keys])
    (read,) = read_chunk(chunk)
    assert (read.next_offset, read.record_count, read.records) == (4, 4, [])
    assert list(replayer.apply([read])) == []
    assert registry.groups == {}


async def test_an_id_names_one_group_at_a_time(rig):
    registry = rig.services.groups.registry_of("g")
    first, second = (ClassicGroup("g", rig.services.groups) for _ in range(2))
    registry.put(first)
    registry.put(second)
    assert registry.get("g") is second
    registry.remove("g", ErrorCode.NOT_COORDINATOR)
    registry.remove("g", ErrorCode.NOT_COORDINATOR)
    assert registry.get("g") is None
    assert second.state_name == "Dead"
