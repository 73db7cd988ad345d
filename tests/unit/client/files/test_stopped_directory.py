"""A change of records: durable, none without records, and the directory as clean as before."""

from pathlib import Path

import pytest

from client.files.stopped_directory import NotRecorded, change_records
from protocol.metadata_records import ConfigRecord
from tests.support.broker_rig import Rig


def config(value):
    return ConfigRecord(resource_type=4, resource_name="", name="a", value=value)


async def test_records_are_there_at_the_next_start(tmp_path: Path) -> None:
    data = str(tmp_path)
    assert change_records(data, lambda image: ([config("1")], "done"), may_be_new=True) == "done"
    assert change_records(data, lambda image: ([], image.broker_configs[""]["a"])) == "1"
    rig = Rig(tmp_path)
    assert rig.services.controller.image.broker_configs[""]["a"] == "1"
    await rig.close()


def test_a_plan_without_records_begins_no_epoch(tmp_path: Path) -> None:
    data = str(tmp_path)
    change_records(data, lambda image: ([], None), may_be_new=True)
    log = tmp_path / "__cluster_metadata-0" / "00000000000000000000.log"
    before = log.read_bytes()
    change_records(data, lambda image: ([], None))
    assert log.read_bytes().rstrip(b"\0") == before.rstrip(b"\0")
    with pytest.raises(NotRecorded):
        change_records(str(tmp_path / "no"), lambda image: ([], None))
