"""What makes a broker with OAUTHBEARER start, what keeps it from that, and what it warns of."""

import asyncio
import logging

import pytest

from broker.runtime.clock import SystemClock
from broker.security.oauth.bearer_setup import ValidatorMaker
from broker.security.oauth.key_set import KeySetError
from broker.security.oauth.token_rules import TokenRefused
from broker.security.oauth.token_validator import SignedTokens, UnsecuredTokens
from config.token_settings import TokenSettings
from tests.unit.broker.security.oauth.tokens import key_set


def settings(url, *, audiences=("a",)):
    return TokenSettings(
        url=url, audiences=audiences, issuer="", scope_claim="scope", sub_claim="sub",
        skew_seconds=30, refresh_ms=1,
    )  # fmt: skip


async def run(call):
    return call()


def maker(find=lambda _: object(), *, is_start=True):
    made = ValidatorMaker(run, SystemClock(), find)
    made.is_start = is_start
    return made


def test_a_file_is_read_at_the_start(tmp_path):
    path = tmp_path / "keys.json"
    with pytest.raises(KeySetError, match=r"keys\.json cannot be used: No such file"):
        maker().make(settings(str(path)))
    path.write_bytes(b"{}")
    with pytest.raises(KeySetError, match='no list "keys"'):
        maker().make(settings(str(path)))
    path.write_bytes(key_set())
    assert isinstance(maker().make(settings(str(path))), SignedTokens)


def test_a_provider_may_be_down_at_the_start():
    assert isinstance(maker().make(settings("http://127.0.0.1:1/")), SignedTokens)


@pytest.mark.parametrize("missing", ["jwt", "cryptography"])
def test_without_the_extra_it_does_not_start(missing):
    def find(name):
        return None if name == missing else object()

    with pytest.raises(KeySetError, match=r"pip install 'barnabas\[security\]'"):
        maker(find).make(settings("https://x/keys"))
    later = maker(find, is_start=False).make(settings("https://x/keys"))
    with pytest.raises(TokenRefused, match="pip install"):
        asyncio.run(later.validate("a.b.c"))
    assert isinstance(maker(find).make(settings("")), UnsecuredTokens)


def test_nothing_is_read_while_the_broker_runs(tmp_path):
    made = maker(is_start=False).make(settings(str(tmp_path / "no")))
    with pytest.raises(TokenRefused, match="algorithm"):
        asyncio.run(made.validate("e30.e30."))


@pytest.mark.parametrize(
    ("given", "text"),
    [
        (settings(""), "anybody may be anybody"),
        (settings("http://idp.example/keys"), "use https:"),
        (settings("https://idp.example/keys", audiences=()), "expected.audience"),
        (settings("https://idp.example/keys"), ""),
        (settings("http://127.0.0.1:8080/keys"), ""),
    ],
)
def test_warnings(given, text, caplog):
    caplog.set_level(logging.WARNING, logger="barnabas.security")
    maker().make(given)
    assert len(caplog.messages) == bool(text)
    assert text in "".join(caplog.messages)
