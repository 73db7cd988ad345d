"""Login again on an open connection, the end of sessions, and random orders of frames."""

import os
import random
import struct

import pytest

from broker.network.logins.sasl_gate import FRAME_BYTES_MAX, SILENCE_SECONDS_MAX
from broker.network.reading import Hold
from broker.runtime.request import ANONYMOUS
from protocol.errors import ErrorCode
from protocol.messages.api_versions import ApiVersionsRequest
from protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from protocol.messages.sasl_handshake import SaslHandshakeRequest
from tests.support.login_rig import Rig, frame_of, read

# -- login again -----------------------------------------------------------------------------------


async def logged_in(rig: Rig, user: str = "alice") -> SaslAuthenticateResponse:
    await rig.handshake()
    return await rig.token(f"user:{user}".encode())


@pytest.mark.parametrize(
    ("max_reauth_ms", "token_ms", "lifetime_ms"),
    [(6000, None, 6000), (0, 4000, 4000), (6000, 4000, 4000), (3000, 4000, 3000), (0, -5, 0)],
)
async def test_a_session_lasts_as_long_as_both_allow(
    max_reauth_ms: int, token_ms: int | None, lifetime_ms: int
) -> None:
    rig = Rig(max_reauth_ms=max_reauth_ms)
    rig.expires_at_ms = None if token_ms is None else rig.clock.now_ms() + token_ms
    assert (await logged_in(rig)).session_lifetime_ms == lifetime_ms
    rig.clock.advance(lifetime_ms)
    await rig.send(MetadataRequest(topics=[]), 1)
    assert len(rig.passed()) == 1
    rig.clock.advance(1)
    await rig.send(MetadataRequest(topics=[]), 1)
    assert (rig.passed(), rig.transport.ended) == ([], "aborted")
    assert rig.metrics.logins_expired == 1


async def test_a_login_again_renews_the_session_also_after_its_end() -> None:
    rig = Rig(max_reauth_ms=6000)
    await logged_in(rig)
    for wait_ms in (5000, 7000):
        rig.clock.advance(wait_ms)
        assert (await logged_in(rig)).session_lifetime_ms == 6000
    await rig.send(MetadataRequest(topics=[]), 1)
    assert len(rig.passed()) == 1
    assert rig.connection.account.reserved_bytes > 0
    rig.assert_at_rest()


async def test_another_principal_is_refused() -> None:
    rig = Rig(max_reauth_ms=6000)
    await logged_in(rig)
    answer = await logged_in(rig, "bob")
    assert answer.error_code == 58
    assert answer.error_message == (
        "Cannot change principals during re-authentication from User.alice: User.bob"
    )
    assert (rig.connection.info.principal, rig.transport.ended) == ("User:alice", "closed")
    rig.assert_at_rest()


async def test_another_mechanism_closes_at_the_next_frame() -> None:
    rig = Rig(max_reauth_ms=6000)
    await logged_in(rig)
    assert (await rig.handshake("OTHER")).error_code == 0
    assert await rig.send(SaslAuthenticateRequest(auth_bytes=b"user:alice"), 1) == b""
    assert rig.transport.ended == "aborted"


async def test_another_api_within_the_login_again_is_refused() -> None:
    rig = Rig(max_reauth_ms=6000)
    await logged_in(rig)
    await rig.handshake()
    body = MetadataRequest(topics=[MetadataRequestTopic(name="t")])
    answer = read(await rig.send(body, 1), MetadataResponse, 1)
    assert answer.topics[0].error_code == ErrorCode.ILLEGAL_SASL_STATE
    assert rig.passed() == []


async def test_frames_sent_behind_a_login_again_wait_for_it() -> None:
    rig = Rig(max_reauth_ms=6000)
    await logged_in(rig)
    rig.receive(
        frame_of(SaslHandshakeRequest(mechanism="PLAIN"), 1)
        + frame_of(SaslAuthenticateRequest(auth_bytes=b"later:alice"), 1)
        + frame_of(MetadataRequest(topics=[]), 1)
    )
    await rig.pump()
    assert rig.passed() == []
    rig.opened.set()
    await rig.pump()
    await rig.pump()
    assert len(rig.passed()) == 1


async def test_a_login_again_comes_at_most_once_a_second_and_only_if_logins_end() -> None:
    for max_reauth_ms, waits_ms, taken in ((0, (0,), 0), (60_000, (0, 500), 1)):
        rig = Rig(max_reauth_ms=max_reauth_ms)
        await logged_in(rig)
        handshakes = 0
        for wait_ms in waits_ms:
            rig.clock.advance(wait_ms)
            rig.receive(frame_of(SaslHandshakeRequest(mechanism="PLAIN"), 1))
            if await rig.written():
                handshakes += 1
                await rig.token(b"user:alice")
        assert handshakes == taken
        assert [request.header.api_key for request in rig.passed()] == [17]


