"""Directories of processes that have gone are removed, and no others."""

import os
from pathlib import Path

from broker.testing.own_directory import OwnDirectory, remove_abandoned


def test_a_directory_is_there_until_it_is_removed(tmp_path: Path) -> None:
    own = OwnDirectory(str(tmp_path))
    other = OwnDirectory(str(tmp_path))
    assert os.path.isdir(own.path)
    own.remove()
    assert [entry.path for entry in os.scandir(tmp_path)] == [other.path]
    other.remove()


def test_only_what_was_abandoned_goes(tmp_path: Path) -> None:
    pid = os.fork()
    if not pid:
        OwnDirectory(str(tmp_path))
        os._exit(0)
    os.waitpid(pid, 0)
    (abandoned,) = tmp_path.iterdir()
    own = OwnDirectory(str(tmp_path))
    assert not abandoned.exists()
    for name in ("barnabas-without-owner", "else"):
        (tmp_path / name).mkdir()
    (tmp_path / "else" / ".owner").touch()
    (tmp_path / "barnabas-file").touch()
    remove_abandoned(str(tmp_path))
    remove_abandoned(str(tmp_path / "none"))
    left = {entry.name for entry in tmp_path.iterdir()}
    assert left == {"barnabas-without-owner", "else", "barnabas-file", os.path.basename(own.path)}
    own.remove()
