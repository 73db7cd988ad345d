"""Aborted transactions after a start: whatever became of the files that list them."""

import errno
import itertools

import pytest

from storage.compaction.cleanable import find_cleanable
from storage.compaction.one_pass import compact
from storage.opening import abort_loading
from storage.segments.abort_index import ENTRY_BYTES
from tests.support.compacting import FIVE, drive, keyed, limits, settle
from tests.support.log_house import NOW, House, append, batch, checkpoint, flush
from tests.support.log_transactions import end, mark, send
from tests.support.stopped_logs import warnings_of

SEGMENTS = {"internal_segment_bytes": 6 * len(batch())}
ENDS = ("stop", "kill", "lost", "torn", "zeros", "kept")


def house_of(config=SEGMENTS):
    house = House()
    house.open()
    return house, house.log(**config)


def busy(log):
    """Abort and commit transactions that lie across each other; return what was aborted."""
    aborted = []
    for n in range(6):
        first = send(log, 5, epoch=n)
        other = send(log, 6, epoch=n)
        append(log)
        marker = end(log, 6, commit=n % 3 == 1, epoch=n + 1)
        if n % 3 != 1:
            aborted.append((6, other, marker))
        marker = end(log, 5, commit=n % 2 == 1, epoch=n + 1)
        if n % 2 != 1:
            aborted.append((5, first, marker))
    return aborted


def leave(house, how):
    if how == "stop":
        assert house.stop()
    elif how == "kill":
        house.kill()
    else:
        house.crash(how)


def listed(log):
    return log.aborted(0, log.last_stable_offset)


def entries(house):
    """What the files say: (producer, first offset, marker)."""
    found = []
    for name in house.names(".txnindex"):
        data = house.filesystem.read(house.path(name))
        for at in range(0, len(data), ENTRY_BYTES):
            fields = [data[at + 2 + 8 * n : at + 10 + 8 * n] for n in range(3)]
            found.append(tuple(int.from_bytes(field, "big") for field in fields))
    return found


@pytest.mark.parametrize("how", ENDS)
@pytest.mark.parametrize("checkpoints", [False, True])
def test_they_survive(how, checkpoints):
    house, log = house_of()
    aborted = busy(log)
    if checkpoints:
        checkpoint(house, log)
    assert listed(log) == [(pid, first) for pid, first, _ in aborted]
    leave(house, how)
    log = house.restart(**SEGMENTS)
    assert listed(log) == [(pid, first) for pid, first, _ in aborted]
    log.settle_replayed()
    assert house.stop()
    assert entries(house) == aborted
    assert not [text for text in warnings_of(house) if "txnindex" in text]


def test_each_is_listed_in_the_segment_of_its_marker():
    house, log = house_of()
    busy(log)
    assert house.stop()
    assert len(house.names(".txnindex")) > 2
    for name in house.names(".txnindex"):
        base = int(name.split(".")[0])
        after = min((s.base_offset for s in log.segments if s.base_offset > base), default=10**9)
        data = house.filesystem.read(house.path(name))
        for at in range(0, len(data), ENTRY_BYTES):
            assert base <= int.from_bytes(data[at + 18 : at + 26], "big") < after


DAMAGE = {
    "gone": lambda fs, path: fs.unlink(path),
    "empty": lambda fs, path: fs.replace(path, b""),
    "an entry short": lambda fs, path: fs.replace(path, fs.read(path)[:-ENTRY_BYTES]),
    "the first entry gone": lambda fs, path: fs.replace(path, fs.read(path)[ENTRY_BYTES:]),
    "torn": lambda fs, path: fs.replace(path, fs.read(path)[:-5]),
    "a flipped bit": lambda fs, path: fs.edit(path, 9, bytes([fs.read(path)[9] ^ 1])),
    "zeros": lambda fs, path: fs.replace(path, bytes(len(fs.read(path)))),
}


