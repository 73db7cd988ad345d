"""Requests that a coordinator of groups or of transactions answers: finding it, asking it again.

A broker that has just started loads what it coordinates; commands wait for that for a while. A
broker that is not the coordinator is asked to name it, which also has the internal topic created.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Final

from client.codes import code_of, code_text
from client.kafka.connection import BrokerError, Connection
from protocol.errors import ErrorCode

RETRY_S: Final = 0.2
TRIES: Final = 50
ELSEWHERE: Final = (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE)


def find_coordinator(connection: Connection, kind: int, key: str) -> str:
    """Have the internal topic created; return the coordinator's address, "" while there is none."""
    from protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse

    request = FindCoordinatorRequest(key=key, key_type=kind, coordinator_keys=[key])
    version_min = 1 if kind else 0  # that has the field
    answer = connection.call(request, FindCoordinatorResponse, version_min=version_min)
    found = answer.coordinators[0] if answer.coordinators else answer
    return "" if found.error_code else f"{found.host}:{found.port}"


def ask_patiently(
    connection: Connection,
    coordinator: tuple[int, str],
    ask: Callable[[], tuple[Any, int]],
    failure: str,
    is_worth_waiting: Callable[[ErrorCode], bool],
    *,
    wait: Callable[[float], None] = time.sleep,
) -> Any:
    """Repeat a request until the coordinator is ready; return its answer.

    `coordinator`: its kind, and the group or transactional id, "" for a request about all. `ask`
    returns an answer with its error code. Raises BrokerError: at once for codes that are not worth
    waiting for, and after TRIES.
    """
    number = 0
    advice = ""
    for attempt in range(TRIES):
        if attempt:
            wait(RETRY_S)
        answer, number = ask()
        if not number:
            return answer
        code = code_of(number)
        if code in ELSEWHERE and coordinator[1]:
            where = find_coordinator(connection, *coordinator)
            advice = f" Its coordinator is {where}: ask there (--bootstrap)." if where else ""
        elif not is_worth_waiting(code):
            break
    raise BrokerError(f"{failure}: {code_text(number)}{advice}")
