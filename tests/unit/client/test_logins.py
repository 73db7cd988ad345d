"""A client's login against the broker's own mechanisms, and servers that cannot be trusted."""

from pathlib import Path

import pytest

from broker.metadata.scram_image import ScramCredential
from broker.security.sasl.mechanism import Mechanism, Reply
from broker.security.sasl.scram_server import ScramServer
from broker.security.sasl.scram_users import CredentialSource
from client.logins import Login, LoginError
from protocol.scram import HASHES, client_key, salted_password, server_key, stored_key

NAME, PASSWORD = "a,b=c", "s\N{SNOWMAN}"


class Directory:
    def scram(self, mechanism: str, user: str) -> ScramCredential | None:
        if user != NAME:
            return None
        salted = salted_password(mechanism, PASSWORD, b"salt", 4096)
        stored = stored_key(mechanism, client_key(mechanism, salted))
        return ScramCredential(b"salt", stored, server_key(mechanism, salted), 4096)

    def iterations(self, mechanism: str) -> list[int]:
        return []

    def generation(self, user: str, mechanism: str = "") -> int | None:
        return 1


def server(mechanism: str) -> Mechanism:
    return ScramServer(mechanism, CredentialSource(Directory(), b"secret"), bytes)


def answer(mechanism: Mechanism, token: bytes | None) -> bytes:
    assert token is not None
    reply = mechanism.respond(token)
    assert isinstance(reply, Reply)
    return reply.token


@pytest.mark.parametrize("mechanism", HASHES)
def test_scram_ends_with_the_servers_proof(mechanism: str) -> None:
    exchange, other = Login(mechanism, NAME, PASSWORD).begin(), server(mechanism)
    final = exchange.next(answer(other, exchange.first))
    assert exchange.next(answer(other, final)) is None


def test_plain_is_one_token() -> None:
    exchange = Login("PLAIN", "alice", "secret").begin()
    assert exchange.first == b"\0alice\0secret"
    assert exchange.next(b"") is None
    assert "secret" not in repr(Login("PLAIN", "alice", "secret"))


def test_a_token_is_read_at_each_login(tmp_path: Path) -> None:
    file = tmp_path / "token"
    login = Login("OAUTHBEARER", str(file), "")
    with pytest.raises(LoginError, match="token: No such file"):
        login.begin()
    for token in ("a.b.c", "d.e.f"):
        file.write_text(f"{token}\n")
        exchange = login.begin()
        assert exchange.first == f"n,,\1auth=Bearer {token}\1\1".encode()
        assert exchange.next(b"") is None
        assert exchange.next(b'{"status":"invalid_token"}') == b"\1"
    file.write_bytes(b"\xff")
    with pytest.raises(LoginError, match="no text"):
        login.begin()


def test_a_server_that_does_not_know_the_user_is_not_trusted() -> None:
    exchange, other = Login("SCRAM-SHA-256", NAME, PASSWORD).begin(), server("SCRAM-SHA-256")
    exchange.next(answer(other, exchange.first))
    with pytest.raises(LoginError, match="does not know"):
        exchange.next(b"v=AAAA")


@pytest.mark.parametrize(
    "token", [b"", b"r=other,s=AAAA,i=4096", b"r=x,s=AAAA,i=999999999", b"e=no", b"\xff"]
)
def test_what_is_no_answer_is_refused(token: bytes) -> None:
    with pytest.raises(LoginError):
        Login("SCRAM-SHA-256", NAME, PASSWORD).begin().next(token)


def test_the_clients_nonce_alone_is_not_the_servers() -> None:
    exchange = Login("SCRAM-SHA-256", NAME, PASSWORD).begin()
    nonce = exchange.first.partition(b",r=")[2]
    with pytest.raises(LoginError, match="nonce"):
        exchange.next(b"r=" + nonce + b",s=AAAA,i=4096")
