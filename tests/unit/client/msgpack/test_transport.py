"""Concurrent requests, their answers, and invalid answers."""

from __future__ import annotations

import asyncio
import struct

import msgpack
import pytest

from client.addresses import Address
from client.logins import Login
from client.msgpack.transport import (
    NotConnected,
    RequestRefused,
    Topics,
    Transport,
    TransportError,
    UnknownPlace,
    now_ms,
)
from tests.support.msgpack_peer import NO_ANSWER, MsgpackPeer, metadata


async def test_a_peer_that_closes_the_connection_may_speak_another_protocol():
    async with MsgpackPeer(lambda _api, _body: None) as peer:
        transport = Transport(peer.address, 5)
        with pytest.raises(TransportError, match=r"hung up\. Is this the address of its MSGPACK"):
            await transport.call("metadata", {})
        transport.close()


async def test_a_refused_connection_is_explained():
    async with MsgpackPeer(lambda _api, _body: None) as peer:
        address = peer.address
    with pytest.raises(NotConnected, match=f"at {address}: Connection refused. Is it running"):
        await Transport(address, 5).open()


async def test_answers_match_their_requests_on_one_connection():
    async with MsgpackPeer(lambda api, body: {"api": api, "body": body}) as peer:
        transport = Transport(peer.address, 5)
        for api in ("metadata", "fetch"):
            assert await transport.call(api, {"a": b"1"}) == {"api": api, "body": {"a": b"1"}}
        transport.close()


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (None, "did not answer"),
        (b"\0\0\0\1\xc1", "does not speak msgpack"),
        (struct.pack(">I", 5) + msgpack.packb([77, {}]) + b"\0\0", "does not speak msgpack"),
        (struct.pack(">I", 3) + msgpack.packb([77, {}]), "answered request 77"),
        (
            struct.pack(">I", 3) + msgpack.packb([1, 5]),
            "expected a map|answered request 1 instead of 2",
        ),
        (b"\xff\xff\xff\xff", "announced an answer of 4294967295 bytes"),
    ],
)
async def test_an_invalid_answer_closes_the_connection(answer, said):
    async with MsgpackPeer(lambda *_: answer) as peer:
        transport = Transport(peer.address, 5)
        with pytest.raises(TransportError, match=said):
            await transport.call("fetch", {})
        with pytest.raises(TransportError, match=said):  # on another connection
            await transport.call("fetch", {})
        assert peer.connection_count == 2
        transport.close()


async def test_a_refusal_leaves_the_connection_open():
    refusal = {"error_code": 42, "error_message": "no such field"}
    async with MsgpackPeer(lambda *_: refusal) as peer:
        transport = Transport(peer.address, 5)
        with pytest.raises(RequestRefused, match="no such field"):
            await transport.call("fetch", {})
        with pytest.raises(RequestRefused):
            await transport.call("fetch", {})
        assert peer.connection_count == 1
        transport.close()


async def test_requests_in_flight_are_answered_in_order():
    held = []

    def answer(api, body):
        held.append(api)
        return {"api": api}

    async with MsgpackPeer(answer) as peer:
        transport = Transport(peer.address, 5)
        answers = [await transport.ask(f"api_{number}", {}) for number in range(7)]
        answers[2].cancel()  # the other requests must still get their own answers
        found = [(await one)["api"] for one in answers if not one.cancelled()]
        assert found == [f"api_{number}" for number in (0, 1, 3, 4, 5, 6)]
        assert peer.connection_count == 1
        transport.close()


async def test_a_lost_connection_fails_all_requests_and_the_next_one_reconnects():
    fates = [NO_ANSWER, NO_ANSWER, None, {"fine": 1}]
    async with MsgpackPeer(lambda *_: fates.pop(0)) as peer:
        transport = Transport(peer.address, 5)
        answers = [await transport.ask("fetch", {}) for _ in range(3)]
        for one in answers:
            with pytest.raises(TransportError, match="hung up"):
                await one
        assert await transport.call("fetch", {}) == {"fine": 1}
        transport.close()


async def test_a_late_answer_fails_all_waiting_requests():
    async with MsgpackPeer(lambda *_: NO_ANSWER) as peer:
        transport = Transport(peer.address, 60)
        await transport.open()
        transport._timeout_s = 0.05  # for answers only; connecting may take longer
        answers = [await transport.ask("fetch", {}, wait_ms=wait_ms) for wait_ms in (10, 9_000_000)]
        for one in answers:
            with pytest.raises(TransportError, match=r"took longer than 0\.06 s"):
                await one


async def test_concurrent_callers_share_one_connection():
    async with MsgpackPeer(lambda api, _: {"api": api}) as peer:
        transport = Transport(peer.address, 5)
        found = await asyncio.gather(*(transport.call(name, {}) for name in "abc"))
        assert [one["api"] for one in found] == ["a", "b", "c"]
        assert peer.connection_count == 1
        transport.close()


@pytest.mark.parametrize("address", ["nowhere", ":9094", "127.0.0.1:x", "127.0.0.1:1"])
async def test_an_unreachable_address_is_reported(address):
    with pytest.raises(NotConnected, match=r"address of its listener|expected HOST:PORT"):
        await Transport(address, 5).open()


async def test_a_topic_is_requested_once_until_forgotten():
    async with MsgpackPeer(lambda *_: metadata(3)) as peer:
        transport = Transport(peer.address, 5)
        topics = Topics(transport)
        assert topics.known("t") is None
        for _ in range(3):
            assert await topics.find("t", create=False) == (b"i" * 16, 3)
        assert topics.known("t") == b"i" * 16
        topics.forget()
        await topics.find("t", create=True)
        transport.close()
    assert [body["allow_auto_topic_creation"] for _, body in peer.asked] == [False, True]


async def test_an_unknown_topic_is_reported_by_name():
    answer = metadata(0)
    answer["topics"][0]["error_code"] = 3
    async with MsgpackPeer(lambda *_: answer) as peer:
        transport = Transport(peer.address, 5)
        with pytest.raises(UnknownPlace, match="'t': UNKNOWN_TOPIC_OR_PARTITION"):
            await Topics(transport).find("t", create=False)
        transport.close()


async def test_a_login_that_ends_soon_ends_when_everything_is_answered():
    """The next request waits for the answers before it, and opens another connection."""
    lasts_ms = 60_000

    def answer(api, _body):
        if api == "sasl_authenticate":
            return {"error_code": 0, "auth_bytes": b"", "session_lifetime_ms": lasts_ms}
        return {"error_code": 0, "mechanisms": ["PLAIN"]}

    async with MsgpackPeer(answer) as peer:
        transport = Transport(Address(peer.address, None, Login("PLAIN", "a", "b")), 5)
        for _ in range(3):
            await transport.call("metadata", {})
        assert peer.connection_count == 1
        assert transport._login_until_s > now_ms() / 1000
        first = await transport.ask("metadata", {})
        assert not first.done()
        transport._login_until_s, lasts_ms = 0.0, 0
        await transport.call("metadata", {})
        assert (await first)["error_code"] == 0
        assert peer.connection_count == 2
        assert transport._login_until_s is None
        transport.close()
