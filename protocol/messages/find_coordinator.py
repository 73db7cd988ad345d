"""FindCoordinator, API key 10, versions 0 to 6: which broker looks after a group or a transaction.

Version notes
- 0 knows groups only. 1: `key_type`, a message beside the error, `throttle_time_ms`. From 2 on a
  throttled answer is sent before the pause. 3: flexible.
- 4: many keys at once; results and their errors are in `coordinators` (KIP-699).
- 5: TRANSACTION_ABORTABLE may be answered (KIP-890). 6: `SHARE` may be asked for (KIP-932).

Source: FindCoordinatorRequest.json and FindCoordinatorResponse.json, Apache Kafka 4.3.
"""

from dataclasses import field
from typing import Annotated

from protocol.wire import Int8, Int16, Int32, Nullable, Since, String, Until, message, structure

GROUP = 0  # CoordinatorType in Kafka
TRANSACTION = 1
SHARE = 2


@message(api_key=10, kind="request", versions=(0, 6), flexible_since=3)
@structure
class FindCoordinatorRequest:
    """Group ids or transactional ids: `key` up to version 3, `coordinator_keys` from 4 on."""

    key: Annotated[String, Until(3)] = ""
    key_type: Annotated[Int8, Since(1)] = GROUP
    coordinator_keys: Annotated[list[String], Since(4)] = field(default_factory=list)


@structure
class Coordinator:
    """The broker of one key; with an error Kafka answers node -1, host "" and port -1."""

    key: String
    node_id: Int32
    host: String
    port: Int32
    error_code: Int16 = 0
    error_message: Annotated[String | None, Nullable()] = ""


@message(api_key=10, kind="response", versions=(0, 6), flexible_since=3)
@structure
class FindCoordinatorResponse:
    """Where the coordinator is: the fields of one up to version 3, `coordinators` from 4 on."""

    throttle_time_ms: Annotated[Int32, Since(1)] = 0
    error_code: Annotated[Int16, Until(3)] = 0
    error_message: Annotated[String | None, Since(1), Until(3), Nullable(since=1)] = ""
    node_id: Annotated[Int32, Until(3)] = 0
    host: Annotated[String, Until(3)] = ""
    port: Annotated[Int32, Until(3)] = 0
    coordinators: Annotated[list[Coordinator], Since(4)] = field(default_factory=list)
