"""A login on a connection for Kafka's protocol: what each answer means."""

from typing import Any

import pytest

from client.codes import BrokerError
from client.kafka.log_in import log_in
from client.logins import Login
from protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from protocol.messages.sasl_handshake import SaslHandshakeResponse

LOGIN = Login("PLAIN", "alice", "SECRET")
WELCOME = SaslHandshakeResponse(mechanisms=["PLAIN"])


def run(*answers: Any, login: Login = LOGIN) -> list[Any]:
    asked: list[Any] = []

    def call(request: Any, response: type[Any]) -> Any:
        asked.append(request)
        assert isinstance(answers[len(asked) - 1], response)
        return answers[len(asked) - 1]

    log_in("host:1", login, call)
    return asked


def test_a_login_is_a_handshake_and_its_tokens() -> None:
    _, token = run(WELCOME, SaslAuthenticateResponse())
    assert token == SaslAuthenticateRequest(auth_bytes=b"\0alice\0SECRET")


@pytest.mark.parametrize(
    ("answers", "words"),
    [
        ([SaslHandshakeResponse(error_code=33, mechanisms=["X"])], "does not offer PLAIN, but X"),
        ([SaslHandshakeResponse(error_code=34)], "a listener without SASL"),
        (
            [WELCOME, SaslAuthenticateResponse(error_code=58, error_message="no such user")],
            "refuses the login of 'alice' by PLAIN: no such user",
        ),
        ([WELCOME, SaslAuthenticateResponse(error_code=58, error_message=None)], "SASL_AUTHENTI"),
    ],
)
def test_a_refusal_says_what_to_do(answers: list[Any], words: str) -> None:
    with pytest.raises(BrokerError) as caught:
        run(*answers)
    assert words in str(caught.value)
    assert "SECRET" not in str(caught.value)


def test_a_server_that_proves_nothing_is_not_trusted() -> None:
    login = Login("SCRAM-SHA-256", "alice", "SECRET")
    with pytest.raises(BrokerError, match="cannot be trusted"):
        run(WELCOME, SaslAuthenticateResponse(auth_bytes=b"r=x,s=AAAA,i=1"), login=login)
