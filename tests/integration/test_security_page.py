"""The commands of docs/security.md, as a reader types them: TLS, two users, their rights."""

import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer

from tests.support.broker_process import BARNABAS, ROOT, BrokerProcess, free_port

PAGE = (ROOT / "docs" / "security.md").read_text()
SECTION = PAGE.partition("## From nothing to TLS")[2].partition("\n## ")[0]
USERS = PAGE.partition("## TLS, two users and their rights, in ten commands")[2].partition("\n## ")[
    0
]
PASSWORD = "a long password"
PATIENCE_S = 60


def commands(section: str = SECTION) -> list[str]:
    """The commands of a section, each on one line."""
    joined = section.replace("\\\n", "")
    return [re.sub(r"\s+", " ", line) for line in re.findall(r"^\$ (.*)$", joined, re.M)]


class PageBroker(BrokerProcess):
    """A broker with the settings of the page, in the page's directory, on free ports."""

    def __init__(self, directory: Path, line: str) -> None:
        super().__init__(directory / "data")
        self.settings = dict(
            assignment.split("=", 1) for assignment in re.findall(r"--set (\S+)", line)
        )
        for key in ("ssl.certificate", "ssl.key"):
            self.settings[key] = str(directory / self.settings[key])
        ports = {"9093": str(self.port), "9094": str(free_port())}
        self.settings["listeners"] = re.sub(
            "909[34]", lambda port: ports[port[0]], self.settings["listeners"]
        )


@pytest.fixture
def typed(tmp_path: Path) -> list[str]:
    if shutil.which("openssl") is None:
        pytest.skip("needs openssl on the PATH")
    found = commands()
    for line in found[:3]:
        subprocess.run(line, shell=True, cwd=tmp_path, check=True, capture_output=True)
    # Python from 3.13 on verifies so.
    strictly = ["openssl", "verify", "-x509_strict", "-CAfile", "authority.pem", "broker.pem"]
    subprocess.run(strictly, cwd=tmp_path, check=True, capture_output=True)
    return found


def test_the_page_leads_from_nothing_to_tls(typed: list[str], tmp_path: Path) -> None:
    serve, show, create = typed[3:]
    assert serve.startswith("barnabas serve --data data ")
    with PageBroker(tmp_path, serve) as broker:
        properties = SECTION.partition(f"$ {show}\n")[2].partition("$ ")[0]
        (tmp_path / show.removeprefix("cat ")).write_text(properties)
        words = create.replace("9093", str(broker.port)).split()
        done = subprocess.run(
            [*BARNABAS, *words[1:]],
            cwd=tmp_path,
            env={"PYTHONPATH": str(ROOT), "PATH": str(Path(sys.executable).parent)},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.stdout == "Created topic orders with 1 partition.\n", done.stderr
        assert done.stdout in SECTION


# -- two users and their rights --------------------------------------------------------------------


@pytest.fixture
def prepared(tmp_path: Path) -> list[str]:
    """The commands, of which those before the broker's start are done."""
    found = commands(USERS)
    assert "authority.pem" in typed_there(tmp_path, found[0], {})
    (tmp_path / "password").write_text(f"{PASSWORD}\n")
    (tmp_path / "password").chmod(0o600)
    for line in found[1:4]:
        typed_there(tmp_path, f"{line} --password-file password", {})
    return found


def typed_there(directory: Path, line: str, environment: dict[str, str]) -> str:
    """Type a command of ours, and return what it prints."""
    words = shlex.split(line)
    assert words[0] == "barnabas"
    done = subprocess.run(
        [*BARNABAS, *words[1:]],
        cwd=directory,
        env={"PYTHONPATH": str(ROOT), "PATH": str(Path(sys.executable).parent), **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def client_of(broker: BrokerProcess, directory: Path, name: str) -> dict[str, str]:
    return {
        "bootstrap.servers": f"localhost:{broker.port}",
        "security.protocol": "SASL_SSL",
        "ssl.ca.location": str(directory / "authority.pem"),
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": name,
        "sasl.password": PASSWORD,
    }


def sent(settings: dict[str, str]) -> list[str]:
    """Send a record, and return the names of the errors of its delivery."""
    told: list[str] = []
    producer = Producer(settings)
    producer.produce(
        "orders", b"a", on_delivery=lambda error, _: told.append(error.name() if error else "")
    )
    assert producer.flush(PATIENCE_S) == 0
    return told


def read(settings: dict[str, str], group: str) -> bytes | str | None:
    """Return the first record of the topic, or the name of the error."""
    consumer = Consumer({**settings, "group.id": group, "auto.offset.reset": "earliest"})
    consumer.subscribe(["orders"])
    try:
        message = consumer.poll(PATIENCE_S)
        assert message is not None, "nothing came"
        return message.error().name() if message.error() else message.value()
    finally:
        consumer.close()


def test_the_page_leads_to_two_users_and_their_rights(prepared: list[str], tmp_path: Path) -> None:
    assert len(prepared) == 10
    serve, export, *rights, show, check = prepared[4:]
    properties = re.findall(r"```\n(.*?)```", USERS, re.S)[1]
    properties = properties.replace("the password that you gave", PASSWORD)
    (tmp_path / "admin.properties").write_text(properties)
    with PageBroker(tmp_path, serve) as broker:
        words = export.replace("9093", str(broker.port)).split()[1:]
        environment = dict(word.split("=", 1) for word in words)
        for line in rights:
            assert "may" in typed_there(tmp_path, line, environment)
        alice, bob = (client_of(broker, tmp_path, name) for name in ("alice", "bob"))
        assert sent(alice) == [""]
        assert read(bob, "billing") == b"a"
        assert sent(bob) == ["TOPIC_AUTHORIZATION_FAILED"]
        assert read(alice, "billing") == "GROUP_AUTHORIZATION_FAILED"
        assert "billing" in typed_there(tmp_path, show, environment)
        assert "Allowed" in typed_there(tmp_path, check, environment)
        log = broker.output()
    assert "Principal = User:bob is Denied operation = WRITE" in log
    assert "to allow it: barnabas acls allow bob write topic orders" in log
    assert PASSWORD not in log
