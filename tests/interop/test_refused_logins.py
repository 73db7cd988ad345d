"""Logins that are refused, and frames out of turn: the same to Apache Kafka 4.3 and to Barnabas.

One table of conversations. Each is held with both brokers; what is compared is each answer (codes,
texts, lists) and whether the connection is open at the end. Where a row names `ours`, Barnabas
answers otherwise on purpose (docs/unsupported.md), and Kafka's own answer is checked to differ.
"""

import json
import os
import socket
import struct
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from jwt.algorithms import ECAlgorithm

from protocol.messages.api_versions import ApiVersionsRequest
from protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from protocol.scram import prove, read_server_first, salted_password, unproven_final
from tests.interop.oracle.kafka import KafkaNode, free_ports, libs
from tests.interop.test_users import users
from tests.support.broker_process import BrokerProcess
from tests.support.login_rig import frame_of, read

pytestmark = pytest.mark.interop

TIMEOUT_S = 20
PLAIN, SCRAM, BEARER = "PLAIN", "SCRAM-SHA-256", "OAUTHBEARER"
SASL = "org.apache.kafka.common.security"
CALLBACK = f"{SASL}.oauthbearer.OAuthBearerValidatorCallbackHandler"
PASSWORD = "scarlet-secret"  # of the SCRAM user `scarlet`
KEY, OTHER_KEY = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
REAUTH_MS = 1_500
CLOSED = "closed"


