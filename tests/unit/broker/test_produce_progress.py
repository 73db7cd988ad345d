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
    TopicProduceResponse,
)
from tests.support.broker_rig import Rig


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
