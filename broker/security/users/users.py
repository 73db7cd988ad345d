"""The users of this broker: those that a login can be checked against, and changes of them.

They are the SCRAM credentials of the metadata log (`broker.metadata.scram_image`). A change holds
for new logins from the moment it is recorded, and is answered once it is durable; what is looked up
here is never remembered. All changes of a request are one batch of records, so a crash leaves all
of them or none. Connections of removed users end before the answer.

A request with many changes is planned and encoded in threads. Its plan may then be out of date: a
credential that it removes may be gone. So the turn that records it checks the plan once more.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any, Final

from broker.metadata.metadata_log import encode_batch
from broker.metadata.scram_image import ScramCredential, ScramImage
from broker.metadata.scram_plans import UserError, UserPlan, plan_users
from broker.runtime.blocking_pool import BlockingPool
from broker.runtime.clock import Clock
from protocol.messages.alter_user_scram_credentials import (
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)

logger = logging.getLogger("barnabas.security")

CHANGES_HERE_MAX: Final = 200  # some 3 ms
NAMES_LOGGED_MAX: Final = 10

Recorder = Callable[[Sequence[Any], bytearray | None], Awaitable[None]]


class Users:
    """Finds and changes credentials."""

    def __init__(
        self, image: ScramImage, record: Recorder, pool: BlockingPool, clock: Clock
    ) -> None:
        """`record` is `broker.topics.Topics.record`."""
        self.image = image
        self._record = record
        self._pool = pool
        self._clock = clock
        self._listeners: list[Callable[[], None]] = []

    def listen(self, listener: Callable[[], None]) -> None:
        """Call `listener` after credentials were removed, before that is answered."""
        self._listeners.append(listener)

    def scram(self, mechanism: str, user: str) -> ScramCredential | None:
        """Return a user's credential for a mechanism such as "SCRAM-SHA-256", or None."""
        return self.image.credential(mechanism, user)

    def generation(self, user: str, mechanism: str = "") -> int | None:
        """Return which of this name a user, or a credential, is; None if there is none now."""
        return self.image.generation(user, mechanism)

    def iterations(self, mechanism: str) -> Sequence[int]:
        """Return the iterations of all credentials of a mechanism, sorted."""
        return self.image.iterations(mechanism)

    async def alter(
        self,
        removals: Sequence[ScramCredentialDeletion],
        credentials: Sequence[ScramCredentialUpsertion],
        *,
        by: str,
    ) -> dict[str, UserError | None]:
        """Make a request's changes; return the outcome of each user, None: changed and durable.

        `by` is the principal that asks. Raises LogFailed if nothing was done, and TopicError if the
        metadata log cannot be made durable in time.
        """
        planned = partial(plan_users, self.image, removals, credentials)
        many = len(removals) + len(credentials) > CHANGES_HERE_MAX
        while True:
            plan = await self._pool.run(planned) if many else planned()
            records, batch = plan.records, None
            if len(records) > CHANGES_HERE_MAX:
                batch = await self._pool.run(partial(encode_batch, records, self._clock.now_ms()))
            if plan.still_holds(self.image):
                break
        if records:
            _log(plan, by)
            try:
                await self._record(records, batch)
            finally:  # they are removed even if that is not durable yet
                if plan.removals:
                    for listener in self._listeners:
                        listener()
        return plan.outcomes


def _log(plan: UserPlan, by: str) -> None:
    for verb, changes in (("removed", plan.removals), ("set", plan.credentials)):
        if changes:
            names = ", ".join(list(changes)[:NAMES_LOGGED_MAX])
            more = ", …" if len(changes) > NAMES_LOGGED_MAX else ""
            logger.info(
                "%(by)s %(verb)s %(credentials)d SCRAM credentials: %(named)s%(note)s",
                {"by": by, "verb": verb, "credentials": len(changes), "named": names, "note": more},
            )
