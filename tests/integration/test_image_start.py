"""`docker/run`, the start script of the image, with a `barnabas` that prints its arguments."""

import os
import subprocess
from pathlib import Path

import pytest

from tests.support.broker_process import ROOT

SCRIPT = ROOT / "docker" / "run"
TELL = '#!/bin/sh\nenv | grep -E "^(KAFKA|BARNABAS)_"\necho "called $*"\n'


@pytest.fixture
def place(tmp_path: Path) -> Path:
    program = tmp_path / "bin" / "barnabas"
    program.parent.mkdir()
    program.write_text(TELL)
    program.chmod(0o755)
    (tmp_path / "bin" / "mountpoint").write_text(f'#!/bin/sh\n[ "$2" = {tmp_path}/volume ]\n')
    (tmp_path / "bin" / "mountpoint").chmod(0o755)
    return tmp_path


def start(place: Path, **environment: str) -> tuple[dict[str, str], str]:
    """Run the script there; return the settings that the broker would get, and the warnings."""
    path = f"{place / 'bin'}:{os.environ['PATH']}"
    done = subprocess.run(
        ["sh", str(SCRIPT)], cwd=place, env={"PATH": path, **environment},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "called serve\n" in done.stdout
    lines = [line.partition("=") for line in done.stdout.splitlines() if "=" in line]
    return {name: value for name, _, value in lines}, done.stderr


def test_without_settings_both_dialects_are_served_to_all(place: Path) -> None:
    found, said = start(place)
    assert found["KAFKA_LISTENERS"] == "PLAINTEXT://0.0.0.0:9092,MSGPACK://0.0.0.0:9094"
    assert found["KAFKA_ADVERTISED_LISTENERS"].endswith(",MSGPACK://localhost:9094")
    assert said == ""
    assert found["BARNABAS_HTTP_LISTENER"] == ":9095"
    assert start(place, BARNABAS_HTTP_LISTENER="")[0]["BARNABAS_HTTP_LISTENER"] == ""


def test_stores_and_the_files_of_their_passwords_are_named_as_in_kafkas_image(place: Path) -> None:
    named = {
        "KAFKA_SSL_KEYSTORE_FILENAME": "broker.p12",
        "KAFKA_SSL_KEYSTORE_CREDENTIALS": "store creds",
        "KAFKA_SSL_KEY_CREDENTIALS": "$(echo x)",
        "KAFKA_SSL_TRUSTSTORE_FILENAME": "trust.p12",
        "KAFKA_SSL_TRUSTSTORE_CREDENTIALS": "trust-creds",
    }
    found, said = start(place, **named)
    assert said == ""
    assert {name: found[name] for name in found if name.startswith("KAFKA_SSL")} == named | {
        "KAFKA_SSL_KEYSTORE_LOCATION": "/etc/kafka/secrets/broker.p12",
        "KAFKA_SSL_KEYSTORE_PASSWORD_FILE": "/etc/kafka/secrets/store creds",
        "KAFKA_SSL_KEY_PASSWORD_FILE": "/etc/kafka/secrets/$(echo x)",
        "KAFKA_SSL_TRUSTSTORE_LOCATION": "/etc/kafka/secrets/trust.p12",
        "KAFKA_SSL_TRUSTSTORE_PASSWORD_FILE": "/etc/kafka/secrets/trust-creds",
    }


OURS = ",MSGPACK://127.0.0.1:9094"


@pytest.mark.parametrize(
    ("name", "listeners", "more", "added"),
    [
        ("KAFKA_LISTENERS", "PLAINTEXT://:9092", {}, OURS),
        ("BARNABAS_LISTENERS", "PLAINTEXT://:9092", {}, OURS),
        ("KAFKA_LISTENERS", "PLAINTEXT://:9092,CONTROLLER://:9094", {}, OURS),
        (
            "KAFKA_LISTENERS",
            "PLAINTEXT://:9092",
            {"KAFKA_ADVERTISED_LISTENERS": "PLAINTEXT://here:9092,MSGPACK://here:9094"},
            ",MSGPACK://0.0.0.0:9094",
        ),
        ("KAFKA_LISTENERS", "PLAINTEXT://:9092,MSGPACK://:9999", {}, ""),
        ("KAFKA_LISTENERS", "PLAINTEXT://:9092,INSIDE://:9094", {}, ""),
        (
            "KAFKA_LISTENERS",
            "PLAINTEXT://:9092,PACKED://:9999",
            {"KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": "PLAINTEXT:PLAINTEXT,PACKED:MSGPACK"},
            "",
        ),
    ],
)
def test_listeners_from_the_environment_get_a_msgpack_one_for_commands(
    place: Path, name: str, listeners: str, more: dict[str, str], added: str
) -> None:
    found, _ = start(place, **{name: listeners}, **more)
    assert found[name] == listeners + added


@pytest.mark.parametrize("name", ["KAFKA_LOG_DIRS", "BARNABAS_LOG_DIRS", "KAFKA_LOG_DIR"])
def test_a_data_directory_outside_a_volume_gets_a_warning(place: Path, name: str) -> None:
    for directory in ("/tmp/kafka-logs", "elsewhere", f"{place}/volumes/data"):
        _, said = start(place, **{name: directory})
        assert said.startswith(f"WARN log.dirs={directory} is on no volume"), said
    for directory in (f"{place}/volume", f"{place}/volume/deep/data", "volume/data"):
        _, said = start(place, **{name: directory})
        assert said == "", directory


def test_test_control_listens_where_the_other_ports_do(place: Path) -> None:
    assert start(place, BARNABAS_TEST_CONTROL="true")[0]["BARNABAS_TEST_CONTROL"] == ":9096"
    assert start(place, BARNABAS_TEST_CONTROL=":1")[0]["BARNABAS_TEST_CONTROL"] == ":1"
    assert "BARNABAS_TEST_CONTROL" not in start(place, BARNABAS_TEST_CONTROL="false")[0]
