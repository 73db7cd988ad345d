"""A connection of a user: it logs in by one mechanism or another, and works.

It comes in either dialect, or over TLS.

What it is answered is compared with the user's history (`tests.simulation.clients.user_history`):

- a login succeeds only with a password that the user may have, and fails only without one that it
  must have;
- what is sent after the answer to the user's removal is not answered, whatever comes later: a user
  of the same name is another;
- a session that has ended serves nothing; a login again renews it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from protocol.messages.metadata import MetadataRequest
from protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from protocol.messages.sasl_handshake import SaslHandshakeRequest
from protocol.scram import prove, read_server_first, salted_password, unproven_final
from tests.simulation.clients import tokens
from tests.simulation.clients.batches import build_untimed
from tests.simulation.clients.user_history import PLAIN, UserHistory
from tests.simulation.clients.wire import Disconnected, MsgpackWire, TlsWire, Wire
from tests.simulation.clock import STARTED_MS
from tests.simulation.context import LOGIN_PORT, MSGPACK_LOGIN_PORT, TLS_LOGIN_PORT
from tests.simulation.world import MS, TimedOut

if TYPE_CHECKING:
    from tests.simulation.context import Context

FAILED: Final = 58
OPENED: Final = 0
AUTHENTICATE_VERSION, METADATA_VERSION, FETCH_VERSION, PRODUCE_VERSION = 2, 9, 11, 9
ANSWER_MS: Final = 30_000
LATE_MS: Final = 1
AHEAD_MAX: Final = 3  # requests that are sent before the first is answered
WAITS_MS: Final = (0, 20, 500)
DOORS: Final = (
    (Wire, LOGIN_PORT),
    (MsgpackWire, MSGPACK_LOGIN_PORT),
    (TlsWire, TLS_LOGIN_PORT),
)
LEAVING_CHANCE: Final = 0.6
RIGHT_CHANCE: Final = 0.8  # that it has a password which the user has, as far as is known
SLOW_CHANCE: Final = 0.2
PASSWORDS: Final = 3
SHORT_MS: Final = (1_000, 2_000, 5_000)  # of tokens

salted: Final = functools.lru_cache(256)(salted_password)


@dataclass(slots=True)
class Login:
    """A login that has succeeded."""

    user: UserHistory
    mechanism: str
    password: str
    answered_ns: int
    ends_ns: int | None


class Lodger:
    """One connection; see the module. `mechanisms` are those of the listeners."""

    def __init__(
        self,
        context: Context,
        name: str,
        topic: str,
        mechanisms: Sequence[str],
        objects: Callable[[str], None],
    ) -> None:
        self.world = context.world
        self.chance = self.world.chance(name)
        self.login: Login | None = None
        self._topic = topic
        self._mechanisms = mechanisms
        self._object = objects
        self._logins = 0
        kind, port = self.chance.choice(DOORS)
        self.wire = kind(self.world, context.network, port, name, context.record)

    async def run(self, user_of: Callable[[], UserHistory]) -> None:
        """Log in and work, as the user of that time, until stopped."""
        try:
            while True:
                await self.log_in(user_of())
                for _ in range(self.chance.choice((1, 2, 5, 10))):
                    await self.work()
                    await self.pause(0.1, 1, 20, 100)
                if self.chance.random() < LEAVING_CHANCE or self.login is None:
                    self.leave()
                await self.pause(1, 20, 100)
        finally:
            self.leave()

    def leave(self) -> None:
        """Close the connection."""
        self.login = None
        self.wire.close()

    async def pause(self, *choices_ms: float) -> None:
        """Wait for one of these times."""
        await self.world.sleep_ms(self.chance.choice(choices_ms))

    # -- Logins -------------------------------------------------------------------------------

    async def log_in(self, user: UserHistory) -> int | None:
        """Log in by a drawn mechanism and password; return the error code, None without an answer.

        On an open connection it is a login again, of the same user by the same mechanism.
        """
        login = self.login if self.wire.is_open else None
        if login is None:
            self.leave()
            mechanism = self.chance.choice(self._mechanisms)
            is_token = mechanism == tokens.MECHANISM
            password = self.chance.choice(tokens.KINDS) if is_token else self._password(user)
        else:
            user, mechanism, password = login.user, login.mechanism, login.password
        began_ns = self.world.now_ns
        found = await self._answer(user.name, mechanism, password)
        if found is None:
            return None
        code, lifetime_ms = found
        now_ns, self.login = self.world.now_ns, None
        self._judge(user, mechanism, password, (began_ns, now_ns), code)
        if code == OPENED:
            ends_ns = now_ns + lifetime_ms * MS if lifetime_ms else None
            self.login = Login(user, mechanism, password, now_ns, ends_ns)
        return code

    def _judge(
        self, user: UserHistory, mechanism: str, password: str, span: tuple[int, int], code: int
    ) -> None:
        """Object to a login that was wrongly taken, or refused."""
        if mechanism == tokens.MECHANISM:
            may, must = password in tokens.BELIEVED, password == tokens.GOOD
        else:
            may = user.may_log_in(mechanism, password, *span)
            must = user.must_log_in(mechanism, password, *span)
        if code == OPENED and not may:
            self._object(f"{user.name} logs in by {mechanism} with {password!r}")
        elif code == FAILED and must:
            self._object(f"{user.name} is refused by {mechanism} with {password!r}")

    def _password(self, user: UserHistory) -> str:
        known = sorted({*user.passwords.values()})
        if known and self.chance.random() < RIGHT_CHANCE:
            return self.chance.choice(known)
        return f"password {self.chance.randrange(PASSWORDS)}"

    async def _answer(self, user: str, mechanism: str, password: str) -> tuple[int, int] | None:
        """Log in; return the last error code, and for how long the login holds."""
        try:
            await self.wire.open()
        except Disconnected:
            return None
        answer = await self._ask(SaslHandshakeRequest(mechanism=mechanism), 1)
        if answer is not None and not answer.error_code:
            by = {PLAIN: self._by_plain, tokens.MECHANISM: self._by_token}
            answer = await by.get(mechanism, self._by_scram)(user, mechanism, password)
        if answer is None:
            return None
        return int(answer.error_code), int(getattr(answer, "session_lifetime_ms", 0))

    async def _by_plain(self, user: str, _mechanism: str, password: str) -> Any:
        return await self._token(f"\0{user}\0{password}".encode())

    async def _by_token(self, user: str, _mechanism: str, kind: str) -> Any:
        now_ms = STARTED_MS + self.world.now_ns // MS
        token = tokens.token(kind, user, now_ms, self.chance.choice(SHORT_MS))
        answer = await self._token(f"n,,\1auth=Bearer {token}\1\1".encode())
        if answer is None or answer.error_code or not answer.auth_bytes:
            return answer
        return await self._token(b"\1")  # it is not believed, and that is acknowledged

    async def _by_scram(self, user: str, mechanism: str, password: str) -> Any:
        self._logins += 1
        bare = f"n={user},r=nonce{self._logins}"
        answer = await self._token(f"n,,{bare}".encode())
        if answer is None or answer.error_code:
            return answer
        if self.chance.random() < SLOW_CHANCE:  # the user may change meanwhile
            await self.pause(5, 50, 300)
        first = read_server_first(answer.auth_bytes)
        key = salted(mechanism, password, first.salt, first.iterations)
        unproven = unproven_final(first.nonce)
        proof = prove(mechanism, key, bare, bytes(answer.auth_bytes), unproven)
        return await self._token(proof.message)

    async def _token(self, token: bytes) -> Any:
        return await self._ask(SaslAuthenticateRequest(auth_bytes=token), AUTHENTICATE_VERSION)

    async def _ask(self, body: Any, version: int) -> Any:
        """Return the answer; None if the connection has ended, which it may."""
        self.wire.may_be_ended = True
        try:
            return await self.wire.call(body, version, ANSWER_MS, "login")
        except Disconnected:
            return None
        except TimedOut:
            self.wire.close()
            return None

    # -- Work ---------------------------------------------------------------------------------

    async def work(self) -> None:
        """Send some requests one behind the other, and look at what is answered."""
        login = self.login
        if login is None or not self.wire.is_open:
            return
        sent_ns = self.world.now_ns
        waiting = [self._send() for _ in range(self.chance.randint(1, AHEAD_MAX))]
        for waiter in waiting:
            try:
                await self.world.wait(waiter, ANSWER_MS)
            except (Disconnected, TimedOut):
                self.leave()
                return
            self._look(login, sent_ns)

    def _send(self) -> Any:
        kind, wait_ms = self.chance.choice("mmpf"), self.chance.choice(WAITS_MS)
        self.wire.may_be_ended = True
        if kind == "p":
            part = PartitionProduceData(index=0, records=build_untimed([b"k:v"]))
            topic = TopicProduceData(name=self._topic, partition_data=[part])
            produce = ProduceRequest(acks=-1, timeout_ms=5_000, topic_data=[topic])
            return self.wire.send(produce, PRODUCE_VERSION, self._topic)
        if kind == "f":
            asked = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=100)
            fetch = FetchRequest(
                max_wait_ms=wait_ms,
                min_bytes=1 << 20,
                topics=[FetchTopic(topic=self._topic, partitions=[asked])],
            )
            return self.wire.send(fetch, FETCH_VERSION, self._topic, wait_ms=wait_ms)
        return self.wire.send(MetadataRequest(topics=[]), METADATA_VERSION)

    def _look(self, login: Login, sent_ns: int) -> None:
        """Judge that something was answered which was sent then."""
        user = login.user
        is_token = login.mechanism == tokens.MECHANISM  # which no user's removal takes away
        if not is_token and user.was_removed(login.mechanism, login.answered_ns, sent_ns):
            self._object(f"a connection is served whose user was removed: {user.name}")
        if login.ends_ns is not None and sent_ns > login.ends_ns + LATE_MS * MS:
            self._object("a session is served behind its end")

    async def outlive(self) -> None:
        """Wait for the end of the session, if it has one, and work behind it."""
        login = self.login
        if login is not None and login.ends_ns is not None:
            left_ns = max(0, login.ends_ns - self.world.now_ns)
            await self.world.sleep_ms(left_ns // MS + 2 * LATE_MS)
            await self.work()


def mechanisms_of(context: Context) -> list[str]:
    """Return the mechanisms that the broker offers."""
    return context.plan.settings["sasl.enabled.mechanisms"].split(",")
