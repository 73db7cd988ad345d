"""PushTelemetry: what is taken, and everything refused."""

import pytest

from broker.handlers import push_telemetry
from broker.telemetry.client_telemetry import ONE_UUID
from protocol.api_keys import ApiKey
from protocol.compression import GZIP, LZ4, NONE, SNAPPY, ZSTD, compress
from protocol.errors import ErrorCode
from protocol.messages.push_telemetry import PushTelemetryRequest
from protocol.wire import ZERO_UUID
from tests.support.broker_rig import Rig
from tests.support.otlp_writer import gauge, point, pushed, total
from tests.support.rig_client import ask, create
from tests.support.rig_fetch import fetch, of
from tests.support.telemetry_client import PUSH, TelemetryClient

THROTTLED = ErrorCode.THROTTLING_QUOTA_EXCEEDED
BOMB = 16 << 20


@pytest.fixture
def client(rig: Rig) -> TelemetryClient:
    return TelemetryClient(rig)


@pytest.mark.parametrize("codec", [NONE, GZIP, SNAPPY, LZ4, ZSTD])
async def test_a_push_is_taken_in_each_codec(rig: Rig, client: TelemetryClient, codec: int) -> None:
    await client.ask()
    assert await client.push(compress(codec, PUSH), codec) == 0
    (found,) = rig.services.telemetry.figures
    assert [figure.value for figure in found.figures.values()] == [1.5]
    assert found.attributes["client_id"] == "test"
    assert found.resource == {"client_rack": "r"}
    assert rig.services.metrics.client_pushes == 1


async def test_pushes_keep_their_interval_and_counters_add_up(
    rig: Rig, client: TelemetryClient
) -> None:
    await client.ask()
    counted = pushed(total("c.total", point(3)))
    assert await client.push(counted) == 0
    assert await client.push(counted) == THROTTLED
    assert (await client.ask()).error_code == THROTTLED
    client.clock.advance(60_000)
    assert await client.push(counted) == 0
    assert rig.services.metrics.client_pushes_throttled == 2
    (found,) = rig.services.telemetry.figures
    assert [figure.value for figure in found.figures.values()] == [6]


async def test_nothing_is_taken_after_the_last_push(client: TelemetryClient) -> None:
    await client.ask()
    assert await client.push() == 0
    assert await client.push(terminating=True) == 0  # before its time
    assert await client.push() == ErrorCode.INVALID_REQUEST
    assert await client.push() == THROTTLED  # as in Kafka, the one before has reset it


async def test_the_last_push_does_not_wait_for_a_fetch(rig: Rig, client: TelemetryClient) -> None:
    await create(rig, "t")
    await client.ask()
    body = fetch(of(0, 0), max_wait_ms=600_000)
    waiting = client.connection.request(body, api_key=ApiKey.FETCH, version=12)
    rig.dispatcher.dispatch(waiting)
    assert await client.push() == 0
    assert waiting.buffers is None
    last = PushTelemetryRequest(
        client_instance_id=client.instance_id,
        subscription_id=client.subscription_id,
        terminating=True,
    )
    rig.dispatcher.dispatch(
        client.connection.request(last, api_key=ApiKey.PUSH_TELEMETRY, version=0)
    )
    assert waiting.buffers is not None
    assert rig.services.purgatory.parked_count == 0


@pytest.mark.parametrize("reserved", [ZERO_UUID, ONE_UUID])
async def test_a_reserved_id_is_refused(client: TelemetryClient, reserved: bytes) -> None:
    await client.ask()
    assert await client.push(client_instance_id=reserved) == ErrorCode.INVALID_REQUEST


REFUSED = {
    "an unknown codec": (b"x", 5, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
    "a negative codec": (b"x", -1, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
    "too many bytes": (bytes((1 << 20) + 1), NONE, ErrorCode.TELEMETRY_TOO_LARGE),
    "a bomb in gzip": (compress(GZIP, bytes(BOMB)), GZIP, ErrorCode.TELEMETRY_TOO_LARGE),
    "a bomb in zstd": (compress(ZSTD, bytes(BOMB)), ZSTD, ErrorCode.TELEMETRY_TOO_LARGE),
    "a bomb in lz4": (compress(LZ4, bytes(BOMB)), LZ4, ErrorCode.TELEMETRY_TOO_LARGE),
    "a bomb in snappy": (compress(SNAPPY, bytes(BOMB)), SNAPPY, ErrorCode.TELEMETRY_TOO_LARGE),
    "no gzip": (b"x" * 40, GZIP, ErrorCode.INVALID_RECORD),
    "gzip cut short": (compress(GZIP, PUSH)[:-9], GZIP, ErrorCode.INVALID_RECORD),
    "no zstd": (b"x" * 40, ZSTD, ErrorCode.INVALID_RECORD),
    "no metrics": (b"\xff" * 40, NONE, ErrorCode.INVALID_RECORD),
    "metrics cut short": (PUSH[:-1], NONE, ErrorCode.INVALID_RECORD),
    "cut short, then compressed": (compress(ZSTD, PUSH[:-1]), ZSTD, ErrorCode.INVALID_RECORD),
}


@pytest.mark.parametrize("name", REFUSED)
async def test_a_bad_push_is_refused_and_nothing_is_kept(
    rig: Rig, client: TelemetryClient, name: str
) -> None:
    metrics, codec, code = REFUSED[name]
    await client.ask()
    if len(metrics) > 1 << 20 and codec != NONE:
        metrics = metrics[: 1 << 20]
    assert await client.push(metrics, codec) == code
    assert list(rig.services.telemetry.figures) == []
    assert rig.services.metrics.client_pushes == 0


async def test_a_large_bound_is_decompressed_in_a_thread(
    rig: Rig, client: TelemetryClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(push_telemetry, "INLINE_MAX", 1)
    await client.ask()
    assert await client.push(compress(ZSTD, PUSH), ZSTD) == 0
    client.clock.advance(60_000)
    assert await client.push(b"x" * 40, ZSTD) == ErrorCode.INVALID_RECORD
    assert rig.services.metrics.client_pushes == 1


async def test_a_push_of_too_much_is_taken_in_part(rig: Rig, client: TelemetryClient) -> None:
    points = (point(1, partition=str(n)) for n in range(20_000))
    await client.ask()
    assert await client.push(pushed(gauge("g", *points))) == 0
    assert rig.services.metrics.client_pushes_cut == 1
    assert rig.services.metrics.client_series_now == 500


async def test_an_empty_push_is_taken(client: TelemetryClient) -> None:
    await client.ask()
    assert await client.push(b"") == 0


async def test_a_client_of_the_wire_is_answered(rig: Rig) -> None:
    answer = await ask(rig, PushTelemetryRequest(), 0)
    assert answer.error_code == ErrorCode.INVALID_REQUEST
