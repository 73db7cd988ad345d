"""`barnabas consume --group`: which offsets it commits, and when it ends."""

from __future__ import annotations

import asyncio
import os
import signal

import pytest
from click.testing import CliRunner

from client import cli
from client.commands import consume_group
from client.commands.consume_group import Options, read_group, write
from client.msgpack.group_offsets import CommitError
from client.msgpack.membership import GroupRefused
from client.msgpack.transport import TransportError
from protocol.control_records import Marker, build_marker
from protocol.record_batch import stamp
from tests.support.group_peer import END, GroupPeer
from tests.support.msgpack_peer import MsgpackPeer

WAIT_S = 120


class Shown:
    """A standard output whose reader closes it after `full_after` lines."""

    def __init__(self, full_after=1_000):
        self.records = []
        self._full_after = full_after

    def line(self, partition, record):
        return b"%d %d\n" % (partition, record.offset)

    async def write(self, _descriptor, data):
        for line in data.splitlines():
            if len(self.records) == self._full_after:
                raise BrokenPipeError
            self.records.append(tuple(map(int, line.split())))


@pytest.fixture(autouse=True)
def _standard_output(monkeypatch):
    async def write(descriptor, data):
        await Shown.now.write(descriptor, data)

    monkeypatch.setattr(consume_group, "write", write)


async def read(peer, shown, **changed):
    Shown.now = shown
    async with MsgpackPeer(peer) as served, asyncio.timeout(WAIT_S):
        settings = {
            "topic": "t", "bootstrap": served.address, "timeout_s": 5.0, "group_id": "g",
            "instance_id": None, "start": "beginning", "follow": False, "count_max": None,
        }  # fmt: skip
        await read_group(Options(**{**settings, **changed}), shown)


def last_word(peer):
    return peer.asked("consumer_group_heartbeat")[-1]["member_epoch"]


async def test_the_command_reads_to_the_end_commits_and_leaves():
    peer, shown = GroupPeer([0, 1]), Shown()
    peer.committed = {1: 1}
    await read(peer, shown)
    assert sorted(shown.records) == [(0, 0), (0, 1), (1, 1)]
    assert peer.committed == {0: 2, 1: 2}
    assert last_word(peer) == -1


async def test_only_written_records_are_committed():
    peer, shown = GroupPeer([0]), Shown()
    await read(peer, shown, count_max=1, follow=True)
    assert shown.records == [(0, 0)]
    assert peer.committed == {0: 1}


async def test_what_follows_the_last_record_is_committed_with_it_and_no_sooner():
    """The marker of a transaction, at offset 2; without it, the group had a lag for ever."""
    marker = build_marker(Marker(7, 0, is_commit=True, coordinator_epoch=0), 5)
    stamp(marker, 0, 2, 0)

    class Committed(GroupPeer):
        def _fetch(self, body, code):
            answer = super()._fetch(body, code)
            for one in answer["responses"][0]["partitions"]:
                one["records"] = one["records"] and one["records"] + bytes(marker)
            return answer

        def _list_offsets(self, body, code):
            answer = super()._list_offsets(body, code)
            for one in answer["topics"][0]["partitions"]:
                one["offset"] += one["offset"] == END
            return answer

    for count_max, committed in ((1, 1), (2, 3), (None, 3)):
        peer = Committed([0])
        await read(peer, Shown(), count_max=count_max)
        assert peer.committed == {0: committed}


async def test_records_that_could_not_be_written_are_not_committed():
    peer = GroupPeer([0])
    with pytest.raises(BrokenPipeError):
        await read(peer, Shown(full_after=1))
    assert peer.committed == {}
    assert last_word(peer) == -1


@pytest.mark.parametrize(("instance_id", "epoch"), [(None, -1), ("i", -2)])
async def test_sigterm_ends_the_command_cleanly(instance_id, epoch):
    peer = GroupPeer([0])

    class Stopping(Shown):
        async def write(self, descriptor, data):
            await super().write(descriptor, data)
            os.kill(os.getpid(), signal.SIGTERM)

    shown = Stopping()
    with pytest.raises(asyncio.CancelledError):
        await read(peer, shown, follow=True, instance_id=instance_id)
    assert peer.committed == {0: 2}
    assert last_word(peer) == epoch


async def test_a_group_that_assigns_nothing_is_reported(capsys):
    await read(GroupPeer([]), Shown(), timeout_s=0.2)
    assert "assigned no partition of t within 0.2 s" in capsys.readouterr().err


async def test_an_unanswered_heartbeat_is_an_error_not_a_group_without_partitions():
    peer = GroupPeer([])
    peer.codes["consumer_group_heartbeat"] = [None] * 1_000
    with pytest.raises(TransportError, match="did not answer consumer_group_heartbeat"):
        await read(peer, Shown(), timeout_s=0.2)


async def test_a_group_that_rejects_the_member_ends_the_command():
    peer = GroupPeer([0])
    peer.codes["consumer_group_heartbeat"] = [30]
    with pytest.raises(GroupRefused, match="GROUP_AUTHORIZATION_FAILED"):
        await read(peer, Shown())


@pytest.mark.parametrize(
    ("codes", "said"),
    [([12, 12], "OFFSET_METADATA_TOO_LARGE"), ([None, None], "it hung up")],
)
async def test_a_failed_commit_is_reported_and_at_the_end_an_error(capsys, codes, said):
    peer = GroupPeer([0])
    peer.codes["offset_commit"] = codes
    with pytest.raises(CommitError, match=f"will be read again: .*{said}"):
        await read(peer, Shown())
    assert "Not committed yet: " in capsys.readouterr().err


async def test_a_slow_reader_does_not_block_the_loop():
    reading, writing = os.pipe()
    data = b"x" * (1 << 20)  # more than a pipe holds
    writer = asyncio.create_task(write(writing, data))
    await asyncio.sleep(0)
    assert not writer.done()
    got = 0
    while got < len(data):
        got += len(await asyncio.to_thread(os.read, reading, 1 << 16))
    await writer
    os.close(reading)
    with pytest.raises(BrokenPipeError):
        await write(writing, data)
    os.close(writing)


@pytest.mark.parametrize(
    "options",
    [
        "--group g --from 5",
        "--group g --from-time 2026-01-01",
        "--group g --partition 0",
        "--instance-id i",
    ],
)
def test_options_that_contradict_a_group_are_refused(options):
    result = CliRunner().invoke(cli.main, ["consume", "t", *options.split()])
    assert result.exit_code == 2
    assert "group" in result.output
