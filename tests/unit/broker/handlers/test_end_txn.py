"""EndTxn: what each version answers; the rules are tested beside broker/transactions."""

import pytest

from protocol.errors import ErrorCode
from protocol.messages.end_txn import EndTxnRequest
from tests.support.rig_client import ask, create
from tests.support.transaction_client import SETTINGS, begin


@pytest.fixture
def settings():
    return SETTINGS


@pytest.mark.parametrize(
    ("version", "code"),
    [(0, ErrorCode.INVALID_PRODUCER_EPOCH), (1, 47), (2, ErrorCode.PRODUCER_FENCED), (5, 90)],
)
async def test_a_fenced_producer_is_told_so_in_its_version(rig, version, code):
    producer = await begin(rig)
    producer.epoch = 9
    assert await producer.end(version=version) == code


@pytest.mark.parametrize("version", range(6))
async def test_only_new_versions_have_ids_in_the_answer(rig, version):
    producer = await begin(rig)
    await create(rig, "a")
    await producer.add("a", [0])
    body = EndTxnRequest(
        transactional_id="t", producer_id=producer.producer_id, producer_epoch=0, committed=True
    )
    answer = await ask(rig, body, version)
    ids = (producer.producer_id, 1) if version >= 5 else (-1, -1)
    assert (answer.error_code, answer.producer_id, answer.producer_epoch) == (0, *ids)


@pytest.mark.parametrize(
    ("transactional_id", "code"),
    [("", ErrorCode.INVALID_REQUEST), ("unknown", ErrorCode.INVALID_PRODUCER_ID_MAPPING)],
)
async def test_an_unknown_id(rig, transactional_id, code):
    producer = await begin(rig)
    producer.transactional_id = transactional_id
    assert await producer.end() == code
