"""A broker with each kind of locked listener, and the ways into it, right and wrong ones.

alice is a user of the configuration for PLAIN, a SCRAM user that the command line has added, and
the subject of a token and of a certificate.
"""

import json
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import jwt
from cryptography.hazmat.primitives.asymmetric import ec
from jwt.algorithms import ECAlgorithm

from tests.support.broker_process import BARNABAS, BrokerProcess, free_port
from tests.support.certificates import Authority, Issued

USER = "alice"
PASSWORD = "pass,=word \N{SNOWMAN}"
SCRAM = ("SCRAM-SHA-256", "SCRAM-SHA-512")
OAUTHBEARER = "OAUTHBEARER"
MECHANISMS = ("PLAIN", *SCRAM, OAUTHBEARER)
MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
LISTENERS = {"TLS": "SSL", "MUTUAL": "SSL", "LOGIN": "SASL_PLAINTEXT", "LOCKED": "SASL_SSL"}


class Way(NamedTuple):
    """How a client reaches a listener, and the same one of the msgpack dialect."""

    name: str
    address: str
    msgpack_address: str
    protocol: str
    mechanism: str  # "" for none
    secret: str  # a password, or the file of a token
    trusted: str
    own: Issued | None

    @property
    def has_tls(self) -> bool:
        return self.protocol.endswith("SSL")

    @property
    def line(self) -> str:
        """What the programs in other languages read."""
        own = self.own.store_file if self.own else ""
        parts = (
            *(self.name, self.address, self.protocol, self.mechanism, USER),
            *(self.secret, self.trusted, own),
        )
        return "\t".join(part or "-" for part in parts)

    def properties(self, path: Path) -> Path:
        """Write the file of our own command line."""
        lines = {"security.protocol": self.protocol, "ssl.truststore.location": self.trusted}
        if self.own is not None:
            lines["ssl.keystore.location"] = self.own.store_file
        if self.mechanism:
            lines["sasl.mechanism"] = self.mechanism
        if self.mechanism == OAUTHBEARER:
            lines["sasl.oauthbearer.token.endpoint.url"] = f"file://{self.secret}"
        elif self.mechanism:
            lines |= {"sasl.username": USER, "sasl.password": self.secret}
        path.write_text("".join(f"{key}={value}\n" for key, value in lines.items()))
        return path


class House(NamedTuple):
    """The broker, and the files of its clients."""

    broker: BrokerProcess
    directory: Path
    authority: Authority
    stranger: Authority
    ports: dict[str, int]
    own: Issued

    def way(self, name: str, listener: str, mechanism: str = "", secret: str = "") -> Way:
        return Way(
            name,
            f"localhost:{self.ports[listener]}",
            f"localhost:{self.ports[f'M_{listener}']}",
            LISTENERS[listener],
            mechanism,
            secret,
            self.authority.file,
            self.own if listener == "MUTUAL" else None,
        )

    def ways(self) -> list[Way]:
        """Return each right way."""
        found = [self.way("tls", "TLS"), self.way("mutual", "MUTUAL")]
        for listener in ("LOGIN", "LOCKED"):
            for mechanism in MECHANISMS:
                secret = self.token if mechanism == OAUTHBEARER else PASSWORD
                name = f"{listener.lower()}-{mechanism.lower()}"
                found.append(self.way(name, listener, mechanism, secret))
        return found

    def wrong_secrets(self) -> list[Way]:
        """Return each way with a secret that is not alice's."""
        return [
            self.way(
                f"wrong-{mechanism.lower()}",
                "LOCKED",
                mechanism,
                self.wrong_token if mechanism == OAUTHBEARER else "wrong",
            )
            for mechanism in MECHANISMS
        ]

    def wrong_authority(self) -> Way:
        """Return a way with trust in another authority."""
        return self.way("stranger", "TLS")._replace(trusted=self.stranger.file)

    @property
    def token(self) -> str:
        return str(self.directory / "token")

    @property
    def wrong_token(self) -> str:
        return str(self.directory / "wrong-token")


def refusal(mechanism: str) -> str:
    """Return the words of the broker that a client is to show for a wrong secret."""
    if mechanism == "PLAIN":
        return "Invalid username or password"
    if mechanism == OAUTHBEARER:
        return "invalid_token"
    return f"invalid credentials with SASL mechanism {mechanism}"


def _write_tokens(directory: Path) -> None:
    right, wrong = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    public = {**ECAlgorithm.to_jwk(right.public_key(), as_dict=True), "kid": "one", "use": "sig"}
    public.pop("key_ops", None)
    (directory / "keys.json").write_text(json.dumps({"keys": [public]}))
    now_s = int(time.time())
    claims = {"sub": USER, "iat": now_s, "exp": now_s + 3600, "aud": "kafka", "scope": "all"}
    for name, key in (("token", right), ("wrong-token", wrong)):
        (directory / name).write_text(jwt.encode(claims, key, "ES256", headers={"kid": "one"}))


@contextmanager
def secure_house(directory: Path) -> Iterator[House]:
    """Run the broker."""
    authority, stranger = Authority(directory / "ours"), Authority(directory / "theirs")
    own = authority.issue("broker", rsa_bits=2048)
    _write_tokens(directory)
    protocols = {**LISTENERS, **{f"M_{name}": f"MSGPACK_{of}" for name, of in LISTENERS.items()}}
    protocols["M_LOGIN"] = "MSGPACK_SASL"
    ports = {name: free_port() for name in protocols}
    named = ",".join(f"{name}:{protocol}" for name, protocol in protocols.items())
    jaas = f'{MODULE} required user_{USER}="{PASSWORD}";'
    broker = BrokerProcess(
        directory / "data",
        {
            "listener.security.protocol.map": f"PLAINTEXT:PLAINTEXT,{named}",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": own.store_file,
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": authority.file,
            "listener.name.mutual.ssl.client.auth": "required",
            "listener.name.m_mutual.ssl.client.auth": "required",
            "sasl.enabled.mechanisms": ",".join(MECHANISMS),
            "sasl.oauthbearer.jwks.endpoint.url": str(directory / "keys.json"),
            "sasl.oauthbearer.expected.audience": "kafka",
            "group.initial.rebalance.delay.ms": "0",
            **{
                f"listener.name.{name.lower()}.plain.sasl.jaas.config": jaas
                for name, protocol in protocols.items()
                if "SASL" in protocol
            },
        },
    )
    listeners = [f"{name}://localhost:{port}" for name, port in ports.items()]
    broker.settings["listeners"] = ",".join([f"PLAINTEXT://127.0.0.1:{broker.port}", *listeners])
    with broker:
        mechanisms = [word for one in SCRAM for word in ("--mechanism", one)]
        subprocess.run(
            [
                *(*BARNABAS, "users", "add", USER, *mechanisms, "--password-file", "-"),
                *("--bootstrap", broker.address),
            ],
            input=PASSWORD.encode(),
            check=True,
        )
        yield House(broker, directory, authority, stranger, ports, authority.issue(USER))
