"""Services: the assembly fills every field."""

import dataclasses
from pathlib import Path

import pytest

from broker.services import Services
from tests.support.broker_rig import Rig


async def test_the_assembly_fills_every_part(tmp_path: Path) -> None:
    rig = Rig(tmp_path / "data")
    services = rig.services
    for field in dataclasses.fields(Services):
        if field.init and field.name != "tls":  # of brokers with such a listener
            assert getattr(services, field.name) is not None, field.name
    assert not services.has_groups
    assert services.config == rig.loaded.config
    assert services.topics.by_name("t") is None
    assert services.controller.image.topics == {}
    assert services.logs.get("__cluster_metadata", 0) is services.controller.metadata_log.log
    assert await rig.close()


def test_a_missing_part_is_an_error() -> None:
    with pytest.raises(TypeError, match="missing"):
        Services()  # type: ignore[call-arg]
