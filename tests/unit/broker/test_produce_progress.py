"""What becomes of the partitions of a Produce request, and when it is answered."""

from pathlib import Path
from types import GeneratorType
from typing import Any

import pytest

from broker.produce_progress import ProduceProgress
from broker.runtime.request import Pending
from broker.runtime.steps import finished
from protocol.errors import ErrorCode
from protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    TopicProduceData,
    TopicProduceResponse,
)
from tests.support.broker_rig import Rig, batch
from tests.support.rig_client import create


@pytest.mark.parametrize("is_large", [False, True])
async def test_the_last_partition_sends_the_answer(tmp_path: Path, *, is_large: bool) -> None:
    rig = Rig(tmp_path / "data")
    request = rig.connection.request(ProduceRequest(acks=-1, timeout_ms=5), version=9)
    progress = ProduceProgress(request, rig.services, None)
    progress.is_large = is_large
    first, second = (PartitionProduceResponse(index=index) for index in range(2))
    progress.response.responses = [
        TopicProduceResponse(name="t", partition_responses=[first, second])
    ]
    progress.outstanding = 2
    progress.pending = Pending()
    progress.committed(first, ErrorCode.NONE)
    assert not progress.pending.done
    progress.committed(second, ErrorCode.REQUEST_TIMED_OUT)
    sent: Any = progress.pending.response
    assert isinstance(sent, GeneratorType) == is_large
    assert (finished(sent) if is_large else sent) is progress.response
    assert (first.error_code, second.error_code) == (0, ErrorCode.REQUEST_TIMED_OUT)
    assert progress.failures == {ErrorCode.REQUEST_TIMED_OUT}
    assert await rig.close()


async def test_refused_partitions_are_answered_and_counted(tmp_path: Path) -> None:
    rig = Rig(tmp_path / "data")
    request = rig.connection.request(ProduceRequest(acks=1, timeout_ms=5), version=9)
    progress = ProduceProgress(request, rig.services, None)
    code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    partitions = [PartitionProduceData(index=index) for index in (3, 4)]
    answers = progress.refused_each(partitions, code)
    assert [(one.index, one.error_code, one.base_offset) for one in answers] == [
        (3, code, -1),
        (4, code, -1),
    ]
    assert progress.failures == {code}
    assert rig.services.metrics.traffic.failed_produces == 2
    assert await rig.close()


@pytest.mark.parametrize(
    "configs", [{"cleanup_policy": "compact"}, {"message_timestamp_before_max_ms": "1000"}]
)
async def test_an_answer_names_a_bounded_number_of_records(
    tmp_path: Path, configs: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("broker.produce_progress.NAMED_MAX", 5)
    rig = Rig(tmp_path / "data")
    await create(rig, **configs)
    records = batch(b"a", b"b", b"c")
    body = ProduceRequest(
        acks=1,
        timeout_ms=5_000,
        topic_data=[
            TopicProduceData(
                name="t",
                partition_data=[PartitionProduceData(index=0, records=records) for _ in range(3)],
            )
        ],
    )
    answers = (await rig.call(body, 9)).responses[0].partition_responses
    assert [len(one.record_errors) for one in answers] == [3, 2, 0]
    assert all(one.error_code and one.error_message for one in answers)
    assert await rig.close()
