"""SCRAM against an independent library, scramp, in both roles: our client and server, and its own.

Each side of one login is ours and the other is scramp's, so an error that our sides share shows.
Names and passwords are random; they hold the characters that a message escapes, and none that
SASLprep changes: scramp prepares names, and neither Kafka nor Barnabas does.
"""

import os
import random
import string
from typing import Any

import pytest
from scramp import ScramClient, ScramException, ScramMechanism

from broker.metadata.scram_image import ScramCredential
from broker.security.sasl.mechanism import AuthenticationFailed, Reply
from broker.security.sasl.scram_server import ScramServer
from broker.security.sasl.scram_users import CredentialSource
from client.logins import Login, LoginError
from protocol.scram import HASHES

pytestmark = pytest.mark.interop

LOGINS = 60
ALPHABET = string.ascii_letters + string.digits + ",=+/!~ éß\N{SNOWMAN}漢"
ITERATIONS = (4096, 8192, 16_384)


class Directory:
    """The users, whose keys scramp derives."""

    def __init__(self) -> None:
        self.found: dict[tuple[str, str], tuple[bytes, bytes, bytes, int]] = {}

    def add(self, mechanism: str, user: str, password: str, iterations: int) -> None:
        made = ScramMechanism(mechanism).make_auth_info(
            password, iteration_count=iterations, salt=os.urandom(16)
        )
        self.found[mechanism, user] = made

    def scram(self, mechanism: str, user: str) -> ScramCredential | None:
        found = self.found.get((mechanism, user))
        return None if found is None else ScramCredential(*found)

    def iterations(self, mechanism: str) -> list[int]:
        return sorted(found[3] for (name, _), found in self.found.items() if name == mechanism)

    def generation(self, user: str, mechanism: str = "") -> int | None:
        return 1


def server(mechanism: str, directory: Directory) -> ScramServer:
    return ScramServer(mechanism, CredentialSource(directory, b"secret"), os.urandom)


def theirs(mechanism: str, directory: Directory) -> Any:
    return ScramMechanism(mechanism).make_server(lambda user: directory.found[mechanism, user])


def answered(ours: ScramServer, message: str) -> Reply:
    reply = ours.respond(message.encode())
    assert isinstance(reply, Reply)
    return reply


def text(source: random.Random) -> str:
    word = "".join(source.choices(ALPHABET, k=source.randrange(1, 30))).strip()
    return word or "x"


def users(mechanism: str) -> tuple[Directory, list[tuple[str, str]]]:
    source = random.Random(mechanism)
    directory = Directory()
    named = {text(source): text(source) for _ in range(LOGINS)}
    for user, password in named.items():
        directory.add(mechanism, user, password, source.choice(ITERATIONS))
    return directory, [*named.items()]


@pytest.mark.parametrize("mechanism", HASHES)
def test_its_clients_log_in_to_our_server(mechanism: str) -> None:
    directory, named = users(mechanism)
    for user, password in named:
        client, ours = ScramClient([mechanism], user, password), server(mechanism, directory)
        client.set_server_first(answered(ours, client.get_client_first()).token.decode())
        reply = answered(ours, client.get_client_final())
        client.set_server_final(reply.token.decode())  # raises if our proof is wrong
        assert reply.identity is not None
        assert reply.identity.user == user


@pytest.mark.parametrize("mechanism", HASHES)
def test_our_clients_log_in_to_its_server(mechanism: str) -> None:
    directory, named = users(mechanism)
    for user, password in named:
        client, other = Login(mechanism, user, password).begin(), theirs(mechanism, directory)
        other.set_client_first(client.first.decode())
        final = client.next(other.get_server_first().encode())
        assert final is not None
        other.set_client_final(final.decode())  # raises if our proof is wrong
        assert client.next(other.get_server_final().encode()) is None


@pytest.mark.parametrize("mechanism", HASHES)
def test_both_sides_refuse_a_wrong_password_and_an_unknown_user(mechanism: str) -> None:
    directory, named = users(mechanism)
    user, password = named[0]
    for name, tried in ((user, password + "x"), (user, password[:-1] + "~"), ("nobody", password)):
        client, ours = ScramClient([mechanism], name, tried), server(mechanism, directory)
        client.set_server_first(answered(ours, client.get_client_first()).token.decode())
        with pytest.raises(AuthenticationFailed):
            ours.respond(client.get_client_final().encode())
    ours, other = Login(mechanism, user, password + "x").begin(), theirs(mechanism, directory)
    other.set_client_first(ours.first.decode())
    final = ours.next(other.get_server_first().encode())
    assert final is not None
    with pytest.raises(ScramException):
        other.set_client_final(final.decode())
    with pytest.raises(LoginError):
        ours.next(other.get_server_final().encode())


@pytest.mark.parametrize("mechanism", HASHES)
def test_a_server_with_another_key_is_not_trusted(mechanism: str) -> None:
    """It knows what a stolen StoredKey tells, and not the ServerKey."""
    directory, named = users(mechanism)
    user, password = named[0]
    salt, stored, owed, iterations = directory.found[mechanism, user]
    directory.found[mechanism, user] = salt, stored, bytes(len(owed)), iterations
    client, ours = ScramClient([mechanism], user, password), server(mechanism, directory)
    client.set_server_first(answered(ours, client.get_client_first()).token.decode())
    with pytest.raises(ScramException):
        client.set_server_final(answered(ours, client.get_client_final()).token.decode())
    login, other = Login(mechanism, user, password).begin(), theirs(mechanism, directory)
    other.set_client_first(login.first.decode())
    final = login.next(other.get_server_first().encode())
    assert final is not None
    other.set_client_final(final.decode())
    with pytest.raises(LoginError, match="does not know"):
        login.next(other.get_server_final().encode())
