"""Transactional ids with their transactions, and users: as clients' tools list them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from broker.console.answers import data, data_of_parts, packed
from broker.console.inquiry import check
from broker.console.parameters import page_of
from broker.console.visitor import Visitor
from broker.console.walks import Turns, page_of_rows
from broker.http.http_messages import HttpAnswer, HttpRequest
from protocol.api_keys import ApiKey
from protocol.messages.describe_transactions import DescribeTransactionsRequest
from protocol.messages.describe_user_scram_credentials import DescribeUserScramCredentialsRequest
from protocol.messages.list_transactions import ListTransactionsRequest

if TYPE_CHECKING:
    from broker.console.console import Console

PAGE_MAX: Final = 200
LIST_VERSION: Final = 1
MECHANISMS: Final = {1: "SCRAM-SHA-256", 2: "SCRAM-SHA-512"}


async def transactions(request: HttpRequest, visitor: Visitor, console: Console) -> HttpAnswer:
    """GET transactions: a page of transactional ids, those with an open transaction first."""
    asked = ListTransactionsRequest()
    answer = await console.inquiry.ask(visitor, ApiKey.LIST_TRANSACTIONS, LIST_VERSION, asked)
    check(answer.error_code)
    listed = answer.transaction_states
    offset, limit = page_of(request, 100, PAGE_MAX)
    turns = Turns(console.services.clock)
    shown = await page_of_rows(listed, _open_first, offset, limit, turns)
    ids = [one.transactional_id for one in shown]
    found: list[dict[str, Any]] = []
    if ids:
        wanted = DescribeTransactionsRequest(transactional_ids=ids)
        key = ApiKey.DESCRIBE_TRANSACTIONS
        described = await console.inquiry.ask(visitor, key, 0, wanted)
        found = [_described(one) for one in described.transaction_states if not one.error_code]
    return data({"total": len(listed), "offset": offset, "transactions": found})


def _open_first(one: Any) -> tuple[bool, str]:
    return one.transaction_state != "Ongoing", one.transactional_id


def _described(one: Any) -> dict[str, Any]:
    end = one.last_end
    return {
        "transactional_id": one.transactional_id,
        "state": one.transaction_state,
        "producer_id": one.producer_id,
        "producer_epoch": one.producer_epoch,
        "timeout_ms": one.transaction_timeout_ms,
        "started_ms": one.transaction_start_time_ms,
        "topics": {part.topic: list(part.partitions) for part in one.topics},
        "last_end": None
        if end is None
        else {"committed": end.committed, "reason": end.reason, "time_ms": end.time_ms},
    }


async def users(request: HttpRequest, visitor: Visitor, console: Console) -> HttpAnswer:  # noqa: ARG001
    """GET users: those with SCRAM credentials, with their mechanisms."""
    asked = DescribeUserScramCredentialsRequest(users=None)
    key = ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS
    answer = await console.inquiry.ask(visitor, key, 0, asked)
    check(answer.error_code, answer.error_message)
    turns, found = Turns(console.services.clock), []
    for one in answer.results:
        if not one.error_code:
            found.append(packed(_user(one)))
        await turns.turn()
    return data_of_parts("users", found, {"total": len(found)})


def _user(one: Any) -> dict[str, Any]:
    return {
        "name": one.user,
        "credentials": [
            {
                "mechanism": MECHANISMS.get(each.mechanism, str(each.mechanism)),
                "iterations": each.iterations,
            }
            for each in one.credential_infos
        ],
    }
