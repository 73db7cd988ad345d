"""Test control in parts: messages, refusals, what is warm, and who imports it."""

import json
import subprocess
import sys

import pytest

from broker.testing import warm
from broker.testing.command_refused import CommandRefused, check_names
from broker.testing.controlled_files import ControlledFiles
from broker.testing.directory_copy import copying, finish
from broker.testing.message_line import MessageReader, line_of
from broker.testing.nth_times import NthTimes
from broker.testing.nursery import Nursery
from broker.testing.rule_book import RuleBook
from broker.testing.unsynced import Unsynced
from tests.support.broker_process import ROOT


def test_messages_come_in_pieces():
    reader = MessageReader()
    line = line_of({"a": 1}) + line_of({"b": "\n"})
    found = [message for byte in line for message in reader.feed(bytes([byte]))]
    assert found == [{"a": 1}, {"b": "\n"}]


def test_what_is_no_message_is_refused():
    with pytest.raises(ValueError, match="JSON object"):
        list(MessageReader().feed(b"[1]\n"))
    with pytest.raises(json.JSONDecodeError):
        list(MessageReader().feed(b"x\n"))


def test_names_are_suggested():
    check_names("a rule", {"api": 1}, ("api", "topic"))
    with pytest.raises(
        CommandRefused, match=r"no 'topc'; it has api, topic\. Did you mean topic\?"
    ):
        check_names("a rule", {"topc": 1}, ("api", "topic"))


def test_a_nursery_refuses_what_it_does_not_know(tmp_path):
    nursery = Nursery(str(tmp_path))
    assert "Did you mean start?" in nursery.answer({"do": "strat"})["refused"]
    assert nursery.answer({"do": "kill", "broker": 3}) == {"refused": "there is no broker 3"}
    assert "has no 'setting'" in nursery.answer({"do": "start", "setting": {}})["refused"]
    refused = nursery.answer({"do": "start", "settings": {"num.partition": "3"}})["refused"]
    assert "num.partitions" in refused
    assert list(tmp_path.iterdir()) == []


def test_a_warm_process_has_no_threads_and_no_loop():
    program = (
        "import asyncio, threading\n"
        "from broker.testing import warm\n"
        "warm.load()\n"
        "next(warm.compile_codecs())\n"
        "assert threading.active_count() == 1\n"
        "assert len(__import__('os').listdir('/proc/self/task')) == 1\n"
        "assert asyncio._get_running_loop() is None\n"
    )
    subprocess.run([sys.executable, "-c", program], cwd=ROOT, check=True)


def test_all_codecs_are_compiled():
    assert sum(1 for _ in warm.compile_codecs()) == sum(
        row.max_version - row.min_version + 1 for row in warm.HANDLERS
    )


def test_a_broker_without_test_control_has_none_of_it():
    program = (
        "import sys, client.cli, broker.server\n"
        "from broker.handlers import HANDLERS\n"
        "from broker.maintenance.housekeeping import GroupModules\n"
        "for one in (*HANDLERS, GroupModules()): one.load()\n"
        "import broker.http.http_listener, broker.console.door\n"
        "found = [name for name in sys.modules if name.startswith('broker.testing')]\n"
        "assert found == [], found\n"
    )
    subprocess.run([sys.executable, "-c", program], cwd=ROOT, check=True)


def test_a_copy_keeps_holes_and_names(tmp_path):
    source = tmp_path / "source"
    (source / "inner").mkdir(parents=True)
    with (source / "inner" / "sparse").open("wb") as file:
        file.truncate(10 * 1024 * 1024)
        file.seek(5_000_000)
        file.write(b"here")
    (source / "empty").touch()
    finish(copying(str(source), str(tmp_path / "copy")))
    copied = tmp_path / "copy" / "inner" / "sparse"
    assert copied.read_bytes() == (source / "inner" / "sparse").read_bytes()
    assert copied.stat().st_blocks * 512 < 1024 * 1024
    assert (tmp_path / "copy" / "empty").read_bytes() == b""


def test_times_are_read():
    assert NthTimes.of("2-3").has(3)
    assert not NthTimes.of("2-3").has(4)
    assert NthTimes.of("2+").has(1_000)
    assert not NthTimes.of(2).meets(NthTimes.of("3+"))
    with pytest.raises(CommandRefused, match="expected the number of a time"):
        NthTimes.of("third")


def test_a_power_cut_takes_back_what_was_not_synced(tmp_path):
    data = tmp_path / "data"
    data.mkdir()
    files = ControlledFiles(str(data), RuleBook(), Unsynced(str(tmp_path / "stash")))
    kept = files.open(str(data / "kept"), create=True)
    kept.pwrite(b"synced", 0)
    kept.fdatasync()
    files.sync_directory(str(data))
    kept.pwrite(b"SY", 0)
    kept.pwrite(b" and more", 6)
    kept.truncate(3)
    files.open(str(data / "new"), create=True).pwrite(b"x", 0)
    files.rename(str(data / "kept"), str(data / "renamed"))
    files.replace(str(data / "small"), b"durable")  # syncs the directory
    files.unlink(str(data / "small"))
    assert files.cut_power() > 0
    assert sorted(path.name for path in data.iterdir()) == ["new", "renamed", "small"]
    assert (data / "renamed").read_bytes() == b"synced"
    assert (data / "new").read_bytes() == b""
    assert (data / "small").read_bytes() == b"durable"
