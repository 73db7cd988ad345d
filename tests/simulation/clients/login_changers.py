"""A client that makes and removes a user, and one that logs in as that user and works.

    login changer    sets its user's credential, lets it log in, removes it, in turns

The histories with it have a third listener, which asks for logins by SCRAM, and sessions that end
(KIP-368) in some of them. The judge stands here, since it needs no other knowledge than answers:

- after the answer that set the credential, a login with it succeeds, also after kills and power
  cuts; one with another password never does;
- after the answer that removed the user, nothing is answered on connections of that user, and no
  login succeeds;
- a session that has ended serves nothing; before its end it does, and a login again renews it.

An answer that does not come leaves the user in doubt: nothing is judged until the next one.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Coroutine
from typing import Any, Final

from protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from protocol.messages.metadata import MetadataRequest
from protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from protocol.messages.sasl_handshake import SaslHandshakeRequest
from protocol.scram import prove, read_server_first, salted_password, unproven_final
from tests.simulation.clients.caller import Caller
from tests.simulation.clients.wire import Disconnected, Wire
from tests.simulation.context import LOGIN_PORT, Context
from tests.simulation.plan import ClientPlan
from tests.simulation.world import MS, TimedOut

MECHANISM: Final = "SCRAM-SHA-256"
MECHANISM_CODE: Final = 1
ITERATIONS: Final = 4096
SALT: Final = b"salt of the simulator's users"
FAILED: Final = 58
UNKNOWN_USER: Final = 91  # to remove
AUTHENTICATE_VERSION: Final = 2
METADATA_VERSION: Final = 9
TRIES_MAX: Final = 8
ANSWER_MS: Final = 30_000
LATE_MS: Final = 1

_salted = functools.lru_cache(64)(salted_password)


class LoginChanger:
    """One such client; see the module."""

    def __init__(self, context: Context, plan: ClientPlan) -> None:
        self.admin = Caller(context, plan)
        self.user = plan.name.replace(" ", "-")
        self.password = "first"
        self.logins = 0
        self.ends_ns: int | None = None  # the session of the open connection
        world = context.world
        self.wire = Wire(world, context.network, LOGIN_PORT, plan.name + " user", context.record)

    async def run(self) -> None:
        """Set and remove the user in turns."""
        for _ in self.admin.steps:
            if await self._set():
                await self._judge_known()
                if await self._remove():
                    await self._judge_removed()
            self.wire.close()
            await self.admin.pause()
        self.admin.wire.close()

    # -- Users --------------------------------------------------------------------------------

    async def _alter(self, body: AlterUserScramCredentialsRequest, codes: tuple[int, ...]) -> bool:
        for _ in range(TRIES_MAX):
            answer = await self.admin.ask(body, what=self.user)
            if answer is not None and answer.results[0].error_code in codes:
                return True
            await self.admin.rest(500)
        return False

    async def _set(self) -> bool:
        self.password = f"password {self.admin.rng.randrange(3)}"
        credential = ScramCredentialUpsertion(
            name=self.user,
            mechanism=MECHANISM_CODE,
            iterations=ITERATIONS,
            salt=SALT,
            salted_password=_salted(MECHANISM, self.password, SALT, ITERATIONS),
        )
        return await self._alter(AlterUserScramCredentialsRequest(upsertions=[credential]), (0,))

    async def _remove(self) -> bool:
        self.wire.may_be_ended = True
        deletion = ScramCredentialDeletion(name=self.user, mechanism=MECHANISM_CODE)
        body = AlterUserScramCredentialsRequest(deletions=[deletion])
        return await self._alter(body, (0, UNKNOWN_USER))

    # -- Logins -------------------------------------------------------------------------------

    async def _ask(self, body: Any, version: int) -> Any:
        """Return the answer; None if the connection has ended, which it may."""
        self.wire.may_be_ended = True
        try:
            return await self.wire.call(body, version, ANSWER_MS, self.user)
        except Disconnected:
            return None
        except TimedOut:
            self.wire.close()
            return None

    async def _log_in(self, password: str) -> int | None:
        """Log in, perhaps once more; return the error code, None without an answer."""
        try:
            await self.wire.open()
        except Disconnected:
            return None
        answer = await self._ask(SaslHandshakeRequest(mechanism=MECHANISM), 1)
        if answer is None or answer.error_code:
            return None if answer is None else int(answer.error_code)
        self.logins += 1
        bare = f"n={self.user},r=nonce{self.logins}"
        answer = await self._authenticate(f"n,,{bare}".encode())
        if answer is None or answer.error_code:
            return None if answer is None else int(answer.error_code)
        first = read_server_first(answer.auth_bytes)
        salted = _salted(MECHANISM, password, first.salt, first.iterations)
        unproven = unproven_final(first.nonce)
        proof = prove(MECHANISM, salted, bare, bytes(answer.auth_bytes), unproven)
        answer = await self._authenticate(proof.message)
        if answer is None:
            return None
        lifetime_ms = answer.session_lifetime_ms
        self.ends_ns = self.wire.world.now_ns + lifetime_ms * MS if lifetime_ms else None
        return int(answer.error_code)

    async def _authenticate(self, token: bytes) -> Any:
        return await self._ask(SaslAuthenticateRequest(auth_bytes=token), AUTHENTICATE_VERSION)

    async def _is_served(self) -> bool:
        return await self._ask(MetadataRequest(topics=[]), METADATA_VERSION) is not None

    # -- Judging ------------------------------------------------------------------------------

    async def _judge_known(self) -> None:
        if self.admin.chance(0.3):
            if await self._log_in(self.password + "x") == 0:
                self._object("a login with another password succeeds")
            self.wire.close()
        code = await self._log_in(self.password)
        if code == FAILED:
            self._object("a login is refused whose user was set")
        if code == 0 and self.ends_ns is not None:
            await self._judge_session()
        elif code == 0:
            await self._is_served()

    async def _judge_session(self) -> None:
        """Use a session that ends, renew it or not, and ask behind its end."""
        world = self.wire.world
        if self.admin.chance(0.5):
            await self.admin.rest(100)
            if await self._log_in(self.password) == FAILED:
                self._object("a login again is refused")
        ends_ns = self.ends_ns
        if not self.wire.is_open or ends_ns is None:
            return
        await self._is_served()
        if self.admin.chance(0.5) and self.wire.is_open:
            await world.sleep_ms(max(0, ends_ns - world.now_ns) // MS + LATE_MS)
            if self.wire.is_open and await self._is_served():
                self._object("a session is served behind its end")

    async def _judge_removed(self) -> None:
        if self.wire.is_open and await self._is_served():
            self._object("a connection is served whose user was removed")
        self.wire.close()
        if await self._log_in(self.password) == 0:
            self._object("a removed user logs in")

    def _object(self, what: str) -> None:
        self.admin.record.fail(self.admin.name, what)


async def run_login_changer(context: Context, plan: ClientPlan) -> None:
    """Make and remove a user."""
    await LoginChanger(context, plan).run()


KINDS: Final[dict[str, Callable[[Context, ClientPlan], Coroutine[Any, Any, None]]]] = {
    "login changer": run_login_changer,
}
