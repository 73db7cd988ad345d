"""Variables whose secret is in a file."""

from pathlib import Path

import pytest

from config.errors import ConfigError
from config.load import load

SECRET = "marked secret "


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "secret"
    path.write_bytes(SECRET.encode() + b"\r\n")
    return str(path)


@pytest.mark.parametrize(
    ("variable", "key"),
    [
        ("KAFKA_SSL_KEY_PASSWORD_FILE", "ssl.key.password"),
        ("BARNABAS_SSL_KEYSTORE_KEY_FILE", "ssl.keystore.key"),
        ("BARNABAS_HTTP_PASSWORD_FILE", "barnabas.http.password"),
        (
            "KAFKA_LISTENER_NAME_L_PLAIN_SASL_JAAS_CONFIG_FILE",
            "listener.name.l.plain.sasl.jaas.config",
        ),
    ],
)
def test_a_secret_is_read_from_its_file(file: str, variable: str, key: str) -> None:
    given = load(environment={variable: file})
    assert given.static[key].text == SECRET


def test_our_prefix_takes_precedence_over_kafkas(file: str) -> None:
    environment = {"KAFKA_SSL_KEY_PASSWORD_FILE": file, "BARNABAS_SSL_KEY_PASSWORD": "x"}
    assert load(environment=environment).config.ssl_key_password == "x"


def test_only_secrets_are_read_from_files(file: str) -> None:
    given = load(environment={"KAFKA_NUM_PARTITIONS_FILE": file, "PATH_FILE": file})
    assert "num.partitions" not in given.static


def test_a_secret_is_given_once(file: str) -> None:
    environment = {"KAFKA_SSL_KEY_PASSWORD_FILE": file, "KAFKA_SSL_KEY_PASSWORD": "x"}
    with pytest.raises(ConfigError, match="KAFKA_SSL_KEY_PASSWORD are both set"):
        load(environment=environment)


def test_a_file_that_cannot_be_read_is_named() -> None:
    environment = {"KAFKA_SSL_KEY_PASSWORD_FILE": "/nowhere/secret"}
    with pytest.raises(ConfigError, match="PASSWORD_FILE: /nowhere/secret cannot be read: No such"):
        load(environment=environment)
