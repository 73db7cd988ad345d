"""Marked passwords, keys and tokens, through starts, logins and changes that fail: seen nowhere.

Not in what the broker prints or answers, in what its clients say, in the list of processes, or in a
file beside the metadata log, which holds what a client has set, as Kafka's does.
"""

import base64
import json
import ssl
import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner
from cryptography.hazmat.primitives.asymmetric import ec
from jwt.algorithms import ECAlgorithm

from client import cli
from client.addresses import Address
from client.codes import BrokerError
from client.kafka.connection import Connection
from client.logins import Login
from protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
)
from protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from tests.support import warm_process
from tests.support.broker_process import COMMAND, BrokerProcess, free_port
from tests.support.certificates import Authority

MARK = "MARKED"
KEY = ec.generate_private_key(ec.SECP256R1())
MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
JAAS = "listener.name.locked.plain.sasl.jaas.config"
GOOD_JAAS = f'{MODULE} required user_alice="{MARK}-1";'


class FileBroker(BrokerProcess):
    """A broker whose settings are in a file, as secrets are."""

    def command(self) -> list[str]:
        """Write the file, and return the command line."""
        path = self.data.parent / "server.properties"
        lines = {"log.dirs": str(self.data), **self.settings}
        path.write_text("".join(f"{key}={value}\n" for key, value in lines.items()))
        path.chmod(0o600)
        return [*COMMAND, "--config", str(path)]


def settings(directory: Path, port: int) -> dict[str, str]:
    own = Authority(directory / "certificates").issue("broker")
    key = own.encrypted_key(f"{MARK}-key-password").strip().replace("\n", "\\\\n")
    chain = own.chain.strip().replace("\n", "\\\\n")
    public = {**ECAlgorithm.to_jwk(KEY.public_key(), as_dict=True), "kid": "one", "use": "sig"}
    public.pop("key_ops", None)
    (directory / "keys.json").write_text(json.dumps({"keys": [public]}))
    return {
        # The broker is ready when the last one listens.
        "listeners": f"LOCKED://127.0.0.1:{port},PLAINTEXT://127.0.0.1:{free_port()}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,LOCKED:SASL_SSL",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.key": key,
        "ssl.keystore.certificate.chain": chain,
        "ssl.key.password": f"{MARK}-key-password",
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512,OAUTHBEARER",
        "sasl.oauthbearer.jwks.endpoint.url": str(directory / "keys.json"),
        JAAS: GOOD_JAAS,
    }


FAILED_STARTS: list[dict[str, str]] = [
    {JAAS: f'{MODULE} required user_alice="{MARK}-1'},
    {JAAS: f'{MODULE} required user_alice={MARK}-1" x;'},
    {JAAS: f'some.Module required user_alice="{MARK}-1";'},
    {JAAS: f"{MARK}-1"},
    {"ssl.key.password": f"{MARK}-wrong"},
    {"ssl.keystore.key": f"-----BEGIN PRIVATE KEY-----\\\\n{MARK}\\\\n-----END PRIVATE KEY-----"},
    {"ssl.keystore.key": f"{MARK}-no-key"},
    {
        "ssl.keystore.type": "PKCS12",
        "ssl.keystore.location": "server.properties",
        "ssl.keystore.password": f"{MARK}-store",
    },
]


@pytest.mark.parametrize("change", FAILED_STARTS, ids=str)
def test_a_start_that_fails_names_no_secret(tmp_path: Path, change: dict[str, str]) -> None:
    broker = FileBroker(tmp_path / "data", {**settings(tmp_path, free_port()), **change})
    done = warm_process.run(broker.command())
    said = (done.stdout + done.stderr).decode()
    assert done.returncode != 0
    assert MARK not in said, said
    assert next(iter(change)) in said or "ssl.key" in said, said
    assert "Traceback" not in said


