"""The gate of a listener with SASL: each state, each API in it, delays, silence, login again.

A real connection and a real processor with Kafka's dialect, without a socket.
"""

import asyncio
import struct
from typing import Any

import pytest

from broker.network.logins.sasl_gate import FRAME_BYTES_MAX
from broker.runtime.request import ANONYMOUS
from protocol.errors import ErrorCode
from protocol.kafka.dialect import KafkaDialect
from protocol.messages.api_versions import ApiVersionsRequest
from protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from protocol.messages.sasl_handshake import SaslHandshakeRequest
from tests.support.login_rig import Rig, frame_of, read

# -- the way in ------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [0, 1, 2])
async def test_a_login_in_two_steps_opens_the_gate(version: int) -> None:
    rig = Rig()
    assert (await rig.handshake()).mechanisms == ["PLAIN", "OTHER"]
    step = await rig.token(b"more", version)
    assert (step.error_code, step.auth_bytes) == (0, b"go on")
    assert rig.connection.info.principal == ANONYMOUS
    last = await rig.token(b"user:alice", version)
    assert (last.error_code, last.auth_bytes, last.session_lifetime_ms) == (0, b"welcome", 0)
    assert rig.connection.info.principal == "User:alice"
    await rig.send(MetadataRequest(topics=[]), 1)
    assert [request.header.api_key for request in rig.passed()] == [3]
    assert (rig.metrics.logins, rig.metrics.logins_failed) == (1, 0)
    rig.assert_at_rest()


async def test_tokens_of_version_0_are_bare_frames() -> None:
    rig = Rig()
    assert (await rig.handshake(version=0)).error_code == 0
    rig.receive(b"\0\0\0\4more")
    assert await rig.written() == b"\0\0\0\5go on"
    rig.receive(b"\0\0\0\nuser:alice")
    assert await rig.written() == b"\0\0\0\7welcome"
    assert rig.connection.info.principal == "User:alice"


async def test_versions_are_answered_once_and_before_the_handshake() -> None:
    rig = Rig()
    await rig.send(ApiVersionsRequest(), 0)
    assert [request.header.api_version for request in rig.passed()] == [0]
    await rig.send(ApiVersionsRequest(), 0)
    assert rig.passed() == []
    assert rig.transport.ended == "aborted"


async def test_a_version_that_is_not_served_may_be_asked_again() -> None:
    rig = Rig()
    rig.receive(struct.pack(">ihhihb", 11, 18, 99, 7, -1, 0))
    await rig.pump()
    await rig.send(ApiVersionsRequest(), 0)
    assert [request.header.api_version for request in rig.passed()] == [99, 0]
    assert rig.transport.ended == ""


# -- out of turn -----------------------------------------------------------------------------------


@pytest.mark.parametrize("after_versions", [False, True])
@pytest.mark.parametrize(
    "data",
    [
        frame_of(MetadataRequest(topics=[]), 1),
        frame_of(SaslAuthenticateRequest(auth_bytes=b"user:alice"), 1),
        frame_of(SaslHandshakeRequest(mechanism=""), 1).replace(b"\0\1\0\0\0\7", b"\0\2\0\0\0\7"),
        b"\0\0\0\0",
        b"\0\0\0\1x",
        struct.pack(">i", FRAME_BYTES_MAX + 1),
        b"\xff\xff\xff\xff",
        b"GET / HTTP/1.1\r\n",
        struct.pack(">ihhih", 10, 999, 0, 7, -1),
    ],
)  # fmt: skip
async def test_anything_else_before_the_handshake_closes(data: bytes, after_versions: bool) -> None:
    rig = Rig()
    if after_versions:
        await rig.send(ApiVersionsRequest(), 0)
    rig.receive(data)
    assert await rig.written() == b""
    assert rig.transport.ended == "aborted"
    assert rig.metrics.protocol_errors == 1
    assert rig.connection.info.principal == ANONYMOUS
    rig.assert_at_rest()


