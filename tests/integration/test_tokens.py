"""Clients that log in with tokens: a key set in a file, a session that ends with its token."""

import base64
import json
import time
from collections.abc import Callable
from pathlib import Path

import jwt
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from cryptography.hazmat.primitives.asymmetric import ec
from jwt.algorithms import ECAlgorithm

from tests.support import warm_process
from tests.support.broker_process import BrokerProcess, free_port
from tests.support.patience import Limit

KEY, OTHER = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
URL = "sasl.oauthbearer.jwks.endpoint.url"


def write_keys(path: Path) -> None:
    public = {**ECAlgorithm.to_jwk(KEY.public_key(), as_dict=True), "kid": "one", "use": "sig"}
    public.pop("key_ops", None)
    path.write_text(json.dumps({"keys": [public]}))


def token(key: ec.EllipticCurvePrivateKey = KEY, **more: object) -> str:
    now = int(time.time())
    claims = {"sub": "alice", "iat": now, "exp": now + 600, "aud": "kafka", **more}
    return jwt.encode(claims, key, "ES256", headers={"kid": "one"})


def unsigned() -> str:
    now = int(time.time())
    parts = ({"alg": "none"}, {"sub": "alice", "iat": now, "exp": now + 600, "aud": "kafka"})
    texts = [base64.urlsafe_b64encode(json.dumps(one).encode()).rstrip(b"=") for one in parts]
    return b".".join([*texts, b""]).decode()


class TokenBroker(BrokerProcess):
    """A broker with one listener, on which clients log in with tokens."""

    def __init__(self, data: Path, **settings: str) -> None:
        super().__init__(data, settings, port=free_port())
        self.settings |= {
            "listeners": f"SASL_PLAINTEXT://{self.host}:{self.port}",
            "sasl.enabled.mechanisms": "OAUTHBEARER",
        }


def may_log_in(broker: BrokerProcess, made: Callable[[], str]) -> bool:
    errors: list[object] = []
    client = AdminClient(
        {
            "bootstrap.servers": broker.address,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "OAUTHBEARER",
            "oauth_cb": lambda _: (made(), time.time() + 600),
            "error_cb": errors.append,
        }
    )
    limit = Limit(60)
    while not limit.is_over:
        client.poll(0.05)  # asks for the token, and hands over the errors
        try:
            client.list_topics(timeout=0.5)
        except KafkaException:
            if "invalid_token" in str(errors):
                return False
        else:
            return True
    raise AssertionError(f"neither logged in nor refused: {errors}")


def test_only_signed_tokens_for_us_let_a_client_in(tmp_path: Path) -> None:
    write_keys(tmp_path / "keys.json")
    keys = {URL: str(tmp_path / "keys.json"), "sasl.oauthbearer.expected.audience": "kafka"}
    with TokenBroker(tmp_path / "data", **keys) as broker:
        assert may_log_in(broker, token)
        assert not may_log_in(broker, lambda: token(OTHER))
        assert not may_log_in(broker, lambda: token(aud="web"))
        assert not may_log_in(broker, unsigned)
        output = broker.output()
    assert "its signature is wrong" in output
    assert "its audience (aud) is none of kafka" in output
    assert token().split(".")[0] not in output, "no part of a token is logged"


def test_unsigned_tokens_by_a_key_of_their_own(tmp_path: Path) -> None:
    unsecured = {"barnabas.sasl.oauthbearer.unsecured": "true"}
    with TokenBroker(tmp_path / "data", **unsecured) as broker:
        assert may_log_in(broker, unsigned)
        assert not may_log_in(broker, token)
    assert "anybody may be anybody" in broker.output()


def test_a_broker_without_its_keys_does_not_start(tmp_path: Path) -> None:
    for settings, text in (
        ({URL: str(tmp_path / "no.json")}, "no.json cannot be used: No such file"),
        ({}, "OAUTHBEARER has no keys to check tokens with"),
    ):
        broker = TokenBroker(tmp_path / "data", **settings)
        done = warm_process.run(broker.command())
        assert done.returncode != 0
        assert text in (done.stdout + done.stderr).decode()
