"""The limits of a broker follow its configuration, while it runs, too."""

from pathlib import Path

from broker.configs.changes import Operation, Resource
from broker.metadata.image import CONFIG_BROKER
from tests.support.broker_rig import Rig

SET = 0


async def test_limits_of_the_broker_and_of_a_listener_change_at_run_time(tmp_path: Path) -> None:
    rig = Rig(tmp_path / "data", max_connections="3", quota_window_num="2")
    limits = rig.services.limits
    assert limits.rates is not None
    assert [limits.admit("1.1.1.1", "PLAINTEXT") is None for _ in range(4)] == [True] * 3 + [False]
    wanted = {
        "max.connections": "100",
        "listener.name.plaintext.max.connections": "4",
        "listener.name.plaintext.max.connection.creation.rate": "1",
    }
    changes = [Operation(name, SET, value) for name, value in wanted.items()]
    resource = Resource(CONFIG_BROKER, "", changes, False)
    assert await rig.services.configs.alter([resource]) == [None]
    assert limits.admit("1.1.1.1", "PLAINTEXT") is None
    refusal = limits.admit("1.1.1.1", "PLAINTEXT")
    assert refusal == "the listener PLAINTEXT already has the configured maximum of 4 connections"
    assert limits.admit("1.1.1.1", "OTHER") is None
    found = [limits.rates.wait_ms("PLAINTEXT") for _ in range(3)]
    assert found[0] == 0
    assert found[2] == 1_000
    assert limits.rates.wait_ms("OTHER") == 0
    for listener in ("PLAINTEXT",) * 4 + ("OTHER",):
        limits.leave("1.1.1.1", listener)
    assert limits.count == 0
    assert await rig.close()
