"""A broker with an authorizer and the topic `t`."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.support.rights_rig import RightsRig


@pytest.fixture
async def rights(tmp_path: Path) -> AsyncIterator[RightsRig]:
    made = RightsRig(tmp_path / "data")
    await made.begin()
    yield made
    assert await made.rig.close()
