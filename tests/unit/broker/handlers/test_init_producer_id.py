"""InitProducerId: ids that were never used before, and requests that are refused."""

import asyncio
from pathlib import Path

import pytest

from broker.transactions.transaction_states import EndReason
from protocol.errors import ErrorCode
from protocol.messages.init_producer_id import InitProducerIdRequest
from storage.errors import LogFailed
from tests.support.broker_rig import Rig
from tests.support.rig_client import ask, create
from tests.support.transaction_client import begin


def request(
    transactional_id: str | None = None,
    producer_id: int = -1,
    producer_epoch: int = -1,
    timeout_ms: int = 60_000,
) -> InitProducerIdRequest:
    return InitProducerIdRequest(
        transactional_id=transactional_id,
        transaction_timeout_ms=timeout_ms,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
    )


async def test_each_request_gets_its_own_id_in_every_version(rig: Rig) -> None:
    answers = [await ask(rig, request(), version) for version in range(6)]
    assert [answer.error_code for answer in answers] == [0] * 6
    assert [answer.producer_epoch for answer in answers] == [0] * 6
    assert len({answer.producer_id for answer in answers}) == 6
    assert all(answer.producer_id >= 0 for answer in answers)


@pytest.mark.parametrize(
    ("producer_id", "producer_epoch", "is_valid"),
    [
        (-1, -1, True),
        (5, 0, True),
        (10**9, 3, True),
        (5, 32_767, True),
        (-2, -2, True),
        (-5, 0, True),
        (5, -1, False),
        (-1, 5, False),
    ],
)
async def test_an_id_in_the_request_is_replaced(
    rig: Rig, producer_id: int, producer_epoch: int, is_valid: bool
) -> None:
    """KIP-360, as in Kafka 4.3 (tried): only transactional producers keep their id."""
    answer = await ask(rig, request(None, producer_id, producer_epoch), 3)
    if is_valid:
        assert (answer.error_code, answer.producer_epoch) == (0, 0)
        assert answer.producer_id >= 0
        assert answer.producer_id != producer_id
    else:
        assert answer.error_code == ErrorCode.INVALID_REQUEST
        assert (answer.producer_id, answer.producer_epoch) == (-1, -1)


async def test_older_versions_have_no_id_in_the_request(rig: Rig) -> None:
    assert (await ask(rig, request(None, 5, -1), 2)).error_code == 0


@pytest.mark.parametrize("version", range(6))
async def test_an_empty_transactional_id_is_refused(rig: Rig, version: int) -> None:
    answer = await ask(rig, request(""), version)
    assert answer.error_code == ErrorCode.INVALID_REQUEST
    assert (answer.producer_id, answer.producer_epoch) == (-1, -1)


@pytest.mark.parametrize(
    ("version", "code"),
    [(3, ErrorCode.INVALID_PRODUCER_EPOCH), (4, ErrorCode.PRODUCER_FENCED)],
)
async def test_a_fenced_producer_is_told_so_in_its_version(
    rig: Rig, version: int, code: ErrorCode
) -> None:
    producer = await begin(rig)
    first = (producer.producer_id, producer.epoch)
    assert [(await producer.init()).producer_epoch for _ in range(2)] == [1, 2]
    answer = await producer.init(expected=first, version=version)
    assert (answer.error_code, answer.producer_id) == (code, -1)


@pytest.mark.parametrize("by_operator", [True, False])
async def test_an_operator_ends_what_is_open_as_a_new_instance_does(
    rig: Rig, by_operator: bool
) -> None:
    producer = await begin(rig)
    await create(rig, "a", 1)
    assert not (await producer.produce()).error_code
    body = InitProducerIdRequest(
        transactional_id="t", transaction_timeout_ms=60_000, by_operator=by_operator
    )
    while (code := (await ask(rig, body, 5)).error_code) == ErrorCode.CONCURRENT_TRANSACTIONS:
        await asyncio.sleep(0.001)
    assert code == 0
    ended = rig.services.transactions.store.by_id["t"].last_end
    assert ended is not None
    assert not ended.is_commit
    assert ended.reason is (EndReason.OPERATOR if by_operator else EndReason.FENCED)


@pytest.mark.parametrize("timeout_ms", [0, -1])
async def test_the_timeout_is_ignored_without_a_transaction(rig: Rig, timeout_ms: int) -> None:
    assert (await ask(rig, request(timeout_ms=timeout_ms), 5)).error_code == 0


async def test_no_id_is_assigned_twice_across_a_restart(tmp_path: Path) -> None:
    seen = []
    for clean in (True, False, True):
        rig = Rig(tmp_path / "data")
        seen += [(await ask(rig, request(), 5)).producer_id for _ in range(3)]
        if clean:
            assert await rig.close()
        else:
            await rig.services.commit.drained()
            rig.services.logs.abandon()
            rig.services.pool.close()
    assert len(set(seen)) == len(seen)


async def test_a_failed_metadata_log_assigns_no_ids(tmp_path: Path) -> None:
    rig = Rig(tmp_path / "data")
    log = rig.services.controller.metadata_log.log
    log.failed = LogFailed("__cluster_metadata-0", "fsync failed")
    answer = await ask(rig, request(), 5)
    assert answer.error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert (answer.producer_id, answer.producer_epoch) == (-1, -1)
    assert not await rig.close()