async def test_nothing_is_decoded_before_the_handshake(monkeypatch: pytest.MonkeyPatch) -> None:
    def decoded(*_: object, **__: object) -> None:
        raise AssertionError("decoded")

    monkeypatch.setattr(KafkaDialect, "decode_request", decoded)
    rig = Rig()
    await rig.send(MetadataRequest(topics=[MetadataRequestTopic(name="t")] * 1000), 1)
    assert rig.transport.ended == "aborted"


async def test_an_unknown_mechanism_gets_the_list_and_the_end() -> None:
    rig = Rig()
    answer = await rig.handshake("GSSAPI")
    assert answer.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM
    assert answer.mechanisms == ["PLAIN", "OTHER"]
    assert rig.transport.ended == "closed"
    assert rig.metrics.logins_failed == 1
    rig.assert_at_rest()


async def test_a_second_handshake_instead_of_a_token() -> None:
    rig = Rig()
    await rig.handshake()
    answer = await rig.handshake()
    assert (answer.error_code, answer.mechanisms) == (ErrorCode.ILLEGAL_SASL_STATE, [])
    assert rig.transport.ended == "closed"


async def test_another_api_after_the_handshake_gets_an_error_in_its_own_shape() -> None:
    rig = Rig()
    await rig.handshake()
    body = MetadataRequest(topics=[MetadataRequestTopic(name="t")])
    answer = read(await rig.send(body, 1), MetadataResponse, 1)
    assert [topic.error_code for topic in answer.topics] == [ErrorCode.ILLEGAL_SASL_STATE]
    assert rig.transport.ended == "closed"
    assert rig.passed() == []


async def test_a_large_request_after_the_handshake_is_not_even_decoded() -> None:
    rig = Rig()
    await rig.handshake()
    body = MetadataRequest(topics=[MetadataRequestTopic(name="t")] * 5000)
    assert await rig.send(body, 1) == b""
    assert rig.transport.ended == "aborted"


async def test_a_refused_login_says_so_and_ends() -> None:
    rig = Rig()
    await rig.handshake()
    answer = await rig.token(b"wrong")
    assert (answer.error_code, answer.error_message) == (58, "no")
    assert (rig.transport.ended, rig.metrics.logins_failed) == ("closed", 1)
    assert rig.metrics.protocol_errors == 0
    rig.assert_at_rest()


async def test_a_refused_raw_token_gets_no_byte() -> None:
    rig = Rig()
    await rig.handshake(version=0)
    rig.receive(b"\0\0\0\5wrong")
    assert await rig.written() == b""
    assert rig.transport.ended == "closed"


async def test_a_crash_of_a_mechanism_ends_the_connection_only(failures: list[Any]) -> None:
    rig = Rig()
    await rig.handshake()
    await rig.send(SaslAuthenticateRequest(auth_bytes=b"crash"), 1)
    assert rig.transport.ended == "aborted"
    assert len(failures) == 1
    rig.assert_at_rest()


@pytest.fixture
async def failures() -> list[Any]:
    found: list[Any] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: found.append(context))
    return found


# -- time ------------------------------------------------------------------------------------------


async def test_a_failure_is_delayed_and_nothing_is_read_meanwhile() -> None:
    rig = Rig(delay_ms=30)
    await rig.handshake()
    assert await rig.send(SaslAuthenticateRequest(auth_bytes=b"wrong"), 1) == b""
    assert not rig.transport.reading
    assert (rig.transport.ended, rig.metrics.logins_failed) == ("", 1)
    await asyncio.sleep(0.05)
    assert read(await rig.written(), SaslAuthenticateResponse, 1).error_code == 58
    assert rig.transport.ended == "closed"


async def test_the_answer_comes_before_the_end() -> None:
    rig = Rig(linger_s=0.03)
    await rig.handshake()
    answer = await rig.send(SaslAuthenticateRequest(auth_bytes=b"wrong"), 1)
    assert read(answer, SaslAuthenticateResponse, 1).error_code == 58
    assert (rig.transport.ended, rig.transport.reading) == ("", False)
    await asyncio.sleep(0.05)
    assert rig.transport.ended == "closed"


