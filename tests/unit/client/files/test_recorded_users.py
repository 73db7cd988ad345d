"""Users of a directory that no broker runs on, before its first start too."""

from pathlib import Path

import pytest

from client.files.recorded_users import change_recorded_users, recorded_users
from client.files.stopped_directory import NotRecorded
from client.user_credentials import UserChanges, UserRefused, UserRow
from storage.errors import DirectoryLocked
from tests.support.broker_rig import Rig
from tests.unit.broker.metadata.test_scram_plans import remove, upsert


def add(directory: Path, *credentials, **options) -> None:
    changes = UserChanges((), credentials)
    change_recorded_users(str(directory), lambda _known: changes, **options)


async def test_a_new_directory_has_its_users_at_the_first_start(tmp_path: Path) -> None:
    data = tmp_path / "data"
    add(data, upsert("alice"), upsert("alice", 2), may_be_new=True)
    assert recorded_users(str(data)) == [UserRow("alice", 1, 4096), UserRow("alice", 2, 4096)]
    rig = Rig(data)
    assert rig.services.logs.directory.was_clean
    assert rig.services.users.scram("SCRAM-SHA-256", "alice") is not None
    with pytest.raises(DirectoryLocked):
        recorded_users(str(data))
    await rig.close()


async def test_users_are_removed_and_changed(tmp_path: Path) -> None:
    data = tmp_path / "data"
    add(data, upsert("alice"), upsert("bob", 2), may_be_new=True)
    changes = UserChanges([remove("alice")], [upsert("bob", 2, 8192)])
    known = []
    change_recorded_users(str(data), lambda found: known.extend(found) or changes)
    assert known == [UserRow("alice", 1, 4096), UserRow("bob", 2, 4096)]
    assert recorded_users(str(data)) == [UserRow("bob", 2, 8192)]


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        (UserChanges([remove("carol")], [upsert("dora", 2)]), "user 'carol' was not changed"),
        (UserChanges([], [upsert("dora"), upsert("", 2)]), "Username must not be empty"),
        (UserChanges([], [upsert("dora"), upsert("dora")]), "altered twice"),
    ],
)
def test_of_refused_changes_none_is_made(tmp_path: Path, changes: UserChanges, text: str) -> None:
    data = tmp_path / "data"
    add(data, upsert("alice"), may_be_new=True)
    with pytest.raises(NotRecorded, match=text):
        change_recorded_users(str(data), lambda _known: changes)
    assert (data / ".kafka_cleanshutdown").exists()
    assert recorded_users(str(data)) == [UserRow("alice", 1, 4096)]


def test_a_command_that_refuses_leaves_the_directory_clean(tmp_path: Path) -> None:
    data = tmp_path / "data"
    add(data, upsert("alice"), may_be_new=True)

    def refuse(_known):
        raise UserRefused("no")

    with pytest.raises(NotRecorded, match="no"):
        change_recorded_users(str(data), refuse)
    assert (data / ".kafka_cleanshutdown").exists()


def test_only_an_empty_directory_is_made_one_of_a_broker(tmp_path: Path) -> None:
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "me.jpg").write_bytes(b"")
    for directory, options in ((tmp_path / "photos", {"may_be_new": True}), (tmp_path / "no", {})):
        with pytest.raises(NotRecorded, match=r"has no meta\.properties"):
            add(directory, upsert("alice"), **options)
    assert not (tmp_path / "no").exists()
