"""Whose tokens a listener believes, and configurations that would believe anybody by accident."""

import pytest

from config.errors import ConfigError
from config.load import load

LISTENER = (
    "listeners=INSIDE://127.0.0.1:1",
    "listener.security.protocol.map=INSIDE:SASL_PLAINTEXT",
    "sasl.enabled.mechanisms=OAUTHBEARER",
)
URL = "sasl.oauthbearer.jwks.endpoint.url"


def tokens(*given):
    return (
        load(set_values=[*LISTENER, *given]).config.sasl["INSIDE"].mechanisms["OAUTHBEARER"].tokens
    )


def test_a_listeners_own_keys_beat_the_plain_ones():
    found = tokens(
        f"{URL}=https://plain/keys",
        f"listener.name.inside.{URL}=https://own/keys",
        "sasl.oauthbearer.expected.audience=a,b",
        "listener.name.inside.sasl.oauthbearer.expected.issuer=us",
        "sasl.oauthbearer.sub.claim.name=email",
    )
    assert (found.url, found.audiences, found.issuer) == ("https://own/keys", ("a", "b"), "us")
    assert (found.sub_claim, found.scope_claim, found.skew_seconds) == ("email", "scope", 30)
    assert found.refresh_ms == 3_600_000


def test_unsecured_tokens_take_a_key_of_their_own():
    assert tokens("barnabas.sasl.oauthbearer.unsecured=true").url == ""


@pytest.mark.parametrize(
    ("given", "key", "text"),
    [
        ([], URL, "no keys to check tokens with"),
        ([f"{URL}="], URL, "no keys to check tokens with"),
        ([f"{URL}=ftp://x/keys"], URL, "no URL of a key set"),
        ([f"{URL}=http://["], URL, "no URL of a key set"),
        (
            [f"{URL}=https://x", "barnabas.sasl.oauthbearer.unsecured=true"],
            "barnabas.sasl.oauthbearer.unsecured",
            "unset one of them",
        ),
        (
            [f"{URL}=https://x", "sasl.oauthbearer.clock.skew.seconds=-1"],
            "sasl.oauthbearer.clock.skew.seconds",
            "0 or more",
        ),
    ],
)
def test_refused(given, key, text):
    with pytest.raises(ConfigError, match=text) as refused:
        tokens(*given)
    assert refused.value.key == key


@pytest.mark.parametrize(
    ("url", "is_overheard"),
    [
        ("http://idp/keys", True),
        ("https://idp/keys", False),
        ("http://localhost/keys", False),
        ("http://[::1]:80/keys", False),
        ("/etc/keys.json", False),
        ("file:///etc/keys.json", False),
    ],
)
def test_keys_that_a_network_may_change(url, is_overheard):
    assert tokens(f"{URL}={url}").is_overheard is is_overheard
