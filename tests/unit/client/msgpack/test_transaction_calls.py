"""The msgpack requests of a transaction; the producer's tests cover what they answer."""

from __future__ import annotations

import pytest

from client.msgpack.transaction_calls import TransactionCalls
from client.msgpack.transport import Transport
from client.transactions.epoch import Epoch
from client.transactions.errors import RequestFailed
from client.transactions.transaction_settings import TransactionSettings
from tests.support.msgpack_peer import MsgpackPeer
from tests.support.scripted_msgpack import answers
from tests.support.scripted_transactions import ScriptedTransactions


async def test_an_epoch_is_asked_for_and_its_last_end():
    scripted = ScriptedTransactions()
    async with MsgpackPeer(answers(scripted)) as peer:
        transport = Transport(peer.address, 5)
        calls = TransactionCalls(transport, TransactionSettings())
        assert await calls.last_end("billing") is None
        epoch = await calls.initialize(Epoch("billing", -1, -1))
        assert epoch == ("billing", 0, 0)
        scripted.end_all("billing", "operator")
        found = await calls.last_end("billing")
        assert found.reason == "operator"
        transport.close()
        assert await calls.partition_count("orders") == 2
        transport.close()


async def test_a_request_that_the_broker_cannot_read_is_not_repeated():
    refusal = {"error_code": 42, "error_message": "end_txn: unknown field 'x'"}
    async with MsgpackPeer(lambda _api, _body: refusal) as peer:
        transport = Transport(peer.address, 5)
        calls = TransactionCalls(transport, TransactionSettings())
        with pytest.raises(RequestFailed, match="unknown field 'x'") as found:
            await calls.end(Epoch("billing", 0, 0), committed=True)
        assert found.value.code == 42
        transport.close()
