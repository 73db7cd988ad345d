"""ListTransactions, API key 66, versions 0-2: the transactional ids that pass all filters.

Behaviour
- Lists ids in no order, since they may be a million. A filter that is empty lets all pass.
- States have Kafka's names, in their case. A name that is no state is answered in
  `unknown_state_filters`; if no other state was asked for, nothing is listed.
- The duration counts from the start of the last transaction, whether or not it is open, and an id
  that has had none passes: as in Kafka.
- The pattern must match the whole id. An invalid one is INVALID_REGULAR_EXPRESSION.
- While ids are being loaded, the list would not be complete: COORDINATOR_LOAD_IN_PROGRESS.

Version notes: 1 duration (KIP-994), 2 pattern (KIP-1152).
"""

from __future__ import annotations

from collections.abc import Callable

from broker.runtime.expressions import whole_matcher
from broker.runtime.request import Request
from broker.runtime.steps import Steps
from broker.services import Services
from broker.transactions.transaction import Transaction
from broker.transactions.transaction_errors import TransactionError
from broker.transactions.transaction_states import TransactionState as State
from protocol.errors import ErrorCode
from protocol.messages.list_transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
    TransactionState,
)

NO_FILTER = -1
ID_BYTES = 20  # of the answer, beside the id and the state
# Kafka knows these states too, and no id is ever listed in one.
NEVER_LISTED = frozenset(("Dead", "PrepareEpochFence"))


def handle(request: Request, services: Services) -> Steps:
    """List the ids that pass the filters."""
    body: ListTransactionsRequest = request.body
    try:
        matches = whole_matcher(body.transactional_id_pattern or "(?s).*")
    except ValueError:
        return error_response(request, ErrorCode.INVALID_REGULAR_EXPRESSION)
    try:
        found = list(services.transactions.all())
    except TransactionError as error:
        return error_response(request, error.code)
    names = {state.title for state in State} | NEVER_LISTED
    response = ListTransactionsResponse(
        unknown_state_filters=[name for name in body.state_filters if name not in names]
    )
    passes = _filter(body, services.clock.now_ms())
    for one in found:
        name = one.transactional_id
        if passes(one) and matches(name):
            title = one.state.title
            response.transaction_states.append(
                TransactionState(
                    transactional_id=name, producer_id=one.producer_id, transaction_state=title
                )
            )
            yield ID_BYTES + len(name) + len(title)
        else:
            yield 0
    return response


def _filter(body: ListTransactionsRequest, now_ms: int) -> Callable[[Transaction], bool]:
    states, producer_ids = set(body.state_filters), set(body.producer_id_filters)
    duration_ms = body.duration_filter

    def passes(one: Transaction) -> bool:
        return (
            (not states or one.state.title in states)
            and (not producer_ids or one.producer_id in producer_ids)
            and (duration_ms <= NO_FILTER or now_ms - one.started_ms > duration_ms)
        )

    return passes


def error_response(request: Request, code: ErrorCode) -> ListTransactionsResponse:  # noqa: ARG001
    """Return an answer with `code`."""
    return ListTransactionsResponse(error_code=code)
