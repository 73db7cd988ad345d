"""UnregisterBroker: refused, both for this broker and for unknown ones."""

import pytest

from protocol.errors import ErrorCode
from protocol.messages.unregister_broker import UnregisterBrokerRequest
from tests.support.broker_rig import Rig


@pytest.mark.parametrize(
    ("broker_id", "code", "text"),
    [
        (2, ErrorCode.BROKER_ID_NOT_REGISTERED, "Broker ID 2 is not currently registered"),
        (-1, ErrorCode.BROKER_ID_NOT_REGISTERED, "Broker ID -1 is not currently registered"),
        (1, ErrorCode.INVALID_REQUEST, "stop it"),
    ],
)
async def test_refusals(rig: Rig, broker_id: int, code: ErrorCode, text: str) -> None:
    answer = await rig.call(UnregisterBrokerRequest(broker_id=broker_id), 0)
    assert answer.error_code == code
    assert text in answer.error_message