@pytest.mark.parametrize("damage", DAMAGE)
@pytest.mark.parametrize("which", ["first", "last", "all"])
@pytest.mark.parametrize("caches", ["kept", "no .producers", "no .snapshot", "neither"])
@pytest.mark.parametrize("how", ["stop", "kill"])
def test_a_damaged_list_is_built_anew(damage, which, caches, how):
    house, log = house_of()
    aborted = busy(log)
    checkpoint(house, log)
    leave(house, how)
    names = house.names(".txnindex")
    for name in {"first": names[:1], "last": names[-1:], "all": names}[which]:
        DAMAGE[damage](house.filesystem, house.path(name))
    for suffix in (".producers", ".snapshot"):
        if caches in (f"no {suffix}", "neither"):
            for name in house.names(suffix):
                house.filesystem.unlink(house.path(name))
    log = house.restart(**SEGMENTS)
    assert listed(log) == [(pid, first) for pid, first, _ in aborted]
    log.settle_replayed()
    assert house.stop()
    assert entries(house) == aborted


def test_the_walk_is_said_and_made_once():
    house, log = house_of()
    busy(log)
    assert house.stop()
    house.filesystem.unlink(house.path(house.names(".txnindex")[0]))
    house.restart(**SEGMENTS)
    (text,) = [text for text in warnings_of(house) if "txnindex" in text]
    assert "built anew" in text
    assert house.stop()
    house.restart(**SEGMENTS)
    assert not [text for text in warnings_of(house) if "txnindex" in text]


@pytest.mark.parametrize("how", ["stop", "kill"])
def test_a_log_of_kafkas_is_walked_once_and_not_at_each_start(how):
    house, log = house_of()
    aborted = busy(log)
    assert house.stop()
    for name in house.names(".producers"):
        house.filesystem.unlink(house.path(name))
    log = house.restart(**SEGMENTS)
    assert [text for text in warnings_of(house) if "nothing vouches" in text]
    checkpoint(house, log)
    leave(house, how)
    log = house.restart(**SEGMENTS)
    assert listed(log) == [(pid, first) for pid, first, _ in aborted]
    assert not [text for text in warnings_of(house) if "txnindex" in text]


def test_after_all_producers_have_expired_a_lost_list_is_still_missed():
    """The snapshot keeps one of them, which says that there were transactions."""
    house, log = house_of()
    aborted = busy(log)
    assert list(log.expire_producers(NOW + 10**12)) == [2]
    append(log)
    flush(log)
    assert house.stop()
    house.now_ms = NOW + 10**12
    for restarts in itertools.count():
        for name in house.names(".txnindex") + house.names(".producers"):
            house.filesystem.unlink(house.path(name))
        log = house.restart(**SEGMENTS)
        assert not log.producers.entries
        assert listed(log) == [(pid, first) for pid, first, _ in aborted]
        append(log)
        flush(log)
        assert house.stop()
        if restarts == 2:
            break


def test_a_list_of_kafkas_is_taken_as_it_is_if_nothing_speaks_against_it():
    house, log = house_of()
    append(log, 3)
    flush(log)
    assert house.stop()
    path = house.path(f"{0:020}.txnindex")
    data = bytes(2) + b"".join(n.to_bytes(8, "big") for n in (7, 0, 2, 3))
    house.filesystem.replace(path, data)
    assert listed(house.restart(**SEGMENTS)) == [(7, 0)]
    assert house.stop()
    assert house.filesystem.read(path) == data
    house.filesystem.replace(path, data + data)
    assert listed(house.restart(**SEGMENTS)) == [], "it lists a marker twice: there is none"


def test_without_a_snapshot_of_ours_kafkas_producers_call_for_a_walk():
    house, log = house_of()
    busy(log)
    assert house.stop()
    for name in house.names(".producers"):
        house.filesystem.unlink(house.path(name))
    house.restart(**SEGMENTS)
    (text,) = [text for text in warnings_of(house) if "txnindex" in text]
    assert "nothing vouches" in text


def test_what_a_crash_has_cut_is_not_listed():
    """A list that was synced before its markers' flush failed to reach the disk."""
    house, log = house_of()
    append(log)
    flush(log)
    first = send(log, 5)
    marker = mark(log, 5, commit=False)
    for file in log.segments.active.aborts.write():
        file.fdatasync()
    house.filesystem.sync_directory(house.path())
    house.crash()
    assert len(entries(house)) == 1
    log = house.restart(**SEGMENTS)
    assert (log.end_offset, listed(log)) == (1, [])
    assert entries(house) == [], "Kafka would hide what comes there now"
    assert send(log, 5, epoch=1) == first
    append(log)
    flush(log)
    assert marker < log.end_offset
    assert listed(log) == []


