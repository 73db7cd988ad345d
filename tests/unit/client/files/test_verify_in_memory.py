"""`verify` reads through the file system that it is given, and asks no other."""

import os
import shutil

import pytest

from client.files.verify import Verification
from storage.files.os_filesystem import OsFileSystem
from tests.support import data_directory
from tests.support.memory_filesystem import MemoryFileSystem


@pytest.fixture
def data(tmp_path):
    return data_directory.make(tmp_path / "data")


def in_memory(data):
    """Return a disk in memory with the files of a directory."""
    filesystem = MemoryFileSystem()
    for path in (data, *sorted(data.rglob("*"))):
        if path.is_dir():
            for parent in (*reversed(path.parents), path):
                if not filesystem.exists(str(parent)):
                    filesystem.mkdir(str(parent))
        else:
            filesystem.open(str(path), create=True).pwrite(path.read_bytes(), 0)
    return filesystem


def damage(data):
    """Damage each kind of file that the check asks the file system about."""
    logs = sorted((data / "t-0").glob("*.log"))
    content = bytearray(logs[0].read_bytes())
    content[70] ^= 1
    logs[0].write_bytes(content)
    os.truncate(logs[1].with_suffix(".index"), 3)
    logs[1].with_suffix(".timeindex").unlink()
    (data / ".kafka_cleanshutdown").write_bytes(b"{")
    (data / "recovery-point-offset-checkpoint").unlink()
    shutil.rmtree(data / "t-1")


def test_a_disk_in_memory_gives_the_same_report(data):
    for step in (lambda _data: None, damage):
        step(data)
        on_disk = Verification(OsFileSystem(), open_records=True).run([str(data)])
        assert on_disk.is_sound == (step is not damage)
        filesystem = in_memory(data)
        elsewhere = data.rename(data.with_name("elsewhere"))
        report = Verification(filesystem, open_records=True).run([str(data)])
        elsewhere.rename(data)
        assert report.as_json() == on_disk.as_json()
        assert report.record_count
    assert len(on_disk.findings) >= 5


def test_who_holds_the_lock_is_asked_of_the_file_system(data):
    filesystem = in_memory(data)
    lock = filesystem.lock(str(data / ".lock"))
    verification = Verification(filesystem)
    assert verification.run([str(data)]).is_sound
    assert verification.holder == 0
    lock.close()
    verification = Verification(filesystem)
    verification.run([str(data)])
    assert verification.holder is None