async def test_a_client_that_leaves_with_the_answer_leaves_nothing() -> None:
    rig = Rig(linger_s=0.01)
    await rig.handshake()
    await rig.send(SaslAuthenticateRequest(auth_bytes=b"wrong"), 1)
    rig.assert_at_rest()
    await asyncio.sleep(0.02)
    assert await rig.written() == b""


async def test_a_client_that_leaves_during_the_delay_leaves_nothing() -> None:
    rig = Rig(delay_ms=20)
    await rig.handshake()
    await rig.send(SaslAuthenticateRequest(auth_bytes=b"wrong"), 1)
    rig.assert_at_rest()
    await asyncio.sleep(0.04)
    assert await rig.written() == b""


async def test_a_login_that_takes_long_holds_only_its_own_connection() -> None:
    rig = Rig()
    await rig.handshake()
    assert await rig.send(SaslAuthenticateRequest(auth_bytes=b"later:alice"), 1) == b""
    assert not rig.transport.reading
    rig.clock.advance(60_000)
    rig.processor.sweep()
    assert rig.transport.ended == ""
    rig.opened.set()
    assert read(await rig.written(), SaslAuthenticateResponse, 1).error_code == 0
    assert rig.connection.info.principal == "User:alice"
    assert rig.transport.reading


@pytest.mark.parametrize(("name", "said"), [("refused", "no"), ("many", "busy")])
async def test_a_login_that_takes_long_may_be_refused(name: str, said: str) -> None:
    rig = Rig()
    await rig.handshake()
    await rig.send(SaslAuthenticateRequest(auth_bytes=f"later:{name}".encode()), 1)
    rig.opened.set()
    answer = read(await rig.written(), SaslAuthenticateResponse, 1)
    assert answer.error_code == 58
    assert said in answer.error_message
    rig.assert_at_rest()


async def test_a_client_that_leaves_while_its_login_is_checked_leaves_nothing() -> None:
    rig = Rig()
    await rig.handshake()
    await rig.send(SaslAuthenticateRequest(auth_bytes=b"later:alice"), 1)
    rig.assert_at_rest()
    rig.opened.set()
    await rig.pump()
    assert (rig.metrics.logins, rig.connection.info.principal) == (0, ANONYMOUS)


async def test_silence_before_the_login_ends_a_connection_and_after_it_does_not() -> None:
    silent, done = Rig(), Rig()
    await done.handshake()
    await done.token(b"user:alice")
    for rig in (silent, done):
        rig.clock.advance(10_001)
        rig.processor.sweep()
    assert (silent.transport.ended, done.transport.ended) == ("aborted", "")
    assert silent.metrics.logins_timed_out == 1


async def test_each_step_may_take_its_time() -> None:
    rig = Rig()
    for _ in range(3):
        rig.clock.advance(9_000)
        rig.processor.sweep()
        await (rig.token(b"more") if rig.metrics.logins_failed else rig.handshake())
        rig.metrics.logins_failed = 1  # from now on tokens
    assert rig.transport.ended == ""
    rig.clock.advance(10_001)
    rig.processor.sweep()
    assert rig.transport.ended == "aborted"


async def test_one_frame_at_a_time_is_read_before_the_login() -> None:
    rig = Rig()
    data = frame_of(SaslHandshakeRequest(mechanism="PLAIN"), 1)
    buffer = rig.connection.get_buffer(-1)
    assert len(buffer) == 4
    del buffer
    rig.receive(data)
    assert not rig.transport.reading
    await rig.pump()
    assert rig.transport.reading


async def test_after_the_login_frames_have_the_usual_size() -> None:
    rig = Rig()
    await rig.handshake()
    await rig.token(b"user:alice")
    assert len(rig.connection.get_buffer(-1)) > FRAME_BYTES_MAX
    rig.receive(struct.pack(">i", FRAME_BYTES_MAX + 1))
    await rig.pump()
    assert rig.transport.ended == ""
