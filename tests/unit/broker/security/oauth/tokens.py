"""A provider of tokens: keys, their public set, and tokens signed with them."""

import base64
import json

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from jwt.algorithms import get_default_algorithms

NOW_S = 1_700_000_000
CLAIMS = {"sub": "alice", "iat": NOW_S - 10, "exp": NOW_S + 600}

KEYS = {
    "rsa": ("RS256", rsa.generate_private_key(65537, 2048)),
    "p256": ("ES256", ec.generate_private_key(ec.SECP256R1())),
    "p384": ("ES384", ec.generate_private_key(ec.SECP384R1())),
    "ed": ("EdDSA", ed25519.Ed25519PrivateKey.generate()),
}


def jwk(name, **more):
    algorithm, key = KEYS[name]
    made = get_default_algorithms()[algorithm].to_jwk(key.public_key(), as_dict=True)
    made.pop("key_ops", None)
    return {**made, "kid": name, **more}


def key_set(*keys):
    return json.dumps({"keys": list(keys or map(jwk, KEYS))}).encode()


def token(name="rsa", *, algorithm=None, headers=None, **claims):
    """A token signed with a key; a claim of None is left out."""
    own, key = KEYS[name]
    content = {key: value for key, value in (CLAIMS | claims).items() if value is not None}
    return jwt.api_jws.encode(
        json.dumps(content).encode(),
        key,
        algorithm or own,
        headers={"kid": name, **(headers or {})},
    )


def part(content):
    return base64.urlsafe_b64encode(json.dumps(content).encode()).rstrip(b"=").decode()


def unsecured(**claims):
    return f"{part({'alg': 'none'})}.{part(CLAIMS | claims)}."
