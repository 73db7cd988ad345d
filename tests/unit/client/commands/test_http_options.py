"""The password of the HTTP listener: from the environment, or from a file that it names."""

from pathlib import Path

import click
import pytest

from client.commands.http_options import VARIABLE, opened
from config.load import load


def password() -> str | None:
    return opened("127.0.0.1:9095", 1)._password


@pytest.fixture(autouse=True)
def _no_password(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (VARIABLE, f"{VARIABLE}_FILE"):
        monkeypatch.delenv(name, raising=False)


def test_it_is_in_the_environment_or_in_a_file(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert password() is None
    path = tmp_path / "password"
    path.write_text(" from a file\r\n")
    monkeypatch.setenv(f"{VARIABLE}_FILE", str(path))
    assert password() == "from a file"  # blanks around a value are none of it, as for Kafka
    monkeypatch.delenv(f"{VARIABLE}_FILE")
    monkeypatch.setenv(VARIABLE, "said")
    assert password() == "said"


@pytest.mark.parametrize(
    "content", [b"plain", b" \n", b"", "pässword".encode(), "pässword\n".encode("latin-1"), b"\xff"]
)
def test_the_broker_reads_the_same_password(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, content: bytes
) -> None:
    path = tmp_path / "password"
    path.write_bytes(content)
    monkeypatch.setenv(f"{VARIABLE}_FILE", str(path))
    config = load(environment={f"{VARIABLE}_FILE": str(path)}).config
    assert password() == config.barnabas_http_password


def test_a_password_that_cannot_be_known_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv(f"{VARIABLE}_FILE", str(tmp_path / "password"))
    with pytest.raises(click.ClickException, match="password cannot be read: No such file"):
        password()
    monkeypatch.setenv(VARIABLE, "said")
    with pytest.raises(click.ClickException, match="both set"):
        password()
