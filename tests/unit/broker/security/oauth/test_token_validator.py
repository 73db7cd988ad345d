"""Tokens: which are believed, and that none is but for a signature by a key of the set."""

import asyncio
import base64
import json

import jwt
import pytest
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from hypothesis import given, settings
from hypothesis import strategies as st

from broker.security.oauth.key_set import read_key_set
from broker.security.oauth.key_source import KeySource
from broker.security.oauth.token_rules import TokenRefused, TokenRules
from broker.security.oauth.token_validator import SignedTokens, UnsecuredTokens, split_token
from tests.support.thorough import examples
from tests.unit.broker.security.oauth.tokens import (
    CLAIMS,
    KEYS,
    NOW_S,
    jwk,
    key_set,
    part,
    token,
    unsecured,
)  # fmt: skip


async def run(_call):
    return KEY_SET


KEY_SET = read_key_set(key_set())
RULES = TokenRules(audiences=("kafka",), issuer="us")
ROOT = {"sub": "root"}
GOOD = {"aud": "kafka", "iss": "us"}


def believed(text, rules=RULES):
    async def ask():
        source = KeySource("x", 3_600_000, run, lambda: 0)
        return await SignedTokens(source, rules, lambda: NOW_S * 1000).validate(text)

    return asyncio.run(ask())


@pytest.mark.parametrize("name", list(KEYS))
def test_signed_by_each_type_of_key(name):
    assert believed(token(name, **GOOD)) == ("alice", (NOW_S + 600) * 1000)


@pytest.mark.parametrize("algorithm", ["RS384", "RS512", "PS256", "PS384", "PS512"])
def test_the_algorithms_of_an_rsa_key(algorithm):
    assert believed(token(algorithm=algorithm, **GOOD)).user == "alice"


def test_without_a_key_id_the_keys_of_the_algorithm_are_tried():
    signed = jwt.encode(CLAIMS | GOOD, KEYS["p384"][1], "ES384")
    assert believed(signed).user == "alice"


def forged():
    """Tokens that are no better than their claims, by what is wrong with each."""
    pem = KEYS["rsa"][1].public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    claims = part(CLAIMS | GOOD)
    good = token(**GOOD)
    head, body, signature = good.split(".")
    other = jwt.algorithms.get_default_algorithms()["HS256"]
    hmac_head = part({"alg": "HS256", "kid": "rsa"})
    by_modulus = other.sign(f"{hmac_head}.{claims}".encode(), pem)
    text = base64.urlsafe_b64encode(by_modulus).rstrip(b"=").decode()
    brought = jwk("p256")
    return {
        "unsigned": (unsecured(**GOOD), "algorithm"),
        "unsigned, None": (f"{part({'alg': 'None'})}.{claims}.", "algorithm"),
        "unsigned, null": (f"{part({'alg': None})}.{claims}.", "algorithm"),
        "unsigned, list": (f"{part({'alg': ['RS256']})}.{claims}.", "algorithm"),
        "no algorithm": (f"{part({})}.{claims}.{signature}", "algorithm"),
        "HMAC by the public key": (f"{hmac_head}.{claims}.{text}", "algorithm"),
        "no signature": (f"{head}.{body}.", "signature"),
        "cut signature": (good[:-4], "signature"),
        "other claims": (f"{head}.{part(CLAIMS | GOOD | ROOT)}.{signature}", "signature"),
        "another key's id": (token("p256", headers={"kid": "p384"}, **GOOD), "no key"),
        "unknown kid": (token(headers={"kid": "no"}, **GOOD), "no key"),
        "kid is no text": (token_with({"kid": 7}), "kid"),
        "a key of its own": (
            token_with({"kid": "rsa", "jwk": brought, "alg": "ES256"}, signature), "no key",
        ),
        "extensions": (token_with({"kid": "rsa", "alg": "RS256", "crit": ["exp"]}), "crit"),
        "two parts": (f"{head}.{body}", "2 parts"),
        "four parts": (f"{good}.x", "4 parts"),
        "five parts, encrypted": ("a.b.c.d.e", "5 parts"),
        "header is a list": (f"{part([])}.{body}.{signature}", "header"),
        "spaces": (good.replace(".", " ."), "Base64"),
        "standard Base64": (f"{head}.+/+/.{signature}", "Base64"),
        "too long": ("a" * 32_769, "longer"),
        "empty": ("", "1 parts"),
        "expired": (token(exp=NOW_S - 31, **GOOD), "expired"),
        "another issuer": (token(aud="kafka", iss="them"), "issuer"),
        "another audience": (token(aud="web", iss="us"), "audience"),
        "no iat": (token(iat=None, **GOOD), "iat"),
        "no exp": (token(exp=None, **GOOD), "exp"),
        "no sub": (token(sub=None, **GOOD), "user"),
    }  # fmt: skip


def token_with(header, signature="c2lnbg"):
    return f"{part({'alg': 'RS256', **header})}.{part(CLAIMS | GOOD)}.{signature}"


@pytest.mark.parametrize("name", list(forged()))
def test_refused(name):
    text, reason = forged()[name]
    with pytest.raises(TokenRefused, match=reason) as refused:
        believed(text)
    assert "alice" not in str(refused.value)


def test_the_last_bits_of_a_signature_count():
    """Base64 ignores the last bits of some texts: another text of the same signature is no harm."""
    good = token(**GOOD)
    for position in range(len(good) - 12, len(good)):
        changed = good[:position] + ("A" if good[position] != "A" else "B") + good[position + 1 :]
        try:
            user = believed(changed).user
        except TokenRefused:
            continue
        assert user == "alice"
        assert position == len(good) - 1


@pytest.mark.parametrize("text", [unsecured(), unsecured(sub="root")])
def test_unsecured_tokens_by_a_key_of_their_own(text):
    validator = UnsecuredTokens(TokenRules(), lambda: NOW_S * 1000)
    assert asyncio.run(validator.validate(text)).user in ("alice", "root")
    for refused in (token(), text[:-1] + ".x", f"{text[:-1]}"):
        with pytest.raises(TokenRefused):
            asyncio.run(validator.validate(refused))


GOOD_TOKEN = token(**GOOD)
TEXTS = st.one_of(
    st.text(max_size=60),
    st.text("abcXYZ0189_-.=", max_size=80),
    st.tuples(st.integers(0, len(GOOD_TOKEN) - 1), st.integers(0, 3), st.text(max_size=3)).map(
        lambda at: GOOD_TOKEN[: at[0]] + at[2] + GOOD_TOKEN[at[0] + at[1] :]
    ),
    st.dictionaries(
        st.sampled_from(["alg", "kid", "crit", "b64", "jwk", "typ"]),
        st.sampled_from(["none", "HS256", "RS256", "ES256", "rsa", "", None, False, ["RS256"]]),
    ).map(token_with),
)


@given(text=TEXTS)
@settings(max_examples=examples(500), deadline=2_000)
def test_no_text_is_believed_but_the_good_one(text):
    try:
        who = believed(text)
    except TokenRefused:
        return
    assert who.user == "alice"
    assert split_token(text)[1] == json.loads(json.dumps(CLAIMS | GOOD))
