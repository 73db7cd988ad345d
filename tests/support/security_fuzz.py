"""What strangers may send before they are known, nearly right: some in the suite, millions by hand.

    python -m tests.support.security_fuzz frames 1000000 [SEED]

feeds so many cases of one kind, or of all, and prints how they ended and how much memory they
leaked. A case must end in one of the ways that its parser names: any other exception is a crash.
None may be accepted as a login, since none holds a secret of a user.

    frames    streams of a connection whose client is not logged in
    maps      the same in msgpack
    scram     messages of SCRAM, for both sides
    tokens    JSON Web Tokens, made of those of a user
    rules     ssl.principal.mapping.rules, and the names they are asked for
    jaas      JAAS strings
    filters   filters of DescribeAcls, compared with a naive model
"""

from __future__ import annotations

import asyncio
import base64
import gc
import json
import logging
import random
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgpack

from broker.metadata.scram_image import ScramCredential
from broker.security.oauth.key_set import read_key_set
from broker.security.oauth.key_source import KeySource
from broker.security.oauth.token_rules import TokenRefused, TokenRules
from broker.security.oauth.token_validator import SignedTokens
from broker.security.principal_mapping import NoMatchingRule, PrincipalMapping, RuleError
from broker.security.sasl.mechanism import AuthenticationFailed, Reply
from broker.security.sasl.sasl_listeners import SaslListeners
from config.jaas import JaasError, parse_jaas
from config.sasl_settings import MechanismSettings, SaslSettings
from protocol.kafka.dialect import KafkaDialect
from protocol.msgpack.dialect import MsgpackDialect
from protocol.scram import (
    HASHES,
    ScramError,
    client_key,
    encoded,
    read_server_final,
    read_server_first,
    salted_password,
    server_key,
    stored_key,
)
from tests.support.acl_filter_fuzz import filters
from tests.support.bent import Ways, bent, bent_text
from tests.support.login_rig import ROWS, Rig, frame_of

USER, SECRET = "alice", "marked-secret"
Fuzzer = Callable[[random.Random, int], Ways]


def _hides(text: str) -> None:
    assert SECRET not in text, text


# -- logins ----------------------------------------------------------------------------------------


class _Directory:
    """One user."""

    def __init__(self) -> None:
        self._found = {}
        for mechanism in HASHES:
            salted = salted_password(mechanism, SECRET, b"salt", 4096)
            key = stored_key(mechanism, client_key(mechanism, salted))
            self._found[mechanism] = ScramCredential(
                b"salt", key, server_key(mechanism, salted), 4096
            )

    def scram(self, mechanism: str, user: str) -> ScramCredential | None:
        return self._found[mechanism] if user == USER else None

    def iterations(self, mechanism: str) -> list[int]:
        return [self._found[mechanism].iterations]

    def generation(self, user: str, mechanism: str = "") -> int | None:
        return 1


async def _at_once(call: Callable[[], bool]) -> bool:
    return call()


def _no_tokens(_: Any) -> Any:
    raise AssertionError("no listener has them")


def _listeners() -> SaslListeners:
    mechanisms = {
        name: MechanismSettings(
            name=name, max_reauth_ms=0, users={USER: SECRET} if name == "PLAIN" else None
        )
        for name in ("PLAIN", *HASHES)
    }
    settings = SaslSettings(listener="SASL", mechanisms=mechanisms, failed_delay_ms=0)
    randoms = random.Random(1).randbytes
    return SaslListeners({"SASL": settings}, _Directory(), randoms, _at_once, _no_tokens, b"mock")


def scram(source: random.Random, count: int) -> Ways:
    """Feed both messages of a login to the server, and answers of a server to the client."""
    listener = _listeners().of("SASL")
    size = {"SCRAM-SHA-256": 32, "SCRAM-SHA-512": 64}
    for number in range(count):
        mechanism = source.choice([*HASHES])
        login = listener.offers[mechanism].begin()
        name = source.choice((USER, "nobody", "a=2Cb", ""))
        first = source.choice(
            (
                f"n,,n={name},r=abc",
                f"n,a={name},n={name},r=abc,ext=1",
                f"y,,n={name},r=abc",
                f"n,,n={name},r=abc,tokenauth=true",
            )
        ).encode()
        try:
            reply = login.respond(bent(first, source) if number % 3 else first)
            assert isinstance(reply, Reply)
            assert reply.identity is None, first
            nonce = reply.token.partition(b",")[0]
            proof = source.choice((bytes(size[mechanism]), source.randbytes(size[mechanism])))
            final = b"c=biws," + nonce + b",p=" + encoded(proof).encode()
            reply = login.respond(bent(final, source) if number % 2 else final)
        except AuthenticationFailed as error:
            _hides(error.why)
            yield "refused"
        else:
            raise AssertionError(f"a login is accepted: {first!r}, {final!r}: {reply}")
        for read, said in (
            (read_server_first, b"r=abcdef,s=c2FsdA==,i=4096"),
            (read_server_final, b"v=" + encoded(bytes(32)).encode()),
        ):
            try:
                read(bent(said, source))
            except ScramError:
                yield "no answer of a server"


