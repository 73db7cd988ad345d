"""A row for each resource, in request order, with Kafka's null where there is no error."""

import pytest

from broker.configs.changes import Resource
from broker.configs.outcomes import answers, refusals
from broker.metadata.topic_rules import TopicError
from broker.runtime.steps import finished
from protocol.errors import ErrorCode
from protocol.messages import alter_configs, incremental_alter_configs

REFUSED = TopicError(ErrorCode.INVALID_CONFIG, "no such key")
RESOURCES = [Resource(2, "orders", []), Resource(4, "1", [])]


def seen(rows):
    return [
        (one.resource_type, one.resource_name, one.error_code, one.error_message) for one in rows
    ]


@pytest.mark.parametrize(
    ("outcomes", "expected"),
    [
        ([None, None], [(2, "orders", 0, None), (4, "1", 0, None)]),
        ([None, REFUSED], [(2, "orders", 0, None), (4, "1", 40, "no such key")]),
        ([REFUSED, None], [(2, "orders", 40, "no such key"), (4, "1", 0, None)]),
    ],
)
def test_each_resource_has_its_outcome_in_its_place(outcomes, expected):
    response = finished(answers(alter_configs.AlterConfigsResponse(), RESOURCES, outcomes))
    assert seen(response.responses) == expected


def test_a_missing_outcome_is_a_programming_error():
    with pytest.raises(ValueError, match="shorter"):
        finished(answers(alter_configs.AlterConfigsResponse(), RESOURCES, [None]))


@pytest.mark.parametrize("module", [alter_configs, incremental_alter_configs])
def test_one_code_refuses_them_all(module):
    asked = [module.AlterConfigsResource(resource_type=2, resource_name=name) for name in "ab"]
    code = ErrorCode.NOT_CONTROLLER
    assert seen(refusals(asked, code)) == [(2, name, code, code.message) for name in "ab"]