@pytest.mark.parametrize("hold", [Hold.THROTTLED, Hold.QUEUE_FULL])
async def test_a_client_that_the_broker_holds_is_not_silent(hold: int) -> None:
    rig = Rig(max_reauth_ms=60_000)
    await logged_in(rig)
    await rig.handshake()
    rig.connection.reading.hold(hold)
    for _ in range(3):
        rig.clock.advance(SILENCE_SECONDS_MAX * 1000 - 500)
        rig.processor.sweep()
    rig.connection.release(hold)
    assert (await rig.token(b"user:alice")).error_code == 0
    await rig.handshake()
    rig.clock.advance(SILENCE_SECONDS_MAX * 1000 + 1)
    rig.processor.sweep()
    assert (rig.transport.ended, rig.metrics.logins_timed_out) == ("aborted", 1)


async def test_a_client_whose_answer_waits_behind_a_parked_request_is_not_silent() -> None:
    rig = Rig(max_reauth_ms=60_000)
    await logged_in(rig)
    await rig.send(MetadataRequest(topics=[]), 1)
    (parked,) = rig.passed()
    assert await rig.send(SaslHandshakeRequest(mechanism="PLAIN"), 1) == b""
    for _ in range(3):
        rig.clock.advance(SILENCE_SECONDS_MAX * 1000 - 500)
        rig.processor.sweep()
    rig.connection.respond(parked, (b"parked",))
    assert (await rig.written()).startswith(b"parked")
    assert (await rig.token(b"user:alice")).error_code == 0
    rig.assert_at_rest()


@pytest.mark.parametrize("version", [0, 1])
@pytest.mark.parametrize(("extra_bytes", "answers"), [(-100, True), (1, False)])
async def test_a_large_frame_within_a_login_again_reaches_no_mechanism(
    version: int, extra_bytes: int, *, answers: bool
) -> None:
    rig = Rig(max_reauth_ms=6000)
    await logged_in(rig)
    await rig.handshake(version=version)
    token = b"more:".ljust(FRAME_BYTES_MAX + extra_bytes, b"x")
    frame = struct.pack(">i", len(token)) + token
    if version:
        frame = frame_of(SaslAuthenticateRequest(auth_bytes=token), 1)
    rig.receive(frame)
    answered = b"go on" in await rig.written()
    assert (answered, rig.transport.ended == "aborted") == (answers, not answers)
    assert rig.metrics.protocol_errors == (not answers)
    rig.assert_at_rest()


@pytest.mark.parametrize("seed", range(30))
async def test_no_order_of_frames_lets_a_stranger_in(seed: int) -> None:
    """Random frames, never a token that logs in: nothing but ApiVersions passes."""
    rng = random.Random(seed)
    rig = Rig()
    makers = [
        lambda: frame_of(SaslHandshakeRequest(mechanism="PLAIN"), rng.choice((0, 1))),
        lambda: frame_of(SaslHandshakeRequest(mechanism="X"), 1),
        lambda: frame_of(SaslAuthenticateRequest(auth_bytes=rng.choice((b"more", b"no"))), 1),
        lambda: frame_of(MetadataRequest(topics=[]), 1),
        lambda: frame_of(ApiVersionsRequest(), 0),
        lambda: b"\0\0\0\4more",
        lambda: struct.pack(">i", 40) + os.urandom(40),
    ]  # fmt: skip
    for _ in range(20):
        if rig.transport.ended or not rig.transport.reading:
            break
        rig.receive(rng.choice(makers)())
        await rig.pump()
    assert {request.header.api_key for request in rig.passed()} <= {18}
    assert rig.connection.info.principal == ANONYMOUS
    rig.connection.connection_lost(None)
    assert not rig.connection.slots


# -- users who are removed -------------------------------------------------------------------------


async def test_a_removed_users_connection_ends_at_once() -> None:
    rig = Rig()
    there = [True]
    rig.still_holds = lambda: there[0]
    await logged_in(rig)
    gate = rig.connection.gate
    assert gate is not None
    assert not gate.end_if_removed()
    await rig.send(MetadataRequest(topics=[]), 1)
    assert len(rig.passed()) == 1
    there[0] = False
    assert gate.end_if_removed()
    assert (rig.transport.ended, rig.metrics.logins_removed) == ("aborted", 1)
    rig.assert_at_rest()


async def test_a_request_of_a_removed_user_reaches_no_handler() -> None:
    rig = Rig()
    there = [True]
    rig.still_holds = lambda: there[0]
    await logged_in(rig)
    there[0] = False
    await rig.send(MetadataRequest(topics=[]), 1)
    assert (rig.passed(), rig.transport.ended) == ([], "aborted")
    rig.assert_at_rest()
