"""Keys of key sets: which algorithms each may verify, and sets that cannot be used."""

import contextlib
import json

import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from hypothesis import given, settings
from hypothesis import strategies as st
from jwt.algorithms import RSAAlgorithm

from broker.security.oauth.key_set import RSA, KeySetError, algorithms_of, read_key_set
from tests.support.thorough import examples
from tests.unit.broker.security.oauth.tokens import jwk, key_set


def test_keys_are_found_by_id_and_algorithm():
    keys = read_key_set(key_set())
    assert len(keys) == 4
    assert [one.kid for one in keys.matching("rsa", "PS512")] == ["rsa"]
    assert [one.kid for one in keys.matching(None, "ES256")] == ["p256"]
    assert keys.matching("rsa", "ES256") == []
    assert keys.matching("no", "RS256") == []
    assert keys.matching(None, "HS256") == keys.matching(None, "none") == []


@pytest.mark.parametrize(
    ("key", "algorithms"),
    [
        ({"kty": "RSA"}, set(RSA)),
        ({"kty": "RSA", "alg": "RS256"}, {"RS256"}),
        ({"kty": "RSA", "alg": "HS256"}, set()),
        ({"kty": "RSA", "alg": "none"}, set()),
        ({"kty": "RSA", "use": "enc"}, set()),
        ({"kty": "RSA", "use": "sig", "key_ops": ["verify"]}, set(RSA)),
        ({"kty": "RSA", "key_ops": ["encrypt"]}, set()),
        ({"kty": "RSA", "key_ops": "verify"}, set()),
        ({"kty": "EC", "crv": "P-256"}, {"ES256"}),
        ({"kty": "EC", "crv": "secp256k1"}, set()),
        ({"kty": "EC", "crv": ["P-256"]}, set()),
        ({"kty": "OKP", "crv": "Ed25519"}, {"EdDSA"}),
        ({"kty": "oct", "k": "c2VjcmV0"}, set()),
        ({}, set()),
    ],
)
def test_algorithms_are_those_of_the_type(key, algorithms):
    assert algorithms_of(key) == algorithms


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"", "no JSON"),
        (b"[" * 100_000, "no JSON"),
        (b"[]", 'no list "keys"'),
        (b'{"keys": {}}', 'no list "keys"'),
        (b'{"keys": []}', "none of its 0 keys"),
        (b'{"keys": [7, null, {"kty": "RSA"}, {"kty": "EC", "crv": "P-256", "x": 1}]}', "of its 4"),
        (json.dumps({"keys": [{}] * 101}).encode(), "has 101 keys"),
    ],
)
def test_refused_sets(data, text):
    with pytest.raises(KeySetError, match=text):
        read_key_set(data)


def test_short_keys_and_secrets_are_left_out():
    short = RSAAlgorithm.to_jwk(rsa.generate_private_key(65537, 1024).public_key(), as_dict=True)
    short.pop("key_ops", None)
    secret = {"kty": "oct", "k": "c2VjcmV0", "alg": "HS256", "kid": "rsa"}
    keys = read_key_set(key_set(short, secret, jwk("rsa")))
    assert len(keys) == 1


@given(
    data=st.binary(max_size=200)
    | st.recursive(
        st.none() | st.text(max_size=5) | st.sampled_from(["RSA", "EC", "P-256", "AQAB"]),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(["keys", "kty", "crv", "n", "e", "x", "y", "alg", "kid"]), inner
            )
        ),
        max_leaves=8,
    ).map(lambda value: json.dumps({"keys": [value]}).encode())
)
@settings(max_examples=examples(300), deadline=1_000)
def test_any_bytes_are_a_set_or_refused(data):
    with contextlib.suppress(KeySetError):
        assert len(read_key_set(data)) > 0