def _streams(source: random.Random) -> bytes:
    """Return the requests of a login, some of them out of turn."""
    from protocol.messages.api_versions import ApiVersionsRequest
    from protocol.messages.metadata import MetadataRequest
    from protocol.messages.sasl_authenticate import SaslAuthenticateRequest
    from protocol.messages.sasl_handshake import SaslHandshakeRequest

    tokens = (
        f"\0{USER}\0wrong".encode(),
        f"{USER}\0{USER}\0wrong".encode(),
        f"n,,n={USER},r=abc".encode(),
        b"c=biws,r=abc,p=AAAA",
        source.randbytes(20),
    )
    parts = [
        frame_of(ApiVersionsRequest(), source.randrange(5)),
        frame_of(
            SaslHandshakeRequest(mechanism=source.choice(("PLAIN", *HASHES, "GSSAPI"))),
            source.randrange(2),
        ),
    ]
    parts += [
        frame_of(SaslAuthenticateRequest(auth_bytes=source.choice(tokens)), source.randrange(3))
        for _ in range(source.randrange(3))
    ]
    if source.random() < 0.2:
        parts.insert(source.randrange(len(parts)), frame_of(MetadataRequest(topics=[]), 1))
    if source.random() < 0.2:
        source.shuffle(parts)
    return b"".join(parts)


def _map_streams(source: random.Random) -> bytes:
    """Return the same in msgpack."""
    mechanism = source.choice(("PLAIN", *HASHES, "GSSAPI", None, 7))
    tokens = (f"\0{USER}\0wrong".encode(), f"n,,n={USER},r=abc".encode(), b"", "text", {}, [b"x"])
    parts: list[Any] = [
        [source.choice(("api_versions", 18)), 1, "me", {}],
        [source.choice(("sasl_handshake", 17)), 2, None, {"mechanism": mechanism}],
    ]
    for _ in range(source.randrange(3)):
        body = {"auth_bytes": source.choice(tokens)}
        parts.append([source.choice(("sasl_authenticate", 36)), 3, "me", body])
    if source.random() < 0.2:
        parts.insert(source.randrange(len(parts)), ["metadata", 4, "me", {"topics": None}])
    if source.random() < 0.2:
        source.shuffle(parts)
    return b"".join(len(one).to_bytes(4, "big") + one for one in map(msgpack.packb, parts))


def frames(source: random.Random, count: int) -> Ways:
    """Feed streams to connections with a gate, in random pieces."""
    return _fed(source, count, _streams, KafkaDialect)


def maps(source: random.Random, count: int) -> Ways:
    """Feed the same to a connection of msgpack."""
    return _fed(source, count, _map_streams, lambda rows: MsgpackDialect(rows, lambda: 0))


def _fed(
    source: random.Random,
    count: int,
    make: Callable[[random.Random], bytes],
    dialect: Callable[[Any], Any],
) -> Ways:
    ways: list[str] = []
    crashes: list[dict[str, Any]] = []

    async def run() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, what: crashes.append(what))
        rig = Rig()
        rig.sasl = _listeners().of("SASL")
        rig.dialect = dialect(ROWS)
        processing = asyncio.create_task(rig.processor.run())
        for _ in range(count):
            data = make(source)
            ways.append(await _one_stream(rig, data, source))
            assert not crashes, (data, crashes)
            if len(ways) >= 1_000:
                await asyncio.sleep(0)
        assert not processing.done()
        processing.cancel()
        rig.assert_at_rest()

    asyncio.run(run())
    yield from ways


async def _one_stream(rig: Rig, data: bytes, source: random.Random) -> str:
    connection = rig.renewed()
    if source.randrange(4):
        data = bent(data, source)
    cut = source.randrange(len(data) + 1)
    for piece in (data[:cut], data[cut:]):
        rig.receive(piece)
        for _ in range(4):
            await asyncio.sleep(0)
        for request in rig.passed():  # ApiVersions, for its handler
            assert connection.gate is not None
            connection.respond(request, ())
        for _ in range(2):
            await asyncio.sleep(0)
    assert connection.gate is not None
    assert connection.gate.is_closed, f"a login is accepted: {data!r}"
    assert connection.info.principal == "User:ANONYMOUS"
    ended = rig.transport.ended or "open"
    rig.assert_at_rest()
    rig.taken.clear()
    return ended


# -- tokens ----------------------------------------------------------------------------------------


def _encoded(part: bytes) -> str:
    return base64.urlsafe_b64encode(part).decode().rstrip("=")


def _decoded(part: str) -> bytes:
    return base64.urlsafe_b64decode(part + "=" * (-len(part) % 4))


