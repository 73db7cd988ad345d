"""A broker without sockets for each test."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.support.broker_rig import Rig


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[Rig]:
    made = Rig(tmp_path / "data")
    yield made
    assert await made.close()
