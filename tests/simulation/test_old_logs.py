"""Old logs: what is left is a log of three formats, and whatever is read of it is compared."""

import random
from types import SimpleNamespace

import pytest

from broker.metadata.image_loading import load_image
from protocol.legacy_batches import batches_any
from storage.files import filenames
from storage.files.text_files import decode_offsets
from tests.simulation.clients.caller import Caller
from tests.simulation.clients.wire import HANDLER_OF
from tests.simulation.left_caches import bytes_of
from tests.simulation.old_logs import (
    END_OFFSET,
    OldLog,
    leave_old_log,
    records_of,
    reread,
    segments,
)
from tests.simulation.plan import Plan
from tests.simulation.record import Record
from tests.simulation.test_bad_starts import METADATA, disk
from tests.simulation.world import World
from tests.support.memory_inodes import Directory

NOW_MS = 1_700_000_000_000
WHOLE = b"".join(segments(NOW_MS).values())
LOG = OldLog("kafka.old", list(records_of(WHOLE)))


def test_the_segments_are_one_log_whose_formats_rise():
    headers = [header for log in segments(NOW_MS).values() for _, header in batches_any(log)]
    due = 0
    for header in headers:
        assert header.base_offset == due
        due = header.next_offset
    assert due == END_OFFSET == len(LOG.records)
    assert [header.magic for header in headers] == sorted(header.magic for header in headers)
    assert {header.magic for header in headers} == {0, 1, 2}


def test_an_old_log_is_left_with_its_topic():
    checkpointed = set()
    for seed in range(20):
        filesystem, home = disk()
        said, log = leave_old_log(home, random.Random(seed))
        assert log is not None
        assert log.topic in said
        topic = load_image(filesystem, METADATA).image.topics[log.topic]
        assert topic.configs["retention.ms"] == "-1"
        directory = home.live[f"{log.topic}-0"]
        assert isinstance(directory, Directory)
        names = [name for name in directory.live if name.endswith(".log")]
        left = b"".join(bytes_of(directory, name) for name in sorted(names))
        assert log.records == list(records_of(left))
        points = decode_offsets("p", bytes_of(home, filenames.RECOVERY_POINT_CHECKPOINT))
        checkpointed.add(points.get((log.topic, 0)))
    assert checkpointed == {None, END_OFFSET}
    assert leave_old_log(Directory(), random.Random(1))[1] is None


def told(monkeypatch: pytest.MonkeyPatch, served: bytes, offset: int) -> list[str]:
    """Return what `reread` objects to if these bytes, and this offset for times, are served."""

    async def topics(_caller):
        return [SimpleNamespace(name=LOG.topic, topic_id=b"i" * 16)]

    async def ask(_caller, body, _version=None, **_options):
        if isinstance(body, HANDLER_OF[2].request):
            part = SimpleNamespace(error_code=0, offset=offset, timestamp=NOW_MS + 5)
            return SimpleNamespace(topics=[SimpleNamespace(partitions=[part])])
        part = SimpleNamespace(error_code=0, records=served, high_watermark=END_OFFSET)
        return SimpleNamespace(responses=[SimpleNamespace(partitions=[part])])

    monkeypatch.setattr(Caller, "topics", topics)
    monkeypatch.setattr(Caller, "ask", ask)
    monkeypatch.setattr(random.Random, "sample", lambda _self, times, _count: times[:1])
    world = World("old")
    context = SimpleNamespace(
        plan=Plan("old"), world=world, network=None, record=Record(), old_logs=[LOG], damaged=set()
    )
    found = []

    async def run():
        found.extend(await reread(context))

    actor = world.spawn("reader", run())
    world.run_until(lambda: actor.ended.is_set)
    return found


def test_a_log_that_is_served_whole_is_right(monkeypatch):
    due = next(one for one in LOG.records if one.timestamp >= NOW_MS + 1)
    assert due.timestamp == NOW_MS + 5
    assert told(monkeypatch, WHOLE, due.offset) == []


def test_a_changed_record_and_a_wrong_place_are_objections(monkeypatch):
    (changed,) = told(monkeypatch, WHOLE.replace(b"zero", b"nero"), 5)
    assert "wrong: [Kept(offset=0" in changed
    assert "missing: [Kept(offset=0" in changed
    (moved,) = told(monkeypatch, WHOLE, 6)
    assert f"is told to be {NOW_MS + 5} at 6, {NOW_MS + 5} is at 5" in moved
