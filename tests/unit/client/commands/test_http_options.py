"""The password of the HTTP listener: from the environment, or from a file that it names."""

from pathlib import Path

import click
import pytest

from client.commands.http_options import VARIABLE, opened


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
    assert password() == " from a file"
    monkeypatch.setenv(VARIABLE, "said")
    assert password() == "said"


@pytest.mark.parametrize("content", [None, b"\xff"])
def test_a_file_that_cannot_be_read_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, content: bytes | None
) -> None:
    path = tmp_path / "password"
    if content is not None:
        path.write_bytes(content)
    monkeypatch.setenv(f"{VARIABLE}_FILE", str(path))
    with pytest.raises(click.ClickException, match="password cannot be read"):
        password()
