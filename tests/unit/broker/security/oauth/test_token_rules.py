"""What tokens must claim: every refusal, the skew at both ends, and claims nobody would write."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broker.security.oauth.token_rules import TokenRefused, TokenRules, check_claims
from tests.support.thorough import examples

NOW_S = 1_700_000_000
NOW_MS = NOW_S * 1000
GOOD = {"sub": "alice", "iat": NOW_S - 10, "exp": NOW_S + 600}


def check(rules=None, **claims):
    content = {key: value for key, value in (GOOD | claims).items() if value is not Ellipsis}
    return check_claims(content, rules or TokenRules(), NOW_MS)


@pytest.mark.parametrize(
    ("rules", "claims"),
    [
        ({}, {}),
        ({}, {"scope": "a b", "aud": "x", "iss": "y"}),
        ({}, {"scope": ["a", "b"], "nbf": NOW_S}),
        ({}, {"iat": NOW_S + 30}),
        ({}, {"nbf": NOW_S + 30}),
        ({}, {"iat": float(NOW_S) - 0.5}),
        ({"audiences": ("a", "b")}, {"aud": "b"}),
        ({"audiences": ("a", "b")}, {"aud": ["x", "a"]}),
        ({"issuer": "https://us"}, {"iss": "https://us"}),
    ],
)
def test_believed(rules, claims):
    assert check(TokenRules(**rules), **claims) == ("alice", (NOW_S + 600) * 1000)


@pytest.mark.parametrize(
    ("rules", "claims", "text"),
    [
        ({}, {"exp": ...}, "it has no exp"),
        ({}, {"iat": ...}, "it has no iat"),
        ({}, {"sub": ...}, "it names no user"),
        ({}, {"sub": ""}, "it names no user"),
        ({}, {"sub": " "}, "it names no user"),
        ({}, {"sub": None}, "it names no user"),
        ({}, {"sub": 7}, "it names no user"),
        ({}, {"sub": ["alice"]}, "it names no user"),
        ({}, {"sub": "a" * 1025}, "it names no user"),
        ({}, {"exp": NOW_S - 30}, "it expired 30 s ago"),
        ({}, {"exp": NOW_S + 1, "iat": NOW_S + 2}, "expired before it was issued"),
        ({}, {"exp": NOW_S + 99, "iat": NOW_S + 31}, "issued in 31 s"),
        ({}, {"nbf": NOW_S + 31}, "not valid yet"),
        ({}, {"nbf": None}, "it has no nbf"),
        ({}, {"exp": True}, "exp is no number"),
        ({}, {"exp": str(NOW_S + 600)}, "exp is no number"),
        ({}, {"exp": float("nan")}, "exp is no time"),
        ({}, {"exp": float("inf")}, "exp is no time"),
        ({}, {"exp": 1 << 60}, "exp is no time"),
        ({}, {"exp": 10**4000}, "exp is no time"),
        ({}, {"iat": -1}, "iat is no time"),
        ({}, {"scope": 7}, "scope is no text"),
        ({}, {"scope": ["a", 7]}, "scope is no text"),
        ({"audiences": ("a",)}, {}, "aud is no text"),
        ({"audiences": ("a",)}, {"aud": "b"}, "is none of a"),
        ({"audiences": ("a",)}, {"aud": []}, "is none of a"),
        ({"audiences": ("a",)}, {"aud": {"a": 1}}, "aud is no text"),
        ({"issuer": "us"}, {}, "is not us"),
        ({"issuer": "us"}, {"iss": "us "}, "is not us"),
        ({"issuer": "us"}, {"iss": ["us"]}, "is not us"),
        ({"sub_claim": "email"}, {}, "email is no text"),
    ],
)
def test_refused(rules, claims, text):
    with pytest.raises(TokenRefused, match=text):
        check(TokenRules(**rules), **claims)


def test_a_name_from_another_claim():
    assert check(TokenRules(sub_claim="email"), email="a@b").user == "a@b"


def test_a_token_within_the_skew_holds_until_the_skew_is_over():
    assert check(exp=NOW_S - 20, iat=NOW_S - 30).expires_at_ms == NOW_MS + 10_000


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=6,
)
NAMES = st.sampled_from(["sub", "exp", "iat", "nbf", "aud", "iss", "scope"])


@given(claims=st.dictionaries(NAMES, JSON | st.just(NOW_S)))
@settings(max_examples=examples(500), deadline=1_000)
def test_any_claims_are_believed_or_refused(claims):
    rules = TokenRules(audiences=("a",), issuer="us")
    text = json.loads(json.dumps(claims))
    try:
        believed = check_claims(text, rules, NOW_MS)
    except TokenRefused:
        return
    assert text["iss"] == "us"
    assert "a" in text["aud"]
    assert believed.user == text["sub"]
    assert believed.expires_at_ms > NOW_MS
