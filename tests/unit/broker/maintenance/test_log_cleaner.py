"""The broker's compaction over real files: which log comes next, and how a pass may end."""

import asyncio
import errno
import logging

import pytest

from broker.maintenance import log_cleaner
from broker.maintenance.log_cleaner import LogCleaner
from broker.metadata.topic_rules import NewTopic
from storage.compaction.one_pass import CompactionAborted
from storage.errors import AppendFailed, DamagedLog
from tests.support import failures
from tests.support.broker_rig import Rig
from tests.support.compacting import fill, newest, records_of

QUICK = {"log_cleaner_backoff_ms": "5"}


@pytest.fixture
async def rig(tmp_path):
    made = Rig(tmp_path, **QUICK)
    yield made
    await made.close()


async def dirty_log(rig, name="t", count=60, **configs):
    """A compacted topic with old segments, all of it durable."""
    names = {name.replace("_", "."): value for name, value in configs.items()}
    settings = {"cleanup.policy": "compact", "internal.segment.bytes": "500"} | names
    await rig.services.topics.create([NewTopic(name=name, partition_count=1, configs=settings)])
    log = rig.services.partitions.get(name, 0).log
    fill(log, count)
    settle(log)
    return log


def settle(log):
    for begin, finish in (
        (log.begin_flush, log.finish_flush),
        (log.begin_checkpoint, log.finish_checkpoint),
    ):
        job = begin()
        if job is not None:
            job.run()
            finish(job, None)


async def until(condition):
    async with asyncio.timeout(10):
        while not condition():
            await asyncio.sleep(0.002)


async def cleaned(rig, *logs):
    """Run a cleaner until each log is compacted up to its active segment."""
    cleaner = LogCleaner(rig.services)
    cleaner.start()
    await until(
        lambda: all(log.segments.cleaned.offset == log.segments.active.base_offset for log in logs)
    )
    await cleaner.stop()


async def test_dirty_logs_are_compacted_and_the_checkpoint_advances(rig, tmp_path, caplog):
    caplog.set_level(logging.INFO)
    logs = [await dirty_log(rig, name) for name in ("a", "b", "c")]
    before = [newest(records_of(log)) for log in logs]
    await cleaned(rig, *logs)
    assert [newest(records_of(log)) for log in logs] == before
    assert all(len(records_of(log)) < 15 for log in logs)
    await rig.services.checkpoints.write()
    lines = (tmp_path / "cleaner-offset-checkpoint").read_text().splitlines()
    assert sorted(lines[2:]) == [f"{name} 0 {logs[0].segments.cleaned.offset}" for name in "abc"]
    assert "compacted a-0 (dirty section [0, " in caplog.text


async def test_the_dirtiest_comes_first(rig):
    logs = [await dirty_log(rig, name) for name in ("a", "b")]
    cleaner = LogCleaner(rig.services)
    logs[0].segments.cleaned.offset = logs[0].segments.all[3].base_offset
    assert await cleaner._filthiest() is logs[1]
    logs[1].segments.cleaned.offset = logs[1].segments.all[-2].base_offset
    assert await cleaner._filthiest() is logs[0]
    logs[0].update_config(logs[0].config.with_overrides({"min.cleanable.dirty.ratio": "1"}))
    assert await cleaner._filthiest() is None
    await cleaner.stop()


async def test_a_look_at_many_logs_takes_turns(rig, monkeypatch):
    for number in range(5):
        await dirty_log(rig, f"t{number}")
    monkeypatch.setattr(log_cleaner, "LOGS_PER_TURN", 2, raising=False)
    turn, turns = 0, []
    find_cleanable = log_cleaner.find_cleanable

    def find(*arguments):
        turns.append(turn)
        return find_cleanable(*arguments)

    async def count():
        nonlocal turn
        while len(turns) < 5:
            turn += 1
            await asyncio.sleep(0)

    monkeypatch.setattr(log_cleaner, "find_cleanable", find)
    counting = asyncio.create_task(count())
    assert await LogCleaner(rig.services)._filthiest() is not None
    assert max(turns.count(one) for one in turns) == 2
    await counting


async def test_topics_without_compaction_are_not_compacted(rig):
    log = await dirty_log(rig, cleanup_policy="delete")
    cleaner = LogCleaner(rig.services)
    assert await cleaner._filthiest() is None
    log.update_config(log.config.with_overrides({"cleanup.policy": "compact,delete"}))
    assert await cleaner._filthiest() is log
    await cleaner.stop()


async def test_damage_is_reported_once_and_other_logs_are_still_compacted(rig, caplog):
    damaged, sound = await dirty_log(rig, "a"), await dirty_log(rig, "b")
    path = damaged.segments.all[2].log_file.path
    damaged.segments.all[2].log_file.file().pwrite(b"\xff\xff\xff", 80)
    cleaner = LogCleaner(rig.services)
    cleaner.start()
    await until(lambda: sound.segments.cleaned.offset and "uncleanable" in caplog.text)
    await asyncio.sleep(0.05)
    await cleaner.stop()
    errors = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert len(errors) == 1
    assert path in errors[0].getMessage()
    assert "position" in errors[0].getMessage()
    assert damaged.segments.cleaned.offset == 0
    assert not damaged.segments.held


