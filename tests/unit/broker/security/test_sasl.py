"""The mechanisms: who gets in, what all others are told, and that they are told the same."""

import os
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import replace
from typing import Any

import pytest

from broker.metadata.scram_image import ScramCredential
from broker.security.oauth.token_validator import TokenValidator
from broker.security.sasl.mechanism import AuthenticationFailed, Identity, Mechanism, Reply, shown
from broker.security.sasl.plain import WRONG, ScramUsers
from broker.security.sasl.sasl_listeners import SaslListeners
from broker.security.sasl.scram_users import ITERATIONS_DEFAULT, CredentialSource
from config.sasl_settings import MechanismSettings, SaslSettings
from config.token_settings import TokenSettings
from protocol.scram import (
    HASHES,
    client_key,
    encoded,
    prove,
    read_server_first,
    salted_password,
    server_key,
    stored_key,
    unproven_final,
)

SHA_256, SHA_512 = HASHES
USER, PASSWORD = "alice,=", "s3cret"
NAME = "alice=2C=3D"


class Directory:
    """Users, each with one credential."""

    def __init__(self, mechanism: str = SHA_256, size: int | None = None) -> None:
        salted = salted_password(mechanism, PASSWORD, b"salt", 4096)
        self.mechanism = mechanism
        self.is_removed = False
        self.number = 1
        self.credential = ScramCredential(
            b"salt",
            stored_key(mechanism, client_key(mechanism, salted))[:size],
            server_key(mechanism, salted),
            4096,
        )

    def scram(self, mechanism: str, user: str) -> ScramCredential | None:
        if self.is_removed or (mechanism, user) != (self.mechanism, USER):
            return None
        return self.credential

    def iterations(self, mechanism: str) -> Sequence[int]:
        return [4096] if mechanism == self.mechanism else []

    def generation(self, user: str, mechanism: str = "") -> int | None:
        return None if self.scram(mechanism or self.mechanism, user) is None else self.number


async def at_once(call: Callable[[], bool]) -> bool:
    return call()


def no_tokens(settings: TokenSettings) -> TokenValidator:
    raise AssertionError(settings)


def listeners(
    directory: Directory, users: dict[str, str] | None = None, *, delay_ms: int = 5
) -> SaslListeners:
    names = ("PLAIN", *HASHES)
    mechanisms = {
        name: MechanismSettings(
            name=name, max_reauth_ms=7, users=users if name == "PLAIN" else None
        )
        for name in names
    }
    settings = SaslSettings(listener="L", mechanisms=mechanisms, failed_delay_ms=delay_ms)
    return SaslListeners({"L": settings}, directory, os.urandom, at_once, no_tokens, b"secret")


def begin(mechanism: str, directory: Directory | None = None) -> Mechanism:
    return listeners(directory or Directory(), {USER: PASSWORD}).of("L").offers[mechanism].begin()


def now(reply: Reply | Coroutine[object, object, Reply] | Awaitable[Reply]) -> Reply:
    assert isinstance(reply, Reply)
    return reply


def identified(login: Mechanism, token: bytes) -> Identity | None:
    """Return who a login in one step lets in, without how long that holds."""
    identity = now(login.respond(token)).identity
    return None if identity is None else identity._replace(still_holds=None)


# -- PLAIN -----------------------------------------------------------------------------------------


def plain(user: str, password: str, authzid: str = "") -> bytes:
    return f"{authzid}\0{user}\0{password}".encode()


@pytest.mark.parametrize("authzid", ["", USER])
def test_plain_lets_a_user_in(authzid: str) -> None:
    assert identified(begin("PLAIN"), plain(USER, PASSWORD, authzid)) == Identity(USER)


PLAIN_REFUSED = [
    (plain(USER, "wrong"), WRONG),
    (plain(USER, PASSWORD + "x"), WRONG),
    (plain(USER, PASSWORD[:-1]), WRONG),
    (plain("nobody", PASSWORD), WRONG),
    (plain("nobody", "wrong", "other"), WRONG),
    (b"\0" + USER.encode() + b"\0\xff\xfe", WRONG),
    (plain("", PASSWORD), "Authentication failed: username not specified"),
    (plain(USER, ""), "Authentication failed: password not specified"),
    (plain(USER, PASSWORD, "bob"), "authorization id that is different from username"),
    (b"", "Invalid SASL/PLAIN response: expected 3 tokens, got 1"),
    (b"a\0b", "Invalid SASL/PLAIN response: expected 3 tokens, got 2"),
    (b"\0a\0b\0c", "Invalid SASL/PLAIN response: expected 3 tokens, got 4"),
    (b"\0" * 60_000, "Invalid SASL/PLAIN response: expected 3 tokens, got 4"),
]


