"""The checks of `doctor`: each finds what it is for, and says what to do."""

import json
import os
import resource
import shutil
import socket
from pathlib import Path

import pytest
from click.testing import CliRunner

from client.cli import main
from client.files import doctor_checks
from client.files.doctor import examine, is_well
from client.files.doctor_checks import (
    BAD,
    GOOD,
    WARNING,
    Advice,
    check_clock,
    check_directory,
    check_file_system,
    check_limits,
    check_listeners,
    check_room,
    check_sync,
    mount_of,
)
from config.load import load
from tests.support import data_directory

MOUNTS = r"""22 1 8:1 / / rw,relatime - ext4 /dev/sda1 rw
23 22 0:20 / /dev/shm rw,nosuid - tmpfs tmpfs rw
24 22 0:21 / /srv/my\040data rw,relatime shared:1 - nfs4 host:/x rw,vers=4.2
25 22 0:22 / /srv/my\040data/ro ro - xfs /dev/sdb1 rw,nobarrier
26 22 0:24 / /srv/données rw - btrfs /dev/sdc1 rw
26 22 0:23 / /var/lib rw - overlay overlay rw
"""


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return data_directory.make(tmp_path_factory.mktemp("original") / "data")


@pytest.fixture
def data(original: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(original, tmp_path / "data"))


def weights(found: list[Advice]) -> set[tuple[str, str]]:
    return {(one.check, one.weight) for one in found}


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/srv", "ext4"),
        ("/dev/shm/x", "tmpfs"),
        ("/dev/shmem", "ext4"),
        ("/srv/my data/b", "nfs4"),
        ("/srv/my data/ro", "xfs"),
        ("/var/lib/data", "overlay"),
        ("/srv/données/1", "btrfs"),
    ],
)
def test_the_mount_of_a_path_is_the_innermost(path: str, kind: str) -> None:
    mount = mount_of(path, MOUNTS)
    assert mount is not None
    assert mount.kind == kind


@pytest.mark.parametrize(
    ("path", "wanted"),
    [
        ("/srv", {("file system", GOOD)}),
        ("/dev/shm", {("file system", WARNING)}),
        ("/srv/my data", {("file system", WARNING)}),
        ("/srv/my data/ro", {("file system", GOOD), ("mount", BAD), ("mount", WARNING)}),
        ("/var/lib", {("file system", WARNING)}),
    ],
)
def test_file_systems_that_lose_data_are_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, path: str, wanted: set[tuple[str, str]]
) -> None:
    (tmp_path / "mountinfo").write_text(MOUNTS)
    opened = open
    monkeypatch.setattr(doctor_checks, "existing_parent", lambda _: path)
    monkeypatch.setattr(
        doctor_checks,
        "open",
        lambda _, **rest: opened(tmp_path / "mountinfo", **rest),
        raising=False,
    )
    found = list(check_file_system(path))
    assert weights(found) == wanted
    assert all(one.remedy for one in found if one.weight in (WARNING, BAD))


def test_little_room_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    found = os.statvfs(tmp_path)
    for free_bytes, weight in ((1 << 20, BAD), (1 << 29, WARNING), (1 << 42, GOOD)):
        blocks = free_bytes // found.f_frsize
        changed = os.statvfs_result((*found[:2], 1 << 32, blocks, blocks, *found[5:]))
        monkeypatch.setattr(os, "statvfs", lambda _, changed=changed: changed)
        expected = WARNING if weight == GOOD and blocks < 0.05 * (1 << 32) else weight
        assert ("room", expected) in weights(list(check_room(str(tmp_path))))


def test_syncs_are_timed_and_nothing_stays(tmp_path: Path) -> None:
    (one,) = check_sync(str(tmp_path / "not" / "yet"), 5)
    assert "of 5 appends" in one.found
    assert list(tmp_path.iterdir()) == []


def test_a_directory_that_cannot_be_written_is_bad(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> int:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "open", refuse)
    assert weights(list(check_sync("/"))) == {("fdatasync", BAD)}


def test_few_descriptors_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (1024, 4096))
    assert ("descriptors", WARNING) in weights(list(check_limits()))


@pytest.mark.parametrize(
    ("name", "limit", "wanted"),
    [
        ("memory.max", "67108864", ("memory", WARNING)),
        ("memory.max", "1073741824", ("memory", GOOD)),
        ("cpu.max", "20000 100000", ("cpu", WARNING)),
        ("cpu.max", "200000 100000", ("cpu", GOOD)),
    ],
)
def test_limits_of_the_cgroup_are_named(
    monkeypatch: pytest.MonkeyPatch, name: str, limit: str, wanted: tuple[str, str]
) -> None:
    monkeypatch.setattr(
        doctor_checks, "_cgroup", lambda asked, _: limit if asked == name else "max"
    )
    assert wanted in weights(list(check_limits()))


def test_a_clock_that_was_never_set_is_bad() -> None:
    assert weights(list(check_clock(60_000))) == {("clock", BAD)}


def test_a_taken_port_is_bad_unless_the_broker_runs() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        place = f"127.0.0.1:{taken.getsockname()[1]}"
        settings = [
            f"listeners=PLAINTEXT://{place}",
            f"advertised.listeners=PLAINTEXT://{place}",
            "barnabas.http.listener=",
        ]
        loaded = load(set_values=settings)
        assert ("port", BAD) in weights(list(check_listeners(loaded, is_running=False)))
        running = list(check_listeners(loaded, is_running=True))
        assert weights(running) == {("advertised PLAINTEXT", GOOD)}
    gone = list(check_listeners(loaded, is_running=True))
    assert weights(gone) == {("advertised PLAINTEXT", WARNING)}


def test_files_of_another_user_are_named(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert weights(list(check_directory(str(data)))) == {("directory", GOOD)}
    found = os.lstat

    def another(path: str) -> os.stat_result:
        stat = found(path)
        return os.stat_result((*stat[:4], 4242, *stat[5:])) if "/t-1" in path else stat

    monkeypatch.setattr(os, "lstat", another)
    monkeypatch.setattr(os, "access", lambda path, _: "/t-1" not in path)
    assert {("owner", WARNING), ("owner", BAD)} <= weights(list(check_directory(str(data))))


def test_damage_is_found(data: Path) -> None:
    loaded = load(data_dir=str(data), set_values=["listeners=PLAINTEXT://127.0.0.1:0"])
    assert ("logs", GOOD) in weights(examine(loaded, str(data)))
    log = min(data.glob("t-0/*.log"))
    content = bytearray(log.read_bytes())
    content[70] ^= 1
    log.write_bytes(content)
    found = examine(loaded, str(data))
    assert ("logs", BAD) in weights(found)
    assert not is_well(found)


def test_the_command_names_a_refused_configuration(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text("num.partitions=many\n")
    arguments = ["doctor", "--config", str(file), "--data", str(tmp_path / "d"), "--json"]
    done = CliRunner().invoke(main, arguments)
    assert done.exit_code == 1
    found = json.loads(done.stdout)["findings"]
    assert found[0]["weight"] == "bad"
    assert "num.partitions" in found[0]["found"]
    file.write_text("num.partitons=3\nbackground.threads=5\nlisteners=PLAINTEXT://127.0.0.1:0\n")
    done = CliRunner().invoke(main, [*arguments[:-1], "--set", "barnabas.http.listener="])
    assert "did you mean num.partitions" in done.stdout
    assert (done.exit_code == 0) == ("BAD " not in done.stdout)
    assert "NOTE    configuration: without effect here: background.threads" in done.stdout
