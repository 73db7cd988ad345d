"""What a broker that only reads is asked in vain: every API that would change something.

Each answer must refuse, in every place that has a code: nothing of a request may be done. What the
broker does read goes to the judges as from any client.
"""

from __future__ import annotations

from typing import Any, Final

from broker.read_only.refusals import REFUSED
from protocol.errors import ErrorCode
from protocol.kafka.schema import read_layout
from protocol.messages.produce import ProduceRequest
from tests.simulation.clients.caller import Caller, codes_of
from tests.simulation.clients.committed import fetch
from tests.simulation.clients.describers import drawn
from tests.simulation.clients.groups import SIMPLE_GROUPS
from tests.simulation.clients.wire import HANDLER_OF
from tests.simulation.context import Context
from tests.simulation.plan import ClientPlan

REFUSALS: Final = frozenset(
    {
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.GROUP_AUTHORIZATION_FAILED,
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        ErrorCode.POLICY_VIOLATION,
    }
)


async def ask_in_vain(context: Context) -> list[str]:
    """Ask for changes, and read offsets; return what was not refused."""
    caller = Caller(context, ClientPlan(name="asker of a still", kind="asker", steps=0))
    found = []
    try:
        for key in sorted(REFUSED):
            handler = HANDLER_OF[int(key)]
            version = handler.max_version  # older ones lack some of the codes
            body: Any = drawn(read_layout(handler.request, version), caller.rng)
            if isinstance(body, ProduceRequest):
                body.acks = 1
            answer = await caller.ask(body, version)
            codes = codes_of(answer) if answer is not None else []
            if kept := [code for code in codes if code not in REFUSALS]:
                found.append(f"{handler.name} {version} is not refused: codes {kept}: {body}")
        topics = await caller.look()
        places = [(topic, number) for topic in topics for number in range(topic.count)]
        if places:
            await fetch(caller, SIMPLE_GROUPS, places)
    finally:
        caller.wire.close()
    return found
