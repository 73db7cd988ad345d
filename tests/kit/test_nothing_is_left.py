"""What a run of tests leaves behind: no process and no directory, however it ends."""

import os
import signal
import time

import pytest

from tests.kit import inner_pytest
from tests.support.patience import Limit

SOURCE = """
import os, sys, time, subprocess
def test_waits(barnabas):
    held = subprocess.Popen(["sleep", "600"], close_fds=False, stdin=subprocess.DEVNULL)
    child = os.fork()  # holds the pipe to the warm process open
    if not child:
        time.sleep(600)
        os._exit(0)
    nursery = barnabas._warm._process.pid
    with open("pids.new", "w") as file:
        file.write(f"{nursery} {barnabas.directory} {child} {held.pid}")
    os.rename("pids.new", "pids")
    time.sleep(600)
"""


def children_of(pid):
    with open(f"/proc/{pid}/task/{pid}/children") as file:
        return [int(word) for word in file.read().split()]


def is_there(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] not in "ZX"
    except FileNotFoundError:
        return False


def until(condition):
    limit = Limit(20)
    while not condition():
        assert not limit.is_over
        time.sleep(0.02)


@pytest.mark.parametrize("victim", ["pytest", "nursery"])
def test_a_kill_leaves_no_process_and_no_directory(tmp_path, victim):
    process = inner_pytest.start(tmp_path, SOURCE)
    others = []
    try:
        until((tmp_path / "pids").exists)
        nursery, directory, *rest = (tmp_path / "pids").read_text().split()
        others = [int(pid) for pid in rest]
        brokers = children_of(int(nursery))
        assert len(brokers) == 1
        assert os.path.isdir(directory)
        os.kill(process.pid if victim == "pytest" else int(nursery), signal.SIGKILL)
        until(lambda: not any(map(is_there, (int(nursery), *brokers))))
        if victim == "pytest":
            until(lambda: not list(tmp_path.glob("barnabas-*")))
    finally:
        process.kill()
        for pid in others:
            os.kill(pid, signal.SIGKILL)
        process.communicate()
    if victim == "nursery":  # the next one removes what it has left
        assert os.path.isdir(directory)
        assert inner_pytest.run(tmp_path, "def test_one(barnabas): pass\n")[0] == 0
        assert not list(tmp_path.glob("barnabas-*"))


def test_an_ordinary_end_leaves_nothing(tmp_path):
    source = "def test_one(barnabas, barnabas_session): barnabas.topic('t')\n"
    assert inner_pytest.run(tmp_path, source)[0] == 0
    assert list(tmp_path.glob("barnabas-*")) == []
