"""SaslAuthenticate where no authentication is in progress: on a listener without SASL."""

import pytest

from protocol.errors import ErrorCode
from protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from tests.support.broker_rig import Rig


@pytest.mark.parametrize("version", [0, 1, 2])
async def test_it_is_out_of_turn(rig: Rig, version: int) -> None:
    answer = await rig.call(SaslAuthenticateRequest(auth_bytes=b"\0a\0b"), version)
    assert answer.error_code == ErrorCode.ILLEGAL_SASL_STATE
    assert answer.error_message == (
        "SaslAuthenticate request received after successful authentication"
    )
