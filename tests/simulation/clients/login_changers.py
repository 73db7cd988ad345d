"""A client that makes, changes and removes a user, and others that log in as that user and work.

    login changer    sets credentials of its user, gives them other passwords, removes one or all
    lodgers          some connections of that user (`tests.simulation.clients.lodgers`)

The histories with it have listeners that ask for logins by PLAIN and SCRAM, and sessions that end
(KIP-368) in some of them. Whatever was answered holds after kills and power cuts, too.

A change whose answer does not come leaves its user in doubt: the changer goes on with another one.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Final

from protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from tests.simulation.clients.caller import Caller
from tests.simulation.clients.lodgers import PASSWORDS, Lodger, mechanisms_of, salted
from tests.simulation.clients.user_history import PLAIN, SCRAMS, UserHistory
from tests.simulation.context import Context
from tests.simulation.plan import ClientPlan

CODES: Final = {"SCRAM-SHA-256": 1, "SCRAM-SHA-512": 2}  # Kafka's, of credentials
ITERATIONS: Final = 4096
SALT: Final = b"salt of the simulator's users"
EXISTS: Final = 36
LODGERS_MAX: Final = 2
REMOVAL_CHANCE: Final = 0.5
SESSION_CHANCE: Final = 0.3  # that a session is watched to its end
PATIENCE_MS: Final = 3_000


class LoginChanger:
    """One such client; see the module."""

    def __init__(self, context: Context, plan: ClientPlan) -> None:
        self.admin = Caller(context, plan)
        self.name = plan.name.replace(" ", "-")
        self.users = 0
        self.user = self._next_user()
        offered = mechanisms_of(context)
        self.credentials = list(SCRAMS) if PLAIN in offered else [*(set(SCRAMS) & set(offered))]
        self.credentials.sort()
        self.lodgers = [
            Lodger(context, f"{plan.name} lodger {number}", self.name, offered, self._object)
            for number in range(1 + self.admin.rng.randint(0, LODGERS_MAX))
        ]

    def _next_user(self) -> UserHistory:
        self.users += 1
        return UserHistory(f"{self.name}-{self.users}")

    def _object(self, what: str) -> None:
        self.admin.record.fail(self.admin.name, what)

    async def run(self) -> None:
        """Change the user in turns, while others use it."""
        admin, mine, others = self.admin, self.lodgers[0], self.lodgers[1:]
        topics = [CreatableTopic(name=self.name, num_partitions=1, replication_factor=1)]
        await admin.ask_until(
            CreateTopicsRequest(topics=topics),
            lambda answer: answer.topics[0].error_code in (0, EXISTS),
            self.name,
        )
        running = [
            admin.world.spawn(f"{self.name} lodger", one.run(lambda: self.user)) for one in others
        ]
        try:
            for _ in admin.steps:
                await self._change()
                await mine.work()  # in a session from before the change
                await mine.log_in(self.user)
                await mine.work()
                if admin.chance(SESSION_CHANCE):
                    await mine.outlive()
                await admin.pause()
        finally:
            for actor in running:
                actor.stop()
            mine.leave()
            admin.wire.close()

    # -- Changes ------------------------------------------------------------------------------

    async def _change(self) -> None:
        """Change some credentials; go on with another user if no answer says that it is done."""
        world, change = self.admin.world, self._drawn()
        noted = self.user.begin(change, world.now_ns)
        answer = await self.admin.ask(self._request(change), what=self.user.name)
        if answer is not None and answer.results[0].error_code == 0:
            noted.ended_ns = world.now_ns
        else:
            self.user = self._next_user()
            await self.admin.rest(500)

    def _drawn(self) -> Mapping[str, str | None]:
        """Return other credentials: one or all of them, set or removed."""
        rng, known = self.admin.rng, sorted(self.user.passwords)
        if known and rng.random() < REMOVAL_CHANCE:
            gone = known if rng.random() < 0.7 else [rng.choice(known)]
            return dict.fromkeys(gone)
        some = self.credentials if rng.random() < 0.5 else [rng.choice(self.credentials)]
        return {one: f"password {rng.randrange(PASSWORDS)}" for one in some}

    def _request(self, change: Mapping[str, str | None]) -> AlterUserScramCredentialsRequest:
        name, body = self.user.name, AlterUserScramCredentialsRequest()
        for credential, password in change.items():
            code = CODES[credential]
            if password is None:
                body.deletions.append(ScramCredentialDeletion(name=name, mechanism=code))
                continue
            key = salted(credential, password, SALT, ITERATIONS)
            upsertion = ScramCredentialUpsertion(
                name=name, mechanism=code, iterations=ITERATIONS, salt=SALT, salted_password=key
            )
            body.upsertions.append(upsertion)
        return body


async def run_login_changer(context: Context, plan: ClientPlan) -> None:
    """Make, change and remove users."""
    await LoginChanger(context, plan).run()


KINDS: Final[dict[str, Callable[[Context, ClientPlan], Coroutine[Any, Any, None]]]] = {
    "login changer": run_login_changer,
}
