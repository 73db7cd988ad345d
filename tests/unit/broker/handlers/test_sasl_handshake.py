"""SaslHandshake where no authentication can begin: on a listener without SASL."""

import pytest

from protocol.errors import ErrorCode
from protocol.messages.sasl_handshake import SaslHandshakeRequest
from tests.support.broker_rig import Rig


@pytest.mark.parametrize("version", [0, 1])
async def test_it_is_out_of_turn(rig: Rig, version: int) -> None:
    answer = await rig.call(SaslHandshakeRequest(mechanism="PLAIN"), version)
    assert answer.error_code == ErrorCode.ILLEGAL_SASL_STATE
    assert answer.mechanisms == []
