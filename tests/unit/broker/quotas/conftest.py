"""A broker without sockets for each test of a handler."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.support.broker_rig import Rig
from tests.support.group_rig import find


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[Rig]:
    made = Rig(tmp_path / "data")
    yield made
    assert await made.close()


@pytest.fixture
async def group_rig(tmp_path: Path) -> AsyncIterator[Rig]:
    """A broker that coordinates groups; `__consumer_offsets` has one partition."""
    made = Rig(tmp_path / "data", offsets_topic_num_partitions="1")
    await find(made)
    yield made
    assert await made.close()
