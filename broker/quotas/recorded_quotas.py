"""The quotas that are recorded, changed while the broker runs and in use (KIP-546).

    checked ── appended ── durable ── in use ── answered
                              start ── loaded ── in use

A thread checks and encodes what may take long: many changes, or host names, which it resolves.
Changes take turns, so that each is checked against what those before it have made. Many come into
use in several turns of the loop, in the order of their records. `clients` is None while no user and
no client id has a quota: then requests are not counted at all.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from broker.metadata.quota_image import IP, QuotaEntity, QuotaImage, quota_record
from broker.metadata.topic_rules import TopicError, check_record_total
from broker.quotas.alterations import (
    Alteration,
    Planned,
    literal_address,
    plan,
)
from broker.runtime.blocking_pool import BlockingPool
from broker.runtime.owners import Owner
from protocol.quota_records import ClientQuotaRecord

if TYPE_CHECKING:
    from broker.quotas.client_quotas import ClientQuotas

PLANNED_HERE_MAX: Final = 100  # of a request's parts; a thread plans what has more of them
USED_PER_TURN: Final = 250  # about a millisecond


class AddressRates(Protocol):
    """The rates of new connections, as the quotas set them."""

    def set_address_rate(self, address: str | None, rate: float | None) -> None:
        """Set the rate of an address, or with None of all others; a rate of None removes it."""
        ...


class Recorder(NamedTuple):
    """How records become durable: `broker.topics.Topics.record`, and what encodes many."""

    record: Callable[
        [
            Sequence[ClientQuotaRecord],
            bytearray | None,
            Callable[[], Awaitable[None] | None],
            Callable[[], None] | None,
        ],
        Awaitable[None],
    ]
    encode: Callable[[Sequence[ClientQuotaRecord]], bytearray]


class _Change(NamedTuple):
    """What is planned, with what a thread has made of it."""

    planned: Planned
    addresses: Mapping[str, str]
    batch: bytearray | None
    take: Callable[[], None] | None  # by the image


class RecordedQuotas:
    """Changes quotas, and gives them to those who enforce them."""

    def __init__(
        self,
        image: QuotaImage,
        recorder: Recorder,
        rates: AddressRates,
        pool: BlockingPool,
        address_of: Callable[[str], str | None],
        make_clients: Callable[[], ClientQuotas],
    ) -> None:
        """`recorder` writes records, and calls a function when they are durable.

        `address_of` resolves a host name, and may wait for that.
        """
        self.clients: ClientQuotas | None = None
        self._image = image
        self._recorder = recorder
        self._rates = rates
        self._pool = pool
        self._address_of = address_of
        self._make_clients = make_clients
        self._made: ClientQuotas | None = None
        self._addresses: dict[str, str] = {}  # of host names that have quotas
        self._changing = asyncio.Lock()
        self._unused: deque[ClientQuotaRecord] = deque()  # that are durable

    def load(self) -> None:
        """Use the recorded quotas. The addresses of host names follow when they are resolved."""
        hosts = [entity for entity in self._image.entities if _host_names(entity)]
        names = {name for entity in hosts for name in _host_names(entity)}
        self._unused.extend(self._image.records())
        self._use_some(len(self._unused))
        if names:
            found: dict[str, str] = {}

            def resolve() -> None:
                found.update(self._resolved(names))

            def resolved(_: BaseException | None) -> None:
                self._addresses.update(found)
                # Of those alone: clients are served already, and addresses may be many.
                for entity in hosts:
                    quotas = self._image.entities.get(entity, {})
                    self._unused.extend(quota_record(entity, *one) for one in quotas.items())
                self._use_some(len(self._unused))

            self._pool.submit(Owner.TOPIC_CHANGE, resolve, resolved)

    def expire(self) -> None:
        """Forget what clients used so long ago that it counts no more."""
        if self.clients is not None:
            self.clients.expire()

    async def alter(
        self,
        asked: Iterable[Alteration],
        *,
        is_long: bool,
        validate_only: bool,
    ) -> Mapping[QuotaEntity, TopicError | None]:
        """Change quotas; return the outcome of each entity, None if it was changed.

        Returns when the changes are durable and in use. A thread reads `asked` if it `is_long`: if
        its entities, their parts and values are more than PLANNED_HERE_MAX. Raises LogFailed, or
        TopicError if there are too many changes or the metadata log cannot be made durable.
        """
        async with self._changing:
            if is_long:
                change = await self._pool.run(partial(self._plan, asked))
            else:
                change = await self._planned(list(asked))
            planned, addresses, batch, take = change
            if not validate_only and None in planned.outcomes.values():  # errors wait for nothing
                self._addresses.update(addresses)
                use = partial(self._use, planned.records)
                await self._recorder.record(planned.records, batch, use, take)
        return planned.outcomes

    async def _planned(self, asked: Sequence[Alteration]) -> _Change:
        """Plan a few changes: here, unless names are to be resolved."""
        if any(_host_names(entity) for entity, _ in asked):
            return await self._pool.run(partial(self._plan, asked))
        addresses: dict[str, str] = {}
        return _Change(plan(asked, self._image, addresses.get), addresses, None, None)

    def _plan(self, asked: Iterable[Alteration]) -> _Change:
        """Plan changes, and prepare what many of them need. For a thread."""
        alterations = list(asked)
        check_record_total(sum(len(values) for _, values in alterations))
        addresses = self._resolved({name for one, _ in alterations for name in _host_names(one)})
        planned = plan(alterations, self._image, addresses.get)
        if not planned.records:
            return _Change(planned, addresses, None, None)
        take = partial(self._image.take, self._image.changed(planned.records))
        return _Change(planned, addresses, self._recorder.encode(planned.records), take)

    def _resolved(self, names: set[str]) -> dict[str, str]:
        found = ((name, self._address_of(name)) for name in sorted(names))
        return {name: address for name, address in found if address is not None}

    def _use(self, records: Sequence[ClientQuotaRecord]) -> Coroutine[None, None, None] | None:
        """Use records that have become durable; what is returned uses the rest of many."""
        self._unused.extend(records)
        if len(self._unused) > USED_PER_TURN:
            return self._use_rest()
        self._use_some(len(self._unused))
        return None

    async def _use_rest(self) -> None:
        while self._unused:
            self._use_some(min(USED_PER_TURN, len(self._unused)))
            await asyncio.sleep(0)

    def _use_some(self, count: int) -> None:
        for _ in range(count):
            record = self._unused.popleft()
            if record.entity and record.entity[0].entity_type == IP:
                self._use_rate(record)
                continue
            if self._made is None:
                self._made = self._make_clients()
            self._made.apply(record)
        is_any = self._made is not None and self._made.is_any
        self.clients = self._made if is_any else None

    def _use_rate(self, record: ClientQuotaRecord) -> None:
        name = record.entity[0].entity_name
        address = name
        if name is not None:
            address = literal_address(name) or self._addresses.get(name)
            if address is None:
                return  # not resolved yet, or not at all
        self._rates.set_address_rate(address, None if record.remove else record.value)


def _host_names(entity: QuotaEntity) -> list[str]:
    return [name for kind, name in entity if kind == IP and name and literal_address(name) is None]