@pytest.mark.parametrize(("token", "said"), PLAIN_REFUSED)
def test_plain_refuses_with_kafkas_texts_and_shows_no_password(token: bytes, said: str) -> None:
    with pytest.raises(AuthenticationFailed) as caught:
        begin("PLAIN").respond(token)
    assert caught.value.said.endswith(said)
    assert PASSWORD not in caught.value.why
    assert "wrong" not in caught.value.why.replace("wrong password", "")


def test_no_token_is_the_password_of_nobody() -> None:
    """An unknown user is compared with a password that exists only as a digest."""
    sasl = listeners(Directory(), {USER: PASSWORD})
    for password in ("", sasl._key.hex()):
        with pytest.raises(AuthenticationFailed):
            sasl.of("L").offers["PLAIN"].begin().respond(plain("nobody", password))


@pytest.mark.parametrize("mechanism", HASHES)
async def test_plain_may_be_checked_against_scram_users(mechanism: str) -> None:
    login = listeners(Directory(mechanism)).of("L").offers["PLAIN"].begin
    answer = login().respond(plain(USER, PASSWORD))
    assert not isinstance(answer, Reply)
    reply = await answer
    assert (reply.token, reply.identity.user) == (b"", USER)
    for user, password in ((USER, "wrong"), ("nobody", PASSWORD), ("nobody", "wrong")):
        refused = login().respond(plain(user, password))
        assert not isinstance(refused, Reply)
        with pytest.raises(AuthenticationFailed) as caught:
            await refused
        assert caught.value.said == WRONG


# -- SCRAM -----------------------------------------------------------------------------------------


class Client:
    """A client of SCRAM that can do each step wrongly."""

    def __init__(self, mechanism: str, login: Mechanism, first: str, header: str = "n,,") -> None:
        self.mechanism = mechanism
        self.login = login
        self.first = first
        self.header = header
        self.answer = now(login.respond(f"{header}{first}".encode())).token
        self.server = read_server_first(self.answer)

    def final(
        self, password: str = PASSWORD, nonce: str = "", binding: str = "", rest: str = ""
    ) -> tuple[str, bytes]:
        unproven = unproven_final(nonce or self.server.nonce, binding or self.header) + rest
        name = self.mechanism
        salted = salted_password(name, password, self.server.salt, self.server.iterations)
        proof = prove(name, salted, self.first, self.answer, unproven)
        self.expected = encoded(proof.owed)
        return unproven, proof.proof

    def finish(self, unproven: str, proof: bytes) -> Reply:
        return now(self.login.respond(f"{unproven},p={encoded(proof)}".encode()))


@pytest.mark.parametrize("mechanism", HASHES)
@pytest.mark.parametrize("header", ["n,,", f"n,a={NAME},"])
@pytest.mark.parametrize("rest", ["", ",foo=bar"])
def test_scram_lets_a_user_in_and_proves_itself(mechanism: str, header: str, rest: str) -> None:
    login = begin(mechanism, Directory(mechanism))
    client = Client(mechanism, login, f"n={NAME},r=abc{rest}", header)
    assert client.server.nonce.startswith("abc")
    assert len(client.server.nonce) > 20
    reply = client.finish(*client.final(rest=rest))
    assert reply.token == f"v={client.expected}".encode()
    assert reply.identity is not None
    assert reply.identity.user == USER


def test_nonces_differ() -> None:
    first = f"n={NAME},r=abc"
    assert len({Client(SHA_256, begin(SHA_256), first).server.nonce for _ in range(20)}) == 20


SCRAM_REFUSED = {
    "a wrong password": {"password": "wrong"},
    "the client's nonce alone": {"nonce": "abc"},
    "a changed nonce": {"nonce": "abcX"},
    "another binding": {"binding": "y,,"},
    "another authorization id in the binding": {"binding": "n,a=bob,"},
}
TEXT = (
    "Authentication failed during authentication due to invalid credentials with SASL mechanism"
    f" {SHA_256}"
)


def refusal(client: Client, unproven: str, proof: bytes) -> str:
    with pytest.raises(AuthenticationFailed) as caught:
        client.finish(unproven, proof)
    assert PASSWORD not in caught.value.why
    return caught.value.said


@pytest.mark.parametrize("wrong", SCRAM_REFUSED.values(), ids=SCRAM_REFUSED)
def test_what_is_wrong_in_the_last_message_is_told_alike(wrong: dict[str, object]) -> None:
    client = Client(SHA_256, begin(SHA_256), f"n={NAME},r=abc")
    assert refusal(client, *client.final(**wrong)) == TEXT  # type: ignore[arg-type]