def altered(connection: Connection, value: str) -> str:
    change = AlterableConfig(name=JAAS, config_operation=0, value=value)
    resource = AlterConfigsResource(resource_type=4, resource_name="1", configs=[change])
    request = IncrementalAlterConfigsRequest(resources=[resource])
    return repr(connection.call(request, IncrementalAlterConfigsResponse))


def described(connection: Connection) -> str:
    resource = DescribeConfigsResource(resource_type=4, resource_name="1")
    request = DescribeConfigsRequest(
        resources=[resource], include_synonyms=True, include_documentation=True
    )
    return repr(connection.call(request, DescribeConfigsResponse))


def token() -> str:
    parts = ({"alg": "ES256", "kid": f"{MARK}-kid"}, {"sub": f"{MARK}-sub", "exp": 4e9, "iat": 1})
    texts = [base64.urlsafe_b64encode(json.dumps(one).encode()).rstrip(b"=") for one in parts]
    return b".".join([*texts, b"MARKED"]).decode()


def logins_that_fail(address: Address) -> list[str]:
    """Return what is said of wrong passwords, and of tokens of each mechanism that are none."""
    said = []
    for mechanism in ("PLAIN", "SCRAM-SHA-512"):
        login = Login(mechanism, "alice", f"{MARK}-wrong")
        with pytest.raises(BrokerError, match="refuses the login") as refused:
            Connection(Address(address, address.tls, login), 60).open()
        said.append(str(refused.value))
    bearer = f"n,,\1auth=Bearer {token()}\1\1".encode()
    mark = MARK.encode()
    tokens = {
        "PLAIN": (b"\0alice\0" + mark + b"\0x", mark, b"bob\0alice\0" + mark + b"-1"),
        "SCRAM-SHA-512": (mark, b"n,,n=alice,r=" + mark + b"\0", b"p=x,,n=" + mark),
        "OAUTHBEARER": (mark, bearer, b"n,,\1auth=" + mark + b"\1\1"),
    }
    for mechanism, wrong in tokens.items():
        for one in wrong:
            with Connection(address, 60) as connection:
                connection.call(SaslHandshakeRequest(mechanism=mechanism), SaslHandshakeResponse)
                for given in (one, b"\1"):
                    request = SaslAuthenticateRequest(auth_bytes=given)
                    try:
                        answer = connection.call(request, SaslAuthenticateResponse)
                    except BrokerError as error:
                        said.append(str(error))
                        break
                    said.append(f"{answer.error_message} {answer.auth_bytes!r}")
                    if answer.error_code:
                        break
    return said


def test_a_broker_that_runs_shows_no_secret(tmp_path: Path) -> None:
    port = free_port()
    broker = FileBroker(tmp_path / "data", settings(tmp_path, port))
    broker.port = int(broker.settings["listeners"].rpartition(":")[2])
    context = ssl.create_default_context(cafile=str(next(tmp_path.glob("certificates/*author*"))))
    address = Address(f"127.0.0.1:{port}", context)
    with broker:
        said = logins_that_fail(address)
        with Connection(broker.address, 60) as connection:
            said += [altered(connection, change[JAAS]) for change in FAILED_STARTS[:4]]
            said.append(described(connection))
            answer = altered(connection, f'{MODULE} required user_bob="{MARK}-2";')
            assert "error_code=0" in answer
            said += [answer, described(connection)]
        shown = CliRunner().invoke(
            cli.main, ["config", "get", "--broker", "1", "--all", "--bootstrap", broker.address]
        )
        assert shown.exit_code == 0, shown.output
        said.append(shown.output)
        said.append(
            subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout
        )
        login = Login("PLAIN", "bob", f"{MARK}-2")
        with Connection(Address(address, context, login), 60):
            pass  # the changed password is used, but not shown
    said.append(broker.output())
    shows = [one for one in said if MARK in one]
    assert shows == []
    files = [
        path
        for path in broker.data.rglob("*")
        if path.is_file() and path.parent.name != "__cluster_metadata-0"
    ]
    assert files
    assert not any(MARK.encode() in path.read_bytes() for path in files)
