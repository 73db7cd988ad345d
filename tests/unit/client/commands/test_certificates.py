"""`barnabas certificates create` as users type it: what it makes is what OpenSSL believes."""

import builtins
import json
import shutil
import ssl
import stat
import subprocess
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from client import cli
from client.files.made_certificates import FILES, checked_host

NAMES = ("authority.key", "authority.pem", "broker.key", "broker.pem")


def run(directory: Path, *words: str) -> tuple[int, str]:
    line = ["certificates", "create", "--directory", str(directory), *words]
    done = CliRunner().invoke(cli.main, line)
    return done.exit_code, done.output


def believed(directory: Path, host: str) -> None:
    """Complete a handshake with the files, as a client that connects to `host`. Raises SSLError."""
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(directory / "broker.pem", directory / "broker.key")
    client = ssl.create_default_context(cafile=directory / "authority.pem")
    client.verify_flags |= ssl.VERIFY_X509_STRICT
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = (
        client.wrap_bio(to_client, to_server, server_hostname=host),
        server.wrap_bio(to_server, to_client, server_side=True),
    )
    for _ in range(3):
        for end in ends:
            try:
                end.do_handshake()
            except ssl.SSLWantReadError:
                continue
    assert ends[0].version() == "TLSv1.3"


def test_what_it_makes_is_believed_by_clients_of_the_named_hosts(tmp_path: Path) -> None:
    code, output = run(tmp_path / "new", "kafka.example.com", "10.0.0.7", "::0001", "*.a.org")
    assert code == 0, output
    assert "kafka.example.com, 10.0.0.7, ::1, *.a.org, valid for 365 days" in output
    assert f"--set ssl.certificate={tmp_path}/new/broker.pem" in output
    for host in ("kafka.example.com", "10.0.0.7", "::1", "b.a.org"):
        believed(tmp_path / "new", host)
    for host in ("localhost", "10.0.0.8", "b.c.a.org"):
        with pytest.raises(ssl.SSLCertVerificationError, match=r"(?i)mismatch"):
            believed(tmp_path / "new", host)


def test_without_hosts_it_is_for_this_machine(tmp_path: Path) -> None:
    code, output = run(tmp_path, "--json")
    assert code == 0, output
    assert json.loads(output) == {
        "hosts": ["localhost", "127.0.0.1"],
        "certificate": str(tmp_path / "broker.pem"),
        "key": str(tmp_path / "broker.key"),
        "authority": str(tmp_path / "authority.pem"),
        "authority_key": str(tmp_path / "authority.key"),
    }
    believed(tmp_path, "localhost")
    believed(tmp_path, "127.0.0.1")
    assert sorted(one.name for one in tmp_path.iterdir()) == sorted(FILES)
    modes = {name: stat.S_IMODE((tmp_path / name).stat().st_mode) for name in NAMES}
    assert modes["authority.key"] == modes["broker.key"] == 0o600
    assert modes["authority.pem"] == modes["broker.pem"] == 0o644


def test_openssl_agrees(tmp_path: Path) -> None:
    if shutil.which("openssl") is None:
        pytest.skip("needs openssl on the PATH")
    assert run(tmp_path, "--days", "30")[0] == 0
    chain = ["-x509_strict", "-CAfile", "authority.pem", "-purpose", "sslserver", "broker.pem"]
    done = subprocess.run(
        ["openssl", "verify", *chain], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.stdout == "broker.pem: OK\n", done.stderr
    for name, seconds, ends in (("broker", 29, 0), ("broker", 31, 1), ("authority", 3_649, 0)):
        asked = ["-checkend", str(seconds * 86_400), "-in", f"{name}.pem"]
        ended = subprocess.run(
            ["openssl", "x509", "-noout", *asked], cwd=tmp_path, capture_output=True, check=False
        )
        assert ended.returncode == ends, (name, seconds)


@pytest.mark.parametrize("name", NAMES)
def test_nothing_is_overwritten(tmp_path: Path, name: str) -> None:
    (tmp_path / name).symlink_to("nowhere")  # a name that is taken, though no file is there
    code, output = run(tmp_path)
    assert code == 1
    assert f"{tmp_path / name} exists, and nothing was changed" in output
    assert "--directory" in output
    assert [one.name for one in tmp_path.iterdir()] == [name]


def test_a_file_that_cannot_be_written_leaves_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import os

    real = os.open

    def full(path: Any, *arguments: Any, **options: Any) -> int:
        if str(path).endswith("broker.pem"):
            raise OSError(28, "No space left on device", path)
        return real(path, *arguments, **options)

    monkeypatch.setattr("client.files.made_certificates.os.open", full)
    code, output = run(tmp_path)
    assert (code, list(tmp_path.iterdir())) == (1, [])
    assert "broker.pem: No space left on device" in output


def test_without_the_extra_it_says_how_to_get_it_and_how_to_do_without(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = builtins.__import__

    def missing(name: str, *arguments: Any, **options: Any) -> Any:
        if name.startswith("cryptography"):
            raise ImportError(name)
        return real(name, *arguments, **options)

    monkeypatch.setattr(builtins, "__import__", missing)
    code, output = run(tmp_path)
    assert (code, list(tmp_path.iterdir())) == (1, [])
    assert "pip install 'barnabas[security]'" in output
    assert "openssl" in output


@pytest.mark.parametrize(
    "host",
    [
        "",
        "a b",
        "localhost:9093",
        "https://a",
        "-a",
        "a..b",
        "a.",
        "*",
        "a" * 64,
        "a." * 127 + "a",
        "ä",
        "10.0.0.0/8",
    ],
)
def test_what_is_no_host_is_refused(tmp_path: Path, host: str) -> None:
    code, output = run(tmp_path, "--", host)
    assert code == 2, output
    assert "is neither a host name nor an IP address" in output
    assert not list(tmp_path.iterdir())


def test_hosts_are_written_as_clients_ask_for_them() -> None:
    assert [checked_host(one) for one in ("a-b.c_d", "::01", "*.x")] == ["a-b.c_d", "::1", "*.x"]