async def test_the_cleaner_waits_for_a_full_disk(rig, caplog, monkeypatch):
    log = await dirty_log(rig)
    real, left = log_cleaner.compact, [2]

    def without_room(*arguments):
        if left[0]:
            left[0] -= 1
            cause = OSError(errno.ENOSPC, "no space")
            raise AppendFailed("x.cleaned", 0, cause, rolled_back=True) from cause
        return (yield from real(*arguments))

    monkeypatch.setattr(log_cleaner, "compact", without_room)
    monkeypatch.setattr(log_cleaner, "MS_NS", 1)  # a pause of a second takes a microsecond
    await cleaned(rig, log)
    assert caplog.text.count("will retry") == 2
    assert rig.services.logs.home.room.refusals == 2


@pytest.mark.parametrize(
    ("error", "is_left"),
    [
        (DamagedLog("f", 1, 2, found="a", wanted="b"), True),
        (OSError(errno.EIO, "bad"), True),
        (RuntimeError("a bug"), True),
        (CompactionAborted("closed"), False),
        (OSError(errno.ENOSPC, "full"), False),
    ],
)
async def test_the_effect_of_an_error_on_the_log(rig, monkeypatch, error, is_left):
    log = await dirty_log(rig)

    def fails(*_):
        raise error
        yield

    monkeypatch.setattr(log_cleaner, "compact", fails)
    cleaner = LogCleaner(rig.services)
    await cleaner._clean(log)
    assert (cleaner._uncleanable.get(("t", 0)) is log) == is_left
    assert ["a bug" in line for line in failures.take()] == [True] * isinstance(error, RuntimeError)
    await cleaner.stop()


async def test_a_deleted_topic_ends_its_pass(rig):
    log = await dirty_log(rig)
    cleaner = LogCleaner(rig.services)
    begun = asyncio.create_task(cleaner._clean(log))
    await until(lambda: log.segments.held)
    await rig.services.topics.delete("t")
    await begun
    assert not cleaner._uncleanable
    again = await dirty_log(rig)
    await cleaned(rig, again)
    await cleaner.stop()


async def test_records_that_are_deleted_before_their_pass_begins_are_not_compacted(rig):
    log = await dirty_log(rig, cleanup_policy="compact,delete", min_cleanable_dirty_ratio="0")
    cleaner = LogCleaner(rig.services)
    assert await cleaner._filthiest() is log
    log.delete_records_before(log.end_offset)  # and the pass first writes the start offset
    await cleaner._clean(log)
    assert log.start_offset == log.end_offset
    assert await cleaner._filthiest() is None
    fill(log, 60)
    settle(log)
    assert await cleaner._filthiest() is log, "it was not given up"


async def test_a_disabled_cleaner_runs_no_pass(rig):
    rig.services.reconfigure(rig.services.config)
    log = await dirty_log(rig)
    object.__setattr__(rig.services.config, "log_cleaner_enable", False)
    cleaner = LogCleaner(rig.services)
    cleaner.start()
    await asyncio.sleep(0.02)
    await cleaner.stop()
    assert log.segments.cleaned.offset == 0


async def test_a_stop_ends_a_pass_that_waits_for_its_turn(rig):
    log = await dirty_log(rig, count=400)
    object.__setattr__(rig.services.config, "log_cleaner_io_max_bytes_per_second", 1.0)
    cleaner = LogCleaner(rig.services)
    cleaner.start()
    await until(lambda: log.segments.held)
    async with asyncio.timeout(5):
        await cleaner.stop()
    assert not log.segments.held
    assert log.segments.cleaned.offset == 0


async def test_fetches_see_no_gap_and_no_error_while_segments_are_swapped(rig):
    log = await dirty_log(rig, count=400, internal_segment_bytes="5000")
    cleaner = LogCleaner(rig.services)
    cleaner.start()
    numbers = 400
    while log.segments.cleaned.offset < 1000:
        fill(log, 40, start=numbers)
        numbers += 40
        settle(log)
        found = records_of(log)
        offsets = [record.offset for record in found]
        assert offsets == sorted(set(offsets))
        assert offsets[-1] == numbers - 1
        wanted = {b"k%02d" % (n % 4): (n, b"%03d" % n) for n in range(numbers - 4, numbers)}
        assert newest(found) == wanted
        await asyncio.sleep(0.003)
    await cleaner.stop()


async def test_an_uncleanable_log_is_dropped_with_its_topic(rig):
    log = await dirty_log(rig)
    cleaner = LogCleaner(rig.services)
    cleaner._give_up(log, OSError("damage"))
    await cleaner._begin_passes()
    assert cleaner._uncleanable == {("t", 0): log}
    assert rig.services.metrics.partitions_uncleanable_now == 1
    await rig.services.topics.delete("t")
    await cleaner._begin_passes()
    assert not cleaner._uncleanable
    assert rig.services.metrics.partitions_uncleanable_now == 0
    await cleaner.stop()