class Talk:
    """One connection to one broker, and what has been said on it."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), TIMEOUT_S)
        self.told: list[object] = []

    def send(self, data: bytes) -> bytes:
        """Send bytes, and return the frame that answers them; empty: closed."""
        try:
            self.socket.sendall(data)
            size = self._read(4)
            return size + self._read(struct.unpack(">i", size)[0]) if size else b""
        except ConnectionError:
            return b""

    def _read(self, size: int) -> bytes:
        found = b""
        while len(found) < size:
            part = self.socket.recv(size - len(found))
            if not part:
                return b""
            found += part
        return found

    def ask(self, body: Any, version: int, response: type[Any]) -> Any:
        answer = self.send(frame_of(body, version))
        return read(answer, response, version) if answer else None

    def handshake(self, mechanism: str = PLAIN, version: int = 1) -> None:
        body = SaslHandshakeRequest(mechanism=mechanism)
        answer = self.ask(body, version, SaslHandshakeResponse)
        if answer is None:
            self.told.append(CLOSED)
        else:
            self.told.append(("handshake", answer.error_code, sorted(answer.mechanisms)))

    def token(self, token: bytes, version: int = 1) -> bytes:
        body = SaslAuthenticateRequest(auth_bytes=token)
        answer = self.ask(body, version, SaslAuthenticateResponse)
        if answer is None:
            self.told.append(CLOSED)
            return b""
        secret = answer.auth_bytes[:2] in (b"r=", b"v=")  # random
        shown = answer.auth_bytes[:2] if secret else answer.auth_bytes
        self.told.append((answer.error_code, answer.error_message, bytes(shown)))
        return bytes(answer.auth_bytes)

    def metadata(self, *names: str) -> None:
        body = MetadataRequest(topics=[MetadataRequestTopic(name=name) for name in names])
        answer = self.ask(body, 1, MetadataResponse)
        self.told.append(
            CLOSED if answer is None else [("metadata", one.error_code) for one in answer.topics]
        )

    def raw(self, data: bytes) -> None:
        self.told.append(self.send(data)[8:] or CLOSED)

    def end(self) -> None:
        """Tell whether the broker closes now."""
        self.socket.settimeout(1.5)
        try:
            self.told.append(CLOSED if self.socket.recv(1) == b"" else "more")
        except TimeoutError:
            self.told.append("open")
        except ConnectionError:
            self.told.append(CLOSED)
        self.socket.close()


class Row(NamedTuple):
    """One conversation; `again` is for the listener where logins end."""

    name: str
    talk: Callable[[Talk], None]
    ours: list[object] | None = None
    again: bool = False


def plain(user: str, password: str, authzid: str = "") -> bytes:
    return f"{authzid}\0{user}\0{password}".encode()


def of_plain(name: str, token: bytes, version: int = 1) -> Row:
    def talk(one: Talk) -> None:
        one.handshake(PLAIN)
        one.token(token, version)

    return Row(f"PLAIN: {name}", talk)


GOOD_PLAIN = plain("alice", "alice-secret")
SCRAM_TEXT = (
    "Authentication failed during authentication due to invalid credentials with SASL mechanism "
    + SCRAM
)
REFUSED = (58, SCRAM_TEXT, b"")
BEGUN: list[object] = [("handshake", 0, [BEARER, PLAIN, SCRAM]), (0, "", b"r=")]


class Scram(NamedTuple):
    """How a client of SCRAM behaves."""

    password: str = PASSWORD
    user: str = "scarlet"
    header: str = "n,,"
    rest: str = ""
    nonce: Callable[[str], str] = str
    binding: str = ""
    proof: Callable[[bytes], bytes] = bytes


def of_scram(name: str, ours: list[object] | None = None, **changed: Any) -> Row:
    def talk(one: Talk) -> None:
        how = Scram(**changed)
        one.handshake(SCRAM)
        first = f"n={how.user},r=abc{how.rest}"
        answer = one.token(f"{how.header}{first}".encode())
        if not answer:
            return
        server = read_server_first(answer)
        unproven = unproven_final(how.nonce(server.nonce), how.binding or how.header)
        salted = salted_password(SCRAM, how.password, server.salt, server.iterations)
        proof = prove(SCRAM, salted, first, answer, unproven)
        one.token(proof._replace(proof=how.proof(proof.proof)).message)

    return Row(f"SCRAM: {name}", talk, ours)


def claims(**changed: Any) -> dict[str, Any]:
    now = int(time.time())
    found = {"sub": "alice", "iat": now - 5, "exp": now + 3600, "aud": "kafka", "iss": "us"}
    return {key: value for key, value in {**found, **changed}.items() if value is not None}


def signed(key: Any = KEY, algorithm: str = "ES256", kid: str = "one", **changed: Any) -> str:
    return jwt.api_jws.encode(
        json.dumps(claims(**changed)).encode(), key, algorithm, headers={"kid": kid}
    )


def hmac_by_public_key() -> str:
    public = KEY.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    head = jwt.utils.base64url_encode(json.dumps({"alg": "HS256", "kid": "one"}).encode())
    body = jwt.utils.base64url_encode(json.dumps(claims()).encode())
    signature = jwt.algorithms.get_default_algorithms()["HS256"].sign(head + b"." + body, public)
    return b".".join([head, body, jwt.utils.base64url_encode(signature)]).decode()


def of_token(name: str, token: Callable[[], str], ours: list[object] | None = None) -> Row:
    def talk(one: Talk) -> None:
        one.handshake(BEARER)
        if one.token(f"n,,\1auth=Bearer {token()}\1\1".encode()):
            one.token(b"\1")

    return Row(f"token: {name}", talk, ours)


def out_of_turn(name: str, *steps: Callable[[Talk], object]) -> Row:
    def talk(one: Talk) -> None:
        for step in steps:
            step(one)

    return Row(name, talk)


def again(name: str, mechanism: str, token: bytes, ours: list[object] | None = None) -> Row:
    def talk(one: Talk) -> None:
        one.handshake(PLAIN)
        body = SaslAuthenticateRequest(auth_bytes=GOOD_PLAIN)
        one.told.append(one.ask(body, 1, SaslAuthenticateResponse).session_lifetime_ms)
        time.sleep(1.1)  # a login again comes at most once a second
        one.handshake(mechanism)
        if one.told[-1] != CLOSED:
            one.token(token)

    return Row(f"again: {name}", talk, ours, again=True)


def after_the_end(one: Talk) -> None:
    one.handshake(PLAIN)
    one.token(GOOD_PLAIN)
    one.metadata()
    time.sleep(REAUTH_MS / 1000 + 0.5)
    one.metadata()


HANDSHAKE = frame_of(SaslHandshakeRequest(mechanism=PLAIN), 1)
LATER = HANDSHAKE.replace(b"\0\x11\0\1", b"\0\x11\0\2")
METADATA = frame_of(MetadataRequest(topics=[]), 1)
VERSIONS = frame_of(ApiVersionsRequest(), 0)
NOW = time.time()

ROWS = [
    of_plain("right", GOOD_PLAIN),
    of_plain("right, authzid", plain("alice", "alice-secret", "alice")),
    of_plain("wrong password", plain("alice", "wrong")),
    of_plain("wrong password, version 2", plain("alice", "wrong"), 2),
    of_plain("unknown user", plain("nobody", "wrong")),
    of_plain("a user of SCRAM only", plain("scarlet", PASSWORD)),
    of_plain("no user", plain("", "x")),
    of_plain("no password", plain("alice", "")),
    of_plain("authzid of another", plain("alice", "alice-secret", "bob")),
    of_plain("two parts", b"alice\0alice-secret"),
    of_plain("four parts", b"\0alice\0alice-secret\0x"),
    of_scram("right"),
    of_scram("extension", rest=",foo=bar"),
    of_scram("authzid", header="n,a=scarlet,"),
    of_scram("wrong password", password="wrong"),
    of_scram("authzid of another", header="n,a=alice,"),
    of_scram("channel binding", header="p=tls-unique,,"),
    of_scram("client could bind", header="y,,"),
    of_scram("nonce with more", nonce=lambda one: one + "x"),
    of_scram("nonce of the client alone", nonce=lambda one: "abc"),
    of_scram("junk before the nonce", nonce=lambda one: "x" + one),
    # Ours: to the last step, and each with the text of a wrong password.
    of_scram("unknown user", [*BEGUN, REFUSED], user="nobody"),
    of_scram("another binding", [*BEGUN, REFUSED], binding="y,,"),
    of_scram("short proof", [*BEGUN, REFUSED], proof=lambda one: one[:5]),
    of_token("right", signed),
    of_token("no key id", lambda: jwt.encode(claims(), KEY, "ES256")),
    of_token("audience in a list", lambda: signed(aud=["x", "kafka"])),
    of_token("unsigned", lambda: jwt.encode(claims(), None, "none")),
    of_token("HMAC by the public key", hmac_by_public_key),
    of_token("another key", lambda: signed(OTHER_KEY)),
    of_token("unknown key id", lambda: signed(kid="two")),
    of_token("another audience", lambda: signed(aud="web")),
    of_token("another issuer", lambda: signed(iss="them")),
    of_token("expired", lambda: signed(exp=int(NOW) - 60, iat=int(NOW) - 90)),
    of_token("no sub", lambda: signed(sub=None)),
    of_token("no exp", lambda: signed(exp=None)),
    of_token("no iat", lambda: signed(iat=None)),
    of_token("not yet", lambda: signed(nbf=int(NOW) + 3600)),
    of_token("garbage", lambda: "a.b.c"),
    out_of_turn("unknown mechanism", lambda one: one.handshake("GSSAPI")),
    out_of_turn("second handshake", Talk.handshake, Talk.handshake),
    out_of_turn("a request before the handshake", lambda one: one.raw(METADATA)),
    out_of_turn("a token before the handshake", lambda one: one.token(GOOD_PLAIN)),
    out_of_turn("a request after the handshake", Talk.handshake, lambda one: one.metadata("t")),
    out_of_turn("handshake of version 2", lambda one: one.raw(LATER)),
    out_of_turn(
        "two ApiVersions", lambda one: one.send(VERSIONS), lambda one: one.raw(VERSIONS)
    ),
    out_of_turn("size 0", lambda one: one.raw(struct.pack(">i", 0))),
    out_of_turn("size -1", lambda one: one.raw(struct.pack(">i", -1))),
    out_of_turn("HTTP", lambda one: one.raw(b"GET / HTTP/1.1\r\n\r\n")),
    out_of_turn(
        "a wrong bare token",
        lambda one: one.handshake(PLAIN, 0),
        lambda one: one.raw(struct.pack(">i", 5) + b"\0a\0b\0"[:5]),
    ),
    out_of_turn(
        "a token after the login", Talk.handshake, lambda one: one.token(GOOD_PLAIN),
        lambda one: one.token(GOOD_PLAIN),
    ),
    out_of_turn(
        "a handshake after the login", Talk.handshake, lambda one: one.token(GOOD_PLAIN),
        Talk.handshake,
    ),
    again("same user", PLAIN, GOOD_PLAIN),
    again("another user", PLAIN, plain("bob", "bob-secret")),
    again("wrong password", PLAIN, plain("alice", "wrong")),
    again("another mechanism", SCRAM, b"n,,n=scarlet,r=abc"),
    Row("again: a request after the session", after_the_end, again=True),
]  # fmt: skip


def _settings(keys: Path, kafka_too: bool) -> dict[str, str]:
    found = {
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,"
        "LOGIN:SASL_PLAINTEXT,AGAIN:SASL_PLAINTEXT",
        "sasl.enabled.mechanisms": f"{PLAIN},{SCRAM},{BEARER}",
        "sasl.oauthbearer.jwks.endpoint.url": keys.as_uri(),
        "sasl.oauthbearer.expected.audience": "kafka",
        "sasl.oauthbearer.expected.issuer": "us",
    }
    for name in ("login", "again"):
        prefix = f"listener.name.{name}"
        found[f"{prefix}.plain.sasl.jaas.config"] = (
            f"{SASL}.plain.PlainLoginModule required"
            ' user_alice="alice-secret" user_bob="bob-secret";'
        )
        if kafka_too:
            bearer = f"{prefix}.oauthbearer.sasl"
            found |= {
                f"{prefix}.{SCRAM.lower()}.sasl.jaas.config": (
                    f"{SASL}.scram.ScramLoginModule required;"
                ),
                f"{bearer}.jaas.config": f"{SASL}.oauthbearer.OAuthBearerLoginModule required;",
                f"{bearer}.server.callback.handler.class": CALLBACK,
            }
        again_ms = REAUTH_MS if name == "again" else 0
        for mechanism in (PLAIN, SCRAM, BEARER):
            key = f"{prefix}.{mechanism.lower()}.connections.max.reauth.ms"
            found[key] = str(again_ms)
    return found


@pytest.fixture(scope="module")
def ports(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[dict[bool, int]]]:
    """The ports of Kafka and of ours, by whether logins end there."""
    libs()
    directory = tmp_path_factory.mktemp("logins")
    keys = directory / "keys.json"
    public = {**ECAlgorithm.to_jwk(KEY.public_key(), as_dict=True), "kid": "one", "use": "sig"}
    public.pop("key_ops", None)
    keys.write_text(json.dumps({"keys": [public]}))
    found = [dict(zip((False, True), free_ports(2), strict=True)) for _ in range(2)]
    opened = [f"LOGIN://127.0.0.1:{one[False]},AGAIN://127.0.0.1:{one[True]}" for one in found]
    kafka = KafkaNode(directory / "kafka", settings=_settings(keys, kafka_too=True))
    kafka.add_listeners(opened[0])
    ours = BrokerProcess(directory / "ours", _settings(keys, kafka_too=False))
    ours.settings["listeners"] = f"PLAINTEXT://{ours.address},{opened[1]}"
    allowed = f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={keys.as_uri()}"
    brokers = [kafka, ours]
    try:
        for broker in brokers:
            with pytest.MonkeyPatch.context() as patch:
                patch.setitem(os.environ, "JAVA_TOOL_OPTIONS", allowed)
                broker.start()
            words = ("add", "scarlet", "--mechanism", SCRAM, "--password-file", "-")
            users(*words, "--bootstrap", broker.address, given=PASSWORD)
        yield found
    finally:
        for broker in brokers:
            if broker.running:
                broker.kill()


def held(row: Row, port: int) -> list[object]:
    talk = Talk(port)
    row.talk(talk)
    talk.end()
    return talk.told


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_a_login_ends_as_kafkas(ports: list[dict[bool, int]], row: Row) -> None:
    kafkas, ours = (held(row, one[row.again]) for one in ports)
    if row.ours is None:
        assert ours == kafkas
    else:
        assert ours == [*row.ours, CLOSED]
        assert ours != kafkas  # else the difference is gone
