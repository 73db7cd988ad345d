"""A secret is made once, is whole, and is made anew only if it is lost."""

import os

import pytest

from storage.files.filesystem import TEMPORARY_SUFFIX
from storage.files.kept_secret import SECRET_BYTES, kept_secret
from tests.support.memory_filesystem import MemoryFileSystem

PATH = "/data/secret"


@pytest.fixture
def disk() -> MemoryFileSystem:
    disk = MemoryFileSystem()
    disk.mkdir("/data")
    return disk


def test_a_secret_stays(disk: MemoryFileSystem) -> None:
    first = kept_secret(disk, PATH, os.urandom)
    assert len(first) == SECRET_BYTES
    assert kept_secret(disk, PATH, os.urandom) == first == disk.read(PATH)
    assert not disk.exists(PATH + TEMPORARY_SUFFIX)


@pytest.mark.parametrize("left", [b"", b"x" * (SECRET_BYTES - 1), b"x" * (SECRET_BYTES + 1)])
def test_a_damaged_secret_is_made_anew(disk: MemoryFileSystem, left: bytes) -> None:
    disk.replace(PATH, left)
    made = kept_secret(disk, PATH, os.urandom)
    assert len(made) == SECRET_BYTES
    assert kept_secret(disk, PATH, os.urandom) == made