@pytest.mark.parametrize("size", [1, 5, 31, 33, 64])
def test_a_proof_of_another_size_is_refused_alike(size: int) -> None:
    client = Client(SHA_256, begin(SHA_256), f"n={NAME},r=abc")
    unproven, proof = client.final()
    assert refusal(client, unproven, (proof * 3)[:size]) == TEXT


@pytest.mark.parametrize(
    "message", [b"", b"\xff", b"y,,n=a,r=x", b"n,,n=a,r=" + b"x" * 60_000 + b","]
)
def test_a_malformed_message_is_refused_alike(message: bytes) -> None:
    with pytest.raises(AuthenticationFailed) as caught:
        begin(SHA_256).respond(message)
    assert caught.value.said == TEXT


def test_another_authorization_id_is_refused() -> None:
    with pytest.raises(AuthenticationFailed, match="different from username"):
        begin(SHA_256).respond(f"n,a=bob,n={NAME},r=x".encode())


@pytest.mark.parametrize("first", ["n=nobody,r=abc", f"n={NAME},r=abc,tokenauth=true"])
def test_an_unknown_user_runs_to_the_last_step_and_fails_like_a_wrong_password(first: str) -> None:
    login = listeners(Directory()).of("L").offers[SHA_256].begin
    client = Client(SHA_256, login(), first)
    assert client.server.iterations == ITERATIONS_DEFAULT
    assert refusal(client, *client.final()) == TEXT
    assert client.finish != Client(SHA_256, login(), first).finish


def test_a_mock_salt_is_always_the_same_for_a_name_and_no_one_elses() -> None:
    users = CredentialSource(Directory(), b"secret")
    names = ["nobody", "somebody", "", "\udc00"]
    assert len({users.find(SHA_256, name).salt for name in names}) == len(names)
    assert users.find(SHA_256, "nobody") == users.find(SHA_256, "nobody")
    assert users.find(SHA_256, "nobody").salt != users.find(SHA_512, "nobody").salt
    others = CredentialSource(Directory(), b"other")
    assert others.find(SHA_256, "nobody").salt != users.find(SHA_256, "nobody").salt


def test_unknown_users_have_iterations_as_often_as_users_have_them() -> None:
    directory = Directory()
    users = CredentialSource(directory, b"secret")
    names = [f"nobody {number}" for number in range(1_000)]

    def found(mechanism: str, *iterations: int) -> list[int]:
        directory.iterations = lambda _: iterations  # type: ignore[method-assign,assignment]
        return [users.find(mechanism, name).iterations for name in names]

    assert set(found(SHA_256)) == {ITERATIONS_DEFAULT}
    assert set(found(SHA_256, 8192)) == {8192}
    some = found(SHA_256, 4096, 8192, 8192, 16384)
    assert 200 < some.count(4096) < 300
    assert 450 < some.count(8192) < 550
    assert some.count(16384) == 1_000 - some.count(4096) - some.count(8192)
    assert found(SHA_512, 4096, 8192, 8192, 16384) == some
    moved = found(SHA_256, *[4096] * 25, *[8192] * 50, *[16384] * 26)
    assert sum(one != other for one, other in zip(some, moved, strict=True)) < 30


def test_the_keys_of_a_mock_credential_fit_no_proof() -> None:
    """Not even one that is made of them: an attacker who knows them gets no further."""
    users = CredentialSource(Directory(), b"secret")
    found = users.find(SHA_256, "nobody")
    assert found.is_mock
    assert users.find(SHA_256, USER).is_mock is False
    assert users.find(SHA_256, USER, is_known=False).is_mock


def test_a_damaged_credential_lets_nobody_in() -> None:
    client = Client(SHA_256, begin(SHA_256, Directory(size=5)), f"n={NAME},r=abc")
    assert refusal(client, *client.final()) == TEXT


# -- listeners -------------------------------------------------------------------------------------


def test_changed_settings_hold_for_new_logins() -> None:
    sasl = listeners(Directory(), {USER: PASSWORD})
    begun = sasl.of("L").offers["PLAIN"].begin()
    assert sasl.of("L").offers["PLAIN"].max_reauth_ms == 7
    sasl.use(
        {
            "L": SaslSettings(
                listener="L",
                mechanisms={
                    "PLAIN": MechanismSettings(
                        name="PLAIN", max_reauth_ms=0, users={USER: "another"}
                    )
                },
                failed_delay_ms=1,
            )
        }
    )
    assert list(sasl.of("L").offers) == ["PLAIN"]
    assert sasl.of("L").failed_delay_ms == 1
    with pytest.raises(AuthenticationFailed):
        sasl.of("L").offers["PLAIN"].begin().respond(plain(USER, PASSWORD))
    assert identified(begun, plain(USER, PASSWORD)) == Identity(USER)


