"""A broker without SASL imports and makes nothing of it; one with it makes a gate a connection."""

from pathlib import Path

from broker.login_gates import make_gate
from tests.support.broker_rig import Rig


async def test_without_sasl_there_are_no_gates(tmp_path: Path) -> None:
    rig = Rig(tmp_path / "data")
    assert make_gate(rig.services) is None
    assert rig.services.sasl is None
    assert await rig.close()


async def test_a_listener_with_sasl_has_gates(tmp_path: Path) -> None:
    rig = Rig(
        tmp_path / "data",
        listeners="SASL_PLAINTEXT://127.0.0.1:9092",
        sasl_enabled_mechanisms="SCRAM-SHA-256",
    )
    assert make_gate(rig.services) is not None
    assert list(rig.services.sasl.of("SASL_PLAINTEXT").offers) == ["SCRAM-SHA-256"]
    assert await rig.close()