def tokens(source: random.Random, count: int) -> Ways:
    """Feed changed tokens; one may be believed only if it says and signs the same."""
    from tests.unit.broker.security.oauth.tokens import NOW_S, key_set, token

    keys = read_key_set(key_set())

    async def read_again(_: Any) -> Any:
        return keys

    good = [token(name) for name in ("p256", "ed", "p384")]
    same = [tuple(map(_decoded, text.split("."))) for text in good]
    ways: list[str] = []

    async def run() -> None:
        validator = SignedTokens(
            KeySource("x", 3_600_000, read_again, lambda: 0), TokenRules(), lambda: NOW_S * 1000
        )
        for _ in range(count):
            text = _changed_token(source, good)
            try:
                await validator.validate(text)
            except TokenRefused:
                ways.append("refused")
            else:
                assert tuple(map(_decoded, text.split("."))) in same, f"believed: {text}"
                ways.append("the same token, written otherwise")

    asyncio.run(run())
    yield from ways


HEADS = [{"alg": "none"}, {"alg": "HS256"}, {"alg": ["ES256"]}, {"alg": "ES256", "kid": "ed"}]


def _changed_token(source: random.Random, good: Sequence[str]) -> str:
    from tests.unit.broker.security.oauth.tokens import part, unsecured

    text = source.choice(good)
    head, claims, signature = text.split(".")
    way = source.randrange(6)
    if way == 0:
        return bent_text(text, source)
    if way == 1:
        return f"{part(source.choice(HEADS))}.{claims}.{signature}"
    if way == 2:
        return f"{head}.{_encoded(bent(_decoded(claims), source))}.{signature}"
    if way == 3:
        said = json.dumps({"sub": "root", "exp": source.choice((10**400, -1, 2e308, "9"))})
        return f"{head}.{_encoded(said.encode())}.{signature}"
    if way == 4:
        return bent_text(unsecured(sub="root"), source)
    return f"{head}.{claims}.{source.choice(good).split('.')[2][::-1]}"


# -- configuration ---------------------------------------------------------------------------------

RULES = (
    "RULE:^CN=([^,]+),OU=Sales.*$/$1/L,DEFAULT",
    "RULE:^.*CN=(.*?),OU=.*$/$1@x/U",
    r"RULE:(a+)+\,b\/c/$1$2\$3/, RULE:^(?P<n>x)$/$0/",
    "DEFAULT",
)
NAMES = ("CN=alice,OU=Sales,O=Acme,C=DE", "CN=" + "a" * 500, "x", "", "CN=a\\,b,OU=\u00e4")


def rules(source: random.Random, count: int) -> Ways:
    """Feed rules, and names to those that can be read."""
    for _ in range(count):
        try:
            mapping = PrincipalMapping(bent_text(source.choice(RULES), source))
        except RuleError:
            yield "no rules"
            continue
        try:
            name = mapping.name_of(bent_text(source.choice(NAMES), source))
        except NoMatchingRule:
            yield "no rule matches"
        else:
            assert isinstance(name, str)
            yield "a name"


JAAS = (
    f"org.apache.Plain required user_a=\"{SECRET}\" user_b='{SECRET}';",
    f'a.B optional /* {SECRET} */ x="{SECRET}\\n\\"{SECRET}" y=word; // {SECRET}',
    f'a.B required\n  user_a="{SECRET}"\n;',
)


def jaas(source: random.Random, count: int) -> Ways:
    """Feed JAAS strings; an error must not show what may be a password."""
    for _ in range(count):
        try:
            parse_jaas(bent_text(source.choice(JAAS), source))
        except JaasError as error:
            _hides(str(error))
            yield "refused"
        else:
            yield "read"


KINDS: dict[str, Fuzzer] = {
    "frames": frames,
    "maps": maps,
    "scram": scram,
    "tokens": tokens,
    "rules": rules,
    "jaas": jaas,
    "filters": filters,
}


def resident_kib() -> int:
    """Return the memory of this process that maps no file. On Linux."""
    return int(Path("/proc/self/status").read_text().partition("RssAnon:")[2].split()[0])


def main(arguments: Sequence[str]) -> int:
    """Feed the cases that the command line asks for."""
    kinds = [*KINDS] if arguments[0] == "all" else [arguments[0]]
    count = int(arguments[1])
    logging.disable()
    source = random.Random(int(arguments[2]) if len(arguments) > 2 else 1)
    for kind in kinds:
        ways: Counter[str] = Counter()
        ways.update(KINDS[kind](source, max(1, count // 10)))
        gc.collect()
        before = resident_kib()
        ways.update(KINDS[kind](source, count - count // 10))
        gc.collect()
        grown = resident_kib() - before
        sys.stdout.write(f"{kind}: {dict(ways.most_common())}; grown by {grown} KiB\n")
        sys.stdout.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
