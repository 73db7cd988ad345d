"""Users of a broker in its own process: they survive its death, and secrets are seen nowhere."""

import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner

from client import cli
from client.kafka.connection import BrokerError, Connection
from client.kafka.users import alter, users
from client.user_credentials import UserChanges, UserRow
from protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    ScramCredentialUpsertion,
)
from protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
)
from tests.support.broker_process import BrokerProcess
from tests.unit.broker.metadata.test_scram_plans import remove, upsert

SECRET = "MARKED-SECRET"
MARKED = SECRET.encode()


def barnabas(broker: BrokerProcess, *arguments: str, given: str | None = None) -> str:
    done = CliRunner().invoke(
        cli.main, ["users", *arguments, "--bootstrap", broker.address], input=given
    )
    assert done.exit_code == 0, done.output
    return done.output


def test_users_survive_kill_9_from_the_answer_on(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path / "data") as broker:
        for round_ in range(3):
            barnabas(broker, "add", f"user{round_}", "--password-file", "-", given=SECRET)
            if round_:
                barnabas(broker, "remove", f"user{round_ - 1}", "--yes")
            broker.kill()
            broker.start()
            with Connection(broker.address, 60) as connection:
                assert users(connection) == [UserRow(f"user{round_}", 2, 4096)]
        broker.stop()
        broker.start()
        assert "user2" in barnabas(broker, "list")


def test_no_secret_leaves_the_broker(tmp_path: Path) -> None:
    """What a client may log in with is in no log, answer, argument, error text or file."""
    data = tmp_path / "data"
    with BrokerProcess(data) as broker:
        process = subprocess.Popen(
            [
                *("python", "-m", "client.cli", "users", "add", "cli", "--bootstrap"),
                *(broker.address, "--password-file", "-"),
            ],
            executable=__import__("sys").executable,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        listed = subprocess.run(["ps", "-eo", "args"], capture_output=True, check=False).stdout
        said, _ = process.communicate(MARKED, timeout=120)
        assert process.returncode == 0, said
        assert MARKED not in said + listed

        answers = [*refused(broker), described(broker)]
        with Connection(broker.address, 60) as connection:
            alter(connection, UserChanges([], [upsert("raw", salted=MARKED)]))
            alter(connection, UserChanges([remove("raw")], []))
            answers.append(repr(users(connection)))
        assert not any(SECRET in answer for answer in answers)
        cut_off(broker)
    assert SECRET not in broker.output()
    assert "set 1 SCRAM credentials: cli" in broker.output()
    files = [path for path in data.rglob("*") if path.is_file()]
    assert not any(MARKED in path.read_bytes() for path in files)
    assert not any(path.stat().st_mode & 0o007 for path in files), "0640 or stricter"


def refused(broker: BrokerProcess) -> list[str]:
    """Each refusal of a credential with a secret, as the client sees it."""
    found = []
    with Connection(broker.address, 60) as connection:
        for change in (
            upsert("", salted=MARKED),
            upsert("a", 7, salted=MARKED),
            upsert("a", iterations=1, salted=MARKED),
            upsert("a", salt=MARKED * 100, salted=MARKED),
        ):
            with pytest.raises(BrokerError) as error:
                alter(connection, UserChanges([], [change]))
            found.append(str(error.value))
        twice = AlterUserScramCredentialsRequest(upsertions=[upsert("a", salted=MARKED)] * 2)
        found.append(repr(connection.call(twice, AlterUserScramCredentialsResponse)))
    return found


def described(broker: BrokerProcess) -> str:
    asked = DescribeConfigsRequest(
        resources=[DescribeConfigsResource(resource_type=4, resource_name="1")]
    )
    with Connection(broker.address, 60) as connection:
        return repr(connection.call(asked, DescribeConfigsResponse))


def cut_off(broker: BrokerProcess) -> None:
    """Send a request whose last field is not there: what the broker logs must not show the rest."""
    import socket

    from protocol.kafka.codec import encode_message

    one = ScramCredentialUpsertion(
        name="a", mechanism=1, iterations=4096, salt=MARKED, salted_password=MARKED
    )
    body = encode_message(AlterUserScramCredentialsRequest(upsertions=[one]), 0)[:-4]
    head = (51).to_bytes(2, "big") + bytes(2) + bytes(4) + b"\0\1x\0"
    with socket.create_connection((broker.host, broker.port), timeout=60) as raw:
        raw.sendall(len(head + body).to_bytes(4, "big") + head + body)
        assert raw.recv(100) == b""