def test_a_name_in_a_log_has_a_bound_and_no_line_of_its_own() -> None:
    assert shown("a\nb") == r"'a\nb'"
    assert len(shown("x" * 1000)) == 66


# -- users that change -----------------------------------------------------------------------------


@pytest.mark.parametrize("mechanism", ["PLAIN", SHA_256])
async def test_a_login_holds_while_the_user_is_there(mechanism: str) -> None:
    directory = Directory()
    login = listeners(directory).of("L").offers[mechanism].begin()
    if mechanism == "PLAIN":
        answer = login.respond(plain(USER, PASSWORD))
        assert not isinstance(answer, Reply)
        reply = await answer
    else:
        client = Client(mechanism, login, f"n={NAME},r=abc")
        reply = client.finish(*client.final())
    assert reply.identity is not None
    assert reply.identity.still_holds is not None
    assert reply.identity.still_holds()
    directory.credential = Directory(SHA_256).credential  # a new password: the login stays
    assert reply.identity.still_holds()
    directory.is_removed = True
    assert not reply.identity.still_holds()
    directory.is_removed = False
    directory.number = 2  # made again, for somebody else perhaps
    assert not reply.identity.still_holds()


def test_a_login_holds_while_the_jaas_string_has_the_user_and_its_password() -> None:
    def settings(**users: str) -> dict[str, SaslSettings]:
        plain_settings = MechanismSettings(name="PLAIN", max_reauth_ms=0, users=users)
        mechanisms = {"PLAIN": plain_settings}
        return {"L": SaslSettings(listener="L", mechanisms=mechanisms, failed_delay_ms=0)}

    made = SaslListeners(
        settings(a="x", b="y"), Directory(), os.urandom, at_once, no_tokens, b"secret"
    )
    identity = now(made.of("L").offers["PLAIN"].begin().respond(b"\0a\0x")).identity
    assert identity is not None
    assert identity.still_holds is not None
    made.use(settings(a="x"))
    assert identity.still_holds()
    for other in (settings(a="new password"), settings(b="x"), settings(b="y", ä="x")):
        made.use(other)
        assert not identity.still_holds()
    of_scram = MechanismSettings(name="PLAIN", max_reauth_ms=0, users=None)
    for mechanisms, holds in (({"PLAIN": of_scram}, False), ({}, True)):
        made.use({"L": SaslSettings(listener="L", mechanisms=mechanisms, failed_delay_ms=0)})
        assert identity.still_holds() == holds


def test_keys_that_were_read_survive_a_change_of_other_settings() -> None:
    tokens = TokenSettings(
        url="https://provider",
        audiences=(),
        issuer="",
        scope_claim="scope",
        sub_claim="sub",
        skew_seconds=30,
        refresh_ms=1,
    )

    def settings(tokens: TokenSettings, **changed: int) -> dict[str, SaslSettings]:
        bearer = MechanismSettings(
            name="OAUTHBEARER", max_reauth_ms=changed.get("reauth", 0), tokens=tokens
        )
        plain = MechanismSettings(name="PLAIN", max_reauth_ms=0, users={"a": str(changed)})
        mechanisms = {"OAUTHBEARER": bearer, "PLAIN": plain}
        return {"L": SaslSettings(listener="L", mechanisms=mechanisms, failed_delay_ms=0)}

    made: list[TokenSettings] = []

    def make(asked: TokenSettings) -> Any:
        made.append(asked)

    sasl = SaslListeners(settings(tokens), Directory(), os.urandom, at_once, make, b"secret")
    sasl.use(settings(tokens, plain=1))
    sasl.use(settings(tokens, reauth=5))
    assert sasl.of("L").offers["OAUTHBEARER"].max_reauth_ms == 5
    assert made == [tokens]
    other = replace(tokens, issuer="another")
    sasl.use(settings(other))
    assert made == [tokens, other]


@pytest.mark.parametrize("change", ["removed", "another password"])
async def test_a_user_who_changes_during_the_login_is_refused(change: str) -> None:
    directory = Directory()

    def happen() -> None:
        directory.is_removed = change == "removed"
        old = directory.credential
        directory.credential = ScramCredential(old.salt, b"x" * 32, old.server_key, 4096)

    login = listeners(directory).of("L").offers[SHA_256].begin()
    client = Client(SHA_256, login, f"n={NAME},r=abc")
    final = client.final()
    happen()
    with pytest.raises(AuthenticationFailed) as refused:
        client.finish(*final)
    assert "changed or removed during the login" in refused.value.why

    directory = Directory()

    async def in_between(call: Callable[[], bool]) -> bool:
        found = call()
        happen()
        return found

    source = CredentialSource(directory, b"secret")
    assert not await ScramUsers(source, in_between).check(USER, PASSWORD)
