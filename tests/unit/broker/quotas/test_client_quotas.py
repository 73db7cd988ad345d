"""What requests use, and how long their clients are throttled for it."""

import asyncio
from typing import Any

import pytest

from broker.metadata.quota_image import quota_entity, quota_record
from broker.quotas.client_quotas import ClientQuotas
from broker.quotas.windowed_rate import Windows
from broker.runtime.clock import MS_NS, ManualClock
from broker.runtime.metrics import Metrics
from broker.runtime.request import Request
from protocol.api_keys import ApiKey
from protocol.dialect import RequestHeader
from protocol.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from protocol.messages.heartbeat import HeartbeatResponse
from protocol.messages.produce import ProduceResponse
from tests.support.fake_connection import FakeConnection

ANYONE = [("client-id", None)]


class Rig:
    def __init__(self, **limits: float) -> None:
        self.clock = ManualClock()
        self.metrics = Metrics()
        windows = Windows(11, 1_000)
        self.quotas = ClientQuotas(windows, windows, self.clock, self.metrics)
        self.limit(ANYONE, **limits)

    def limit(self, entity: Any, **limits: float | None) -> None:
        for key, value in limits.items():
            self.quotas.apply(quota_record(quota_entity(entity), key, value))

    def request(self, api_key: int, size: int = 104, client_id: str | None = "app") -> Request:
        header = RequestHeader(api_key, 9, 1, client_id)
        return Request(FakeConnection(), header, None, frame_bytes=size)

    def answer(self, request: Request, response: Any) -> tuple[Any, list[int]]:
        """Return the answer, and for how long its connection is muted."""
        answer = self.quotas.answer(request, response)
        connection: Any = request.connection
        return answer, connection.throttled

    def produce(self, size: int, **client: Any) -> list[int]:
        answer, muted = self.answer(
            self.request(ApiKey.PRODUCE, size + 4, **client), ProduceResponse()
        )
        assert answer.throttle_time_ms == (muted[0] if muted else 0)
        return muted

    def fetch(self, records: bytes) -> tuple[int, list[int]]:
        partition = PartitionData(partition_index=0, high_watermark=9, records=records)
        topic = FetchableTopicResponse(topic="t", partitions=[partition])
        answer, muted = self.answer(
            self.request(ApiKey.FETCH), FetchResponse(session_id=0, responses=[topic])
        )
        assert answer.throttle_time_ms == (muted[0] if muted else 0)
        return sum(len(one.records) for all_ in answer.responses for one in all_.partitions), muted


def test_produced_bytes_are_those_of_requests_without_their_length() -> None:
    rig = Rig(producer_byte_rate=10_000)
    assert rig.produce(100_000) == []
    assert rig.produce(50_000) == [5_000]
    assert rig.metrics.requests_throttled == 1
    rig.clock.advance(5_000)
    assert rig.produce(1_000) == [5_100]
    rig.clock.advance(11_000)
    assert rig.produce(1_000) == []


def test_without_an_answer_bytes_count_and_the_connection_is_muted() -> None:
    rig = Rig(producer_byte_rate=10_000, request_percentage=0.000001)
    assert rig.answer(rig.request(ApiKey.PRODUCE, 200_004), None) == (None, [10_000])


def test_clients_without_a_quota_are_not_counted() -> None:
    rig = Rig()
    rig.limit([("client-id", "app")], producer_byte_rate=1)
    assert rig.produce(10**9, client_id="other") == []
    assert rig.metrics.quota_sensors_now == 0
    assert rig.produce(11)
    assert rig.produce(10**9, client_id=None) == []


def test_a_user_shares_a_quota_over_its_client_ids_and_a_client_id_over_users() -> None:
    rig = Rig()
    rig.limit([("user", "ANONYMOUS")], producer_byte_rate=1_000)
    assert rig.produce(10_000, client_id="a") == []
    assert rig.produce(10_000, client_id="b") == [10_000]
    rig.limit([("user", "ANONYMOUS")], producer_byte_rate=None)
    assert rig.metrics.quota_sensors_now == 0
    rig.limit(ANYONE, producer_byte_rate=1_000)
    assert rig.produce(10_000, client_id="a") == []
    assert rig.produce(10_000, client_id="b") == []


def test_what_was_used_counts_against_a_new_limit() -> None:
    rig = Rig(producer_byte_rate=1_000_000)
    rig.produce(1_000_000)
    rig.limit(ANYONE, producer_byte_rate=50_000)
    assert rig.produce(0) == [10_000]


def test_a_fetch_over_its_quota_is_empty_and_does_not_count() -> None:
    rig = Rig(consumer_byte_rate=10_000)
    assert rig.fetch(b"x" * 99_000) == (99_000, [])
    size, muted = rig.fetch(b"x" * 20_000)
    assert size == 0
    assert 1_900 < muted[0] < 2_000
    rig.clock.advance(11_000)
    assert rig.fetch(b"x" * 20_000) == (20_000, [])


