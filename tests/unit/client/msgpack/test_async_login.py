"""A login in the msgpack dialect: what each answer means."""

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from client.logins import Login
from client.msgpack.async_login import LoginRefused, log_in_async

LOGIN = Login("PLAIN", "alice", "SECRET")
WELCOME = {"error_code": 0, "mechanisms": ["PLAIN"]}


def run(*answers: dict[str, Any], login: Login = LOGIN) -> list[tuple[str, Mapping[str, Any]]]:
    asked: list[tuple[str, Mapping[str, Any]]] = []

    async def ask(api: str, body: Mapping[str, Any]) -> dict[str, Any]:
        asked.append((api, body))
        return answers[len(asked) - 1]

    asyncio.run(log_in_async(login, ask))
    return asked


def test_a_login_is_a_handshake_and_its_tokens() -> None:
    assert run(WELCOME, {"error_code": 0, "auth_bytes": b""}) == [
        ("sasl_handshake", {"mechanism": "PLAIN"}),
        ("sasl_authenticate", {"auth_bytes": b"\0alice\0SECRET"}),
    ]


@pytest.mark.parametrize(("told", "lasts_s"), [({}, 0), ({"session_lifetime_ms": 1500}, 1.5)])
async def test_a_login_says_how_long_it_lasts(told: dict[str, int], lasts_s: float) -> None:
    answers = iter([WELCOME, {"error_code": 0, "auth_bytes": b"", **told}])

    async def ask(_api: str, _body: Mapping[str, Any]) -> dict[str, Any]:
        return next(answers)

    assert await log_in_async(LOGIN, ask) == lasts_s


@pytest.mark.parametrize(
    ("answers", "words"),
    [
        ([{"error_code": 33, "mechanisms": ["X"]}], "does not offer PLAIN, but X"),
        ([{"error_code": 34, "mechanisms": []}], "a listener without SASL"),
        ([{"error_code": 42, "error_message": "bad"}], "bad"),
        ([WELCOME, {"error_code": 58, "error_message": "no such user"}], "no such user"),
    ],
)
def test_a_refusal_says_what_to_do(answers: list[dict[str, Any]], words: str) -> None:
    with pytest.raises(LoginRefused) as caught:
        run(*answers)
    assert words in str(caught.value)
    assert "SECRET" not in str(caught.value)


def test_a_server_that_proves_nothing_is_not_trusted() -> None:
    login = Login("SCRAM-SHA-256", "alice", "SECRET")
    with pytest.raises(LoginRefused, match="cannot be trusted"):
        run(WELCOME, {"error_code": 0, "auth_bytes": b"r=x,s=AAAA,i=1"}, login=login)
