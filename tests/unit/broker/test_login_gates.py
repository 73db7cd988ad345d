"""A broker without SASL imports and makes nothing of it; one with it makes a gate a connection."""

import errno
from pathlib import Path

import pytest

from broker.security.sasl.mechanism import Reply
from storage.files.filenames import MOCK_SALT_SECRET
from tests.support.broker_rig import Rig

SASL = {
    "listeners": "SASL_PLAINTEXT://127.0.0.1:9092",
    "sasl_enabled_mechanisms": "SCRAM-SHA-256",
}


async def test_without_sasl_there_are_no_gates(tmp_path: Path) -> None:
    rig = Rig(tmp_path / "data")
    assert rig.assembly.network.make_gate is None
    assert rig.services.sasl is None
    assert not (tmp_path / "data" / MOCK_SALT_SECRET).exists()
    assert await rig.close()


async def test_a_listener_with_sasl_has_gates(tmp_path: Path) -> None:
    rig = Rig(tmp_path / "data", **SASL)
    assert rig.assembly.network.make_gate is not None
    assert rig.services.sasl is not None
    assert list(rig.services.sasl.of("SASL_PLAINTEXT").offers) == ["SCRAM-SHA-256"]
    assert await rig.close()


async def salts_of_a_life(directory: Path, **settings: str) -> list[bytes]:
    """The answers to two names of nobody, without their nonces."""
    rig = Rig(directory, **SASL, **settings)
    assert rig.services.sasl is not None
    found = []
    for name in (b"nobody", b"somebody"):
        login = rig.services.sasl.of("SASL_PLAINTEXT").offers["SCRAM-SHA-256"].begin()
        reply = login.respond(b"n,,n=" + name + b",r=x")
        assert isinstance(reply, Reply)
        found.append(reply.token.partition(b",")[2])
    assert await rig.close()
    return found


async def test_the_salts_of_unknown_users_survive_a_restart(tmp_path: Path) -> None:
    first = await salts_of_a_life(tmp_path / "data")
    assert len(set(first)) == 2
    assert await salts_of_a_life(tmp_path / "data") == first
    assert await salts_of_a_life(tmp_path / "data", barnabas_read_only="true") == first
    assert await salts_of_a_life(tmp_path / "other") != first


async def test_a_broker_that_cannot_keep_the_secret_serves_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(*_: object) -> bytes:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("broker.login_gates.kept_secret", refuse)
    first = await salts_of_a_life(tmp_path / "data")
    assert len(set(first)) == 2
    assert "No space left on device; until the next start" in caplog.text