def test_a_fetch_asks_for_no_more_than_passes_when_nothing_else_counts() -> None:
    rig = Rig(consumer_byte_rate=10_000)
    request = rig.request(ApiKey.FETCH)
    assert rig.quotas.fetch_bytes_max(request, 1 << 30) == 100_000
    assert rig.quotas.fetch_bytes_max(request, 500) == 500
    rig.limit(ANYONE, consumer_byte_rate=None)
    assert rig.quotas.fetch_bytes_max(request, 1 << 30) == 1 << 30


def spend(rig: Rig, request: Request, ms: int) -> None:
    rig.quotas.begin()
    rig.clock.advance(ms)
    rig.quotas.handled(request)


def test_time_is_a_percentage_and_throttles_for_one_window_at_most() -> None:
    rig = Rig(request_percentage=1)  # 10 ms a second
    for spent_ms, muted in ((90, []), (12, [100]), (1_000, [1_000])):
        request = rig.request(ApiKey.HEARTBEAT)
        spend(rig, request, spent_ms)
        answer, found = rig.answer(request, HeartbeatResponse())
        assert found == pytest.approx(muted, abs=100)
        assert answer.throttle_time_ms == (found[0] if found else 0)


@pytest.mark.parametrize(
    "api_key", [ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE, ApiKey.WRITE_TXN_MARKERS]
)
def test_logins_and_markers_are_exempt(api_key: int) -> None:
    rig = Rig(request_percentage=0.001)
    request = rig.request(api_key)
    spend(rig, request, 500)
    answer = object()
    assert rig.answer(request, answer) == (answer, [])


def test_a_fetch_that_is_throttled_for_its_time_is_empty_too() -> None:
    rig = Rig(request_percentage=0.001, consumer_byte_rate=10**9)
    request = rig.request(ApiKey.FETCH)
    spend(rig, request, 500)
    partition = PartitionData(partition_index=0, high_watermark=9, records=b"abc")
    topic = FetchableTopicResponse(topic="t", partitions=[partition])
    answer, muted = rig.answer(request, FetchResponse(session_id=0, responses=[topic]))
    assert (answer.responses, muted) == ([], [1_000])


def test_the_longest_throttle_counts_and_a_shared_answer_is_not_changed() -> None:
    rig = Rig(producer_byte_rate=1_000, request_percentage=0.001)
    request = rig.request(ApiKey.PRODUCE, 30_004)
    spend(rig, request, 500)
    shared = ProduceResponse()
    answer, muted = rig.answer(request, shared)
    assert muted == [20_000]
    assert (answer.throttle_time_ms, shared.throttle_time_ms) == (20_000, 0)


async def test_the_steps_of_a_handler_that_waits_are_counted_and_its_cancellation_arrives() -> None:
    rig = Rig(request_percentage=1)
    request = rig.request(ApiKey.HEARTBEAT)
    request.spent_ns = 0
    seen: list[str] = []

    async def handler() -> str:
        rig.clock.advance(3)
        await asyncio.sleep(0)
        rig.clock.advance(4)
        try:
            await asyncio.sleep(3_600)
        except asyncio.CancelledError:
            seen.append("cancelled")
            rig.clock.advance(5)
        return "done"

    async def run() -> Any:
        return await rig.quotas.timed(request, handler())

    task = asyncio.ensure_future(run())
    for _ in range(3):
        await asyncio.sleep(0)
        rig.clock.advance(1_000)  # others run
    task.cancel()
    assert await task == "done"
    assert seen == ["cancelled"]
    assert request.spent_ns == 12 * MS_NS


def test_a_handler_that_nobody_goes_on_with_is_closed_once() -> None:
    """It runs without a task, so the collector of garbage may close it before what counts it."""
    rig = Rig(request_percentage=1)
    ended: list[int] = []

    async def handler(number: int) -> None:
        try:
            await asyncio.sleep(0)
        finally:
            ended.append(number)

    for number in (1, 2):
        request = rig.request(ApiKey.END_TXN)
        request.spent_ns = 0
        running = handler(number)
        timed = rig.quotas.timed(request, running)
        timed.send(None)
        if number == 1:
            running.close()
        timed.close()
    assert ended == [1, 2]


def test_the_sensors_of_clients_that_left_expire() -> None:
    rig = Rig(producer_byte_rate=1_000, controller_mutation_rate=1)
    for number in range(50):
        rig.produce(1, client_id=f"client-{number}")
        rig.quotas.mutations(rig.request(ApiKey.CREATE_TOPICS, client_id=f"client-{number}"), 6)
    assert rig.metrics.quota_sensors_now == 100
    rig.clock.advance(10_999)
    rig.quotas.expire()
    assert rig.metrics.quota_sensors_now == 50  # full buckets are like none
    rig.clock.advance(1)
    rig.quotas.expire()
    assert rig.metrics.quota_sensors_now == 0


def test_a_key_of_a_later_kafka_changes_nothing() -> None:
    rig = Rig(some_other_rate=1)
    assert not rig.quotas.is_any
    rig.limit(ANYONE, request_percentage=1)
    assert rig.quotas.is_any
