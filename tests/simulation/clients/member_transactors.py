"""Transactional producers that are members of a group, as those are that consume what they process.

Each joins a group of either protocol and stays in it. Offsets are committed in the transaction with
its generation or epoch, sometimes as nobody, which is accepted beside members, and sometimes with a
generation of the past, which must be refused. (A consumer group accepts an older epoch of a member
that has had the partition since then.)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tests.simulation.clients.caller import Caller
from tests.simulation.clients.classic_members import ClassicMember
from tests.simulation.clients.client import runs
from tests.simulation.clients.committed import NOBODY, Member
from tests.simulation.clients.consumer_members import JOIN_EPOCH, ConsumerMember
from tests.simulation.clients.transactors import Transactor

if TYPE_CHECKING:
    from tests.simulation.context import Context
    from tests.simulation.plan import ClientPlan

GROUPS_OF_CLASSIC: Final = ("classic-0", "classic-1")
GROUPS_OF_CONSUMERS: Final = ("consumer-0", "consumer-1")
NOBODY_CHANCE: Final = 0.2
PAST_CHANCE: Final = 0.15
JOIN_TRIES: Final = 3  # a request without a member id is refused at first


class MemberTransactor(Transactor):
    """See the module."""

    writing = 0.4

    def __init__(self, context: Context, plan: ClientPlan) -> None:
        super().__init__(context, plan)
        caller = Caller(context, plan, suffix=" as member")
        is_classic = self.chance.random() < 0.5
        group = self.chance.choice(GROUPS_OF_CLASSIC if is_classic else GROUPS_OF_CONSUMERS)
        self.of_group = (
            ClassicMember(caller, group) if is_classic else ConsumerMember(caller, group)
        )
        self.of_group.is_calm = True

    async def live(self) -> None:
        """Run transactions, and leave the group to its session."""
        try:
            await super().live()
        finally:
            self.of_group.caller.wire.close()

    @property
    def epoch_in_group(self) -> int:
        """The generation or epoch of the member; below 0 or JOIN_EPOCH if it is none now."""
        one = self.of_group
        return one.generation if isinstance(one, ClassicMember) else one.epoch

    @property
    def is_in_group(self) -> bool:
        """Whether it is a member, as far as it knows."""
        is_classic = isinstance(self.of_group, ClassicMember)
        return self.epoch_in_group >= 0 if is_classic else self.epoch_in_group != JOIN_EPOCH

    async def fill(self) -> bool:
        """Join the group or stay in it, then write and commit."""
        await self.of_group.step()
        for _ in range(JOIN_TRIES):
            if self.is_in_group:
                break
            await self.of_group.step()
        return await super().fill()

    async def member(self) -> tuple[str, Member, bool]:
        """Return what this member is to the group; see the base."""
        one, epoch = self.of_group, self.epoch_in_group
        if not self.is_in_group or self.chance.random() < NOBODY_CHANCE:
            return one.group, NOBODY, False
        if isinstance(one, ClassicMember) and epoch > 0 and self.chance.random() < PAST_CHANCE:
            return one.group, Member(one.member_id, epoch - 1), True
        return one.group, Member(one.member_id, epoch), False


KINDS: Final = {"member transactor": runs(MemberTransactor)}
