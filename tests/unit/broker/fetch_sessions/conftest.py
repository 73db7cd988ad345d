"""A broker without sockets for each test of fetch sessions."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.support.broker_rig import Rig
from tests.support.rights_rig import RightsRig


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[Rig]:
    made = Rig(tmp_path / "data")
    yield made
    assert await made.close()


@pytest.fixture
async def rights(tmp_path: Path) -> AsyncIterator[RightsRig]:
    made = RightsRig(tmp_path / "data")
    await made.begin()
    yield made
    assert await made.rig.close()
