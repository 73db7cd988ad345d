"""The requests about quotas, and what becomes of refusals."""

from typing import Any

import pytest

from client.kafka.connection import BrokerError, Connection
from client.kafka.quotas import QuotaRow, alter, quotas
from protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    AlteredQuota,
)
from protocol.messages.describe_client_quotas import (
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
    DescribedQuota,
    DescribedQuotaEntity,
    DescribedQuotaValue,
)
from tests.support.scripted_broker import ScriptedBroker


def described(request: DescribeClientQuotasRequest) -> Any:
    if any(one.match == "mallory" for one in request.components):
        return DescribeClientQuotasResponse(error_code=31, error_message="no", entries=None)
    parts = [("user", "bob"), ("client-id", None)]
    entities = [parts, [("user", "alice")]]
    return DescribeClientQuotasResponse(
        entries=[
            DescribedQuota(
                entity=[DescribedQuotaEntity(entity_type=k, entity_name=n) for k, n in entity],
                values=[
                    DescribedQuotaValue(key=key, value=value)
                    for key, value in (("request_percentage", 0.5), ("consumer_byte_rate", 7.0))
                ],
            )
            for entity in entities
        ]
    )


def altered(request: AlterClientQuotasRequest) -> Any:
    (entry,) = request.entries
    code = 42 if entry.ops[0].value == 13 else 0
    return AlterClientQuotasResponse(
        entries=[
            AlteredQuota(error_code=code, error_message="no luck" if code else None, entity=[])
        ]
    )


ANSWERS = {DescribeClientQuotasRequest: described, AlterClientQuotasRequest: altered}


def test_rows_are_sorted_and_name_the_user_first() -> None:
    with ScriptedBroker(ANSWERS) as broker, Connection(broker.address, 5) as connection:
        values = {"consumer_byte_rate": 7.0, "request_percentage": 0.5}
        assert quotas(connection, [("user", "alice"), ("client-id", None)]) == [
            QuotaRow([("user", "alice")], values),
            QuotaRow([("user", "bob"), ("client-id", None)], values),
        ]
    asked = broker.requests[-1].components
    assert [(one.match_type, one.match) for one in asked] == [(0, "alice"), (1, None)]


def test_refusals_name_their_reason() -> None:
    with ScriptedBroker(ANSWERS) as broker, Connection(broker.address, 5) as connection:
        with pytest.raises(BrokerError, match="not listed"):
            quotas(connection, [("user", "mallory")])
        with pytest.raises(BrokerError, match="no luck"):
            alter(connection, [("user", "a")], {"producer_byte_rate": 13.0})
        alter(connection, [("user", None)], {"producer_byte_rate": None})
    (operation,) = broker.requests[-1].entries[0].ops
    assert (operation.remove, operation.value) == (True, 0.0)
