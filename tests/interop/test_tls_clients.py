"""Kafka's own tool replaces the certificate of a running broker, and the broker's log explains.

What clients themselves say of a wrong secret or certificate is in `test_secure_clients`.
"""

import ssl
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.interop.oracle import kafka
from tests.interop.secure_clients import confluent_says
from tests.interop.secure_house import House, Way, secure_house
from tests.support.broker_process import BrokerProcess

pytestmark = [
    pytest.mark.interop,
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),  # the libraries' own
]

PATIENCE_S = 60


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    with secure_house(tmp_path_factory.mktemp("tls")) as found:
        yield found


def java_file(way: Way, directory: Path) -> str:
    """Write the properties of Kafka's own clients."""
    path = directory / "client.properties"
    path.write_text(
        f"security.protocol=SSL\nssl.truststore.type=PEM\nssl.truststore.location={way.trusted}\n"
    )
    return str(path)


def until_said(broker: BrokerProcess, words: str) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while words not in broker.output():
        assert time.monotonic() < deadline, broker.output()
        time.sleep(0.05)


def test_kafkas_tool_replaces_the_certificate_of_a_running_broker(
    house: House, tmp_path: Path
) -> None:
    kafka.libs()
    way = house.way("tls", "TLS")
    config = java_file(way, tmp_path)
    prefix = "listener.name.tls.ssl.keystore"

    def alter(store: str) -> subprocess.CompletedProcess[bytes]:
        return kafka.tool(
            "kafka.admin.ConfigCommand", "--bootstrap-server", way.address, "--command-config",
            config, "--alter", "--entity-type", "brokers", "--entity-name", "1", "--add-config",
            f"{prefix}.type=PEM,{prefix}.location={store}",
        )  # fmt: skip

    def serial() -> int:
        pem = ssl.get_server_certificate(("localhost", house.ports["TLS"]))
        done = subprocess.run(
            ["openssl", "x509", "-noout", "-serial"], input=pem.encode(), capture_output=True,
            check=True,
        )  # fmt: skip
        return int(done.stdout.partition(b"=")[2], 16)

    renewed = house.authority.issue("renewed", [("CN", "broker")], rsa_bits=2048)
    done = alter(renewed.store_file)
    assert done.returncode == 0, done.stderr
    assert serial() == renewed.certificate.serial_number
    other = house.authority.issue("other", [("CN", "somebody else")])
    for store, reason in (
        (other.store_file, b"Keystore DistinguishedName does not match"),
        (other.chain_file, b"has no private key"),
        (str(tmp_path / "missing.pem"), b"No such file"),
    ):
        done = alter(store)
        assert reason in done.stdout + done.stderr
        assert serial() == renewed.certificate.serial_number
    described = kafka.tool(
        "kafka.admin.ConfigCommand", "--bootstrap-server", way.address, "--command-config",
        config, "--describe", "--entity-type", "brokers", "--entity-name", "1",
    )  # fmt: skip
    assert f"{prefix}.location={renewed.store_file}".encode() in described.stdout


def test_a_client_that_does_not_trust_the_broker_is_named(house: House) -> None:
    assert "verify" in confluent_says(house.wrong_authority())
    until_said(house.broker, "refuses the broker's certificate")


def test_a_client_without_a_certificate_is_told_so(house: House) -> None:
    said = confluent_says(house.way("none", "MUTUAL")._replace(own=None))
    assert "certificate" in said
    until_said(house.broker, "ssl.client.auth=required")


@pytest.mark.parametrize("listener", ["LOGIN", "LOCKED"])
def test_a_client_without_a_login_is_named(house: House, listener: str) -> None:
    from confluent_kafka.admin import AdminClient

    way = house.way("none", listener)
    settings = {
        "bootstrap.servers": way.address,
        "security.protocol": "SSL" if way.has_tls else "PLAINTEXT",
        "ssl.ca.location": way.trusted,
    }
    with pytest.raises(Exception, match=r"(?i)transport|timed out"):
        AdminClient(settings).list_topics(timeout=2)
    until_said(house.broker, "before a login: security.protocol=PLAINTEXT")
