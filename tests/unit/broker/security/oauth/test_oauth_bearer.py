"""The messages of OAUTHBEARER: what is a token, and how a refusal ends."""

import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broker.security.oauth.token_rules import Believed, TokenRefused
from broker.security.sasl.mechanism import AuthenticationFailed, Identity, Reply
from broker.security.sasl.oauth_bearer import INVALID, MALFORMED, OAuthBearer, read_message
from tests.support.thorough import examples


class Validator:
    async def validate(self, token):
        if token != "good":
            raise TokenRefused("MARKED reason")
        return Believed("alice", 7)


def respond(login, message):
    replied = login.respond(message)
    return replied if isinstance(replied, Reply) else asyncio.run(replied)


@pytest.mark.parametrize(
    "message",
    [
        b"n,,\1auth=Bearer good\1\1",
        b"n,a=,\1auth=Bearer good\1\1",
        b"n,a=alice,\1auth=Bearer good\1\1",
        b"n,,\1auth=bearer  good \1\1",
        b"n,,\1auth=Bearer good\1traceId=123\1\1",
        b"n,,\1host=h\1port=1\1auth=Bearer good\1\1",
    ],
)
def test_believed(message):
    assert respond(OAuthBearer(Validator()), message) == Reply(b"", Identity("alice", 7))


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"\1",
        b"good",
        b"n,,\1auth=Bearer good",
        b"n,,\1auth=Bearer good\1",
        b"y,,\1auth=Bearer good\1\1",
        b"p=x,,\1auth=Bearer good\1\1",
        b"n,b=alice,\1auth=Bearer good\1\1",
        b"n,,\1auth=Basic good\1\1",
        b"n,,\1auth=good\1\1",
        b"n,,\1auth=Bearer \1\1",
        b"n,,\1\1",
        b"n,,\1auth=Bearer good\1auth=Bearer good\1\1",
        b"n,,\1auth=Bearer good\1nonsense\1\1",
        b"\xff\xfe",
    ],
)
def test_malformed_messages(message):
    with pytest.raises(AuthenticationFailed) as refused:
        OAuthBearer(Validator()).respond(message)
    assert refused.value.said == MALFORMED


@pytest.mark.parametrize("then", [b"\1", b"", b"n,,\1auth=Bearer good\1\1", b"\1\1"])
def test_a_refused_token_is_told_and_then_ends_the_login(then):
    login = OAuthBearer(Validator())
    assert respond(login, b"n,,\1auth=Bearer bad\1\1") == Reply(INVALID.encode())
    with pytest.raises(AuthenticationFailed) as refused:
        login.respond(then)
    assert refused.value.said == INVALID
    assert refused.value.why == "token refused: MARKED reason"


def test_nobody_acts_for_another():
    login = OAuthBearer(Validator())
    with pytest.raises(AuthenticationFailed, match="different from the token's principal name"):
        respond(login, b"n,a=bob,\1auth=Bearer good\1\1")


@given(
    message=st.binary(max_size=80)
    | st.lists(
        st.sampled_from(
            ["n,", "a=alice", ",", "\1", "auth=", "Bearer ", "good", "bad", "x=y", "\0", "ü"]
        ),
        max_size=12,
    ).map(lambda parts: "".join(parts).encode())
)
@settings(max_examples=examples(1_000), deadline=1_000)
def test_any_message_is_a_token_or_refused(message):
    try:
        authzid, token = read_message(message)
    except AuthenticationFailed:
        return
    assert token
    assert token in message.decode("utf-8", "replace")
    assert "\1" not in authzid + token
