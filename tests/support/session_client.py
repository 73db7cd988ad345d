"""A client of a rig that fetches within one session, as a consumer does."""

from typing import Any

from protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlteredQuotaEntity,
    QuotaAlteration,
    QuotaOperation,
)
from protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
)
from protocol.wire import ZERO_UUID
from tests.support.broker_rig import Rig
from tests.support.fake_connection import FakeConnection

MANY = 1_000_000
Place = tuple[str, int]


class SessionClient:
    """One session; `ids` has the topics' ids, if it goes by ids."""

    def __init__(self, rig: Rig, version: int = 12, **ids: bytes) -> None:
        self.rig = rig
        self.version = version
        self.ids = ids
        self.session_id = 0
        self.epoch = 0

    async def begin(self, *wanted: tuple[str, int, int], **fields: Any) -> dict[Place, Any]:
        """Begin a session, in place of the one before; (topic, partition, offset) each."""
        self.epoch = 0
        answer = await self.fetch(*wanted, **fields)
        self.session_id = answer.session_id
        return self.told(answer)

    async def more(self, *wanted: tuple[str, int, int], **fields: Any) -> dict[Place, Any]:
        """Fetch within the session; return what is answered, by topic and partition."""
        answer = await self.fetch(*wanted, **fields)
        assert (answer.error_code, answer.session_id) == (0, self.session_id)
        return self.told(answer)

    async def fetch(self, *wanted: tuple[str, int, int], **fields: Any) -> FetchResponse:
        """Send a request in the next epoch."""
        principal = fields.pop("principal", "User:ANONYMOUS")
        body = self.request(*wanted, **fields)
        answer: FetchResponse = await self.rig.call(body, self.version, principal=principal)
        return answer

    def request(
        self,
        *wanted: tuple[str, int, int],
        forget: tuple[Place, ...] = (),
        **fields: Any,
    ) -> FetchRequest:
        """Return the request of the next epoch."""
        by_id = self.version >= 13
        epoch, self.epoch = self.epoch, self.epoch + 1
        topics = [
            FetchTopic(
                **self._topic(topic, by_id=by_id),
                partitions=[
                    FetchPartition(partition=number, fetch_offset=offset, partition_max_bytes=MANY)
                ],
            )
            for topic, number, offset in wanted
        ]
        forgotten = [
            ForgottenTopic(**self._topic(topic, by_id=by_id), partitions=[number])
            for topic, number in forget
        ]
        return FetchRequest(
            session_id=self.session_id,
            session_epoch=epoch,
            topics=topics,
            forgotten_topics_data=forgotten,
            **{"max_wait_ms": 0, "min_bytes": 1, **fields},
        )

    def _topic(self, topic: str, *, by_id: bool) -> dict[str, Any]:
        return {"topic_id": self.ids.get(topic, ZERO_UUID)} if by_id else {"topic": topic}

    def told(self, answer: FetchResponse) -> dict[Place, Any]:
        """Return the partitions of an answer, in its order."""
        names = {topic_id: name for name, topic_id in self.ids.items()}
        return {
            (names.get(topic.topic_id, topic.topic), one.partition_index): one
            for topic in answer.responses
            for one in topic.partitions
        }

    @property
    def session(self) -> Any:
        """The broker's side."""
        return self.rig.services.fetch_sessions.cache.get(self.session_id)

    @property
    def awake(self) -> list[Place]:
        """What the next fetch looks at."""
        return [(one.name, one.asked.partition) for one in self.session.in_order()]


def dispatch(rig: Rig, client: SessionClient, connection: FakeConnection, body: Any) -> None:
    """Begin to handle a request of a connection; its answer goes to `connection.sent`."""
    rig.dispatcher.dispatch(connection.request(body, api_key=1, version=client.version))


async def limit(rig: Rig, rate: float | None) -> None:
    """Set the rate at which clients may fetch; None: no quota."""
    entity = [AlteredQuotaEntity(entity_type="user", entity_name=None)]
    op = QuotaOperation(key="consumer_byte_rate", value=rate or 0.0, remove=rate is None)
    alteration = QuotaAlteration(entity=entity, ops=[op])
    await rig.call(AlterClientQuotasRequest(entries=[alteration], validate_only=False), 1)