def test_a_list_that_cannot_be_read_is_built_anew_and_no_descriptor_is_no_damage():
    house, log = house_of()
    aborted = busy(log)
    assert house.stop()
    house.filesystem.fail("read", path_part=".txnindex")
    log = house.restart(**SEGMENTS)
    assert listed(log) == [(pid, first) for pid, first, _ in aborted]
    assert house.stop()
    house.filesystem.fail("read", error=errno.EMFILE, path_part=".txnindex")
    house.open()
    with pytest.raises(OSError):
        house.log(epoch=1, **SEGMENTS)


@pytest.mark.parametrize("left", ["nothing", "a part"])
def test_many_entries_are_written_before_the_loop_runs(left, monkeypatch):
    """What a replay adds is written by the opening, and its name is durable."""
    monkeypatch.setattr(abort_loading, "LEFT_MAX", 1)
    house, log = house_of({"internal_segment_bytes": 10**6})
    send(log, 9)
    aborted = [(9, 0, end(log, 9, commit=False))]
    checkpoint(house, log)
    aborted += busy(log)
    house.kill()
    if left == "nothing":
        for name in house.names(".txnindex") + house.names(".snapshot"):
            house.filesystem.unlink(house.path(name))
    log = house.restart(internal_segment_bytes=10**6)
    assert log.segments.active.aborts.unwritten_count == 0
    assert entries(house) == aborted
    assert listed(log) == [(pid, first) for pid, first, _ in aborted]
    if left == "nothing":
        house.crash()
        assert entries(house) == aborted


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EIO])
def test_a_list_that_cannot_be_written_anew_is_kept_in_memory(error):
    house, log = house_of()
    aborted = busy(log)
    assert house.stop()
    for name in house.names(".txnindex"):
        house.filesystem.unlink(house.path(name))
    house.filesystem.fail("replace", error=error, path_part=".txnindex", forever=True)
    log = house.restart(**SEGMENTS)
    assert listed(log) == [(pid, first) for pid, first, _ in aborted]
    house.filesystem.heal()
    append(log)
    flush(log)
    checkpoint(house, log)
    assert entries(house) == aborted


def test_a_segment_takes_its_list_with_it():
    house, log = house_of(SEGMENTS | {"retention_bytes": 0})
    aborted = busy(log)
    append(log, 6)
    flush(log)
    checkpoint(house, log)
    assert log.apply_retention(NOW)
    house.manager.write_checkpoints()
    gone = log.begin_deletion(NOW)
    gone.run()
    gone.finish()
    kept = [one for one in aborted if one[2] >= log.segments.all[0].base_offset]
    assert len(kept) < len(aborted)
    assert log.aborted(0, log.end_offset) == [(pid, first) for pid, first, _ in kept]
    house.kill()
    log = house.restart(**SEGMENTS)
    assert log.aborted(0, log.end_offset) == [(pid, first) for pid, first, _ in kept]
    assert not [text for text in warnings_of(house) if "txnindex" in text]


@pytest.mark.parametrize("how", ["kill", "lost", "kept"])
@pytest.mark.parametrize("has_first", [False, True], ids=["empty first", "same first"])
def test_lists_of_merged_segments_outlive_a_crash_before_the_next_snapshot(how, has_first):
    """The snapshot knows the segments that a pass has merged, each with its own list."""
    house = House()
    house.open()
    log = house.log(**FIVE)
    pids = [1, 2] if has_first else [2]
    for pid in (1, 2):
        key = [(b"%d" % pid, b"v")]
        log.append(keyed(key, pid=pid, epoch=0, sequence=0, transactional=pid in pids), NOW, 1)
        if pid in pids:
            end(log, pid, commit=False, epoch=0)  # of TV1: the header of its data stays
        log.roll(NOW)
    log.append(keyed([(b"end", b"")]), NOW)
    settle(house, log)
    wanted = listed(log)
    assert [pid for pid, _ in wanted] == pids
    drive(compact(log, find_cleanable(log, NOW), limits(), NOW))
    assert (len(log.segments), listed(log)) == (2, wanted)
    leave(house, how)
    again = house.restart(**FIVE)
    assert listed(again) == wanted
    house.stop()
    assert len(entries(house)) == len(wanted)
    assert listed(house.restart(**FIVE)) == wanted
