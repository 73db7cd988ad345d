"""Configs of a topic, the broker or a group: each value with its source; changes, and dry runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from broker.console.answers import data
from broker.console.inquiry import check
from broker.console.parameters import bad, body_of, field, text_of
from broker.console.visitor import Visitor
from broker.http.http_messages import HttpAnswer, HttpRequest
from protocol.api_keys import ApiKey
from protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)

if TYPE_CHECKING:
    from broker.console.console import Console

TYPES: Final = {"topic": 2, "broker": 4, "group": 32}
SOURCES: Final = {
    1: "topic", 2: "broker, dynamic", 3: "cluster, dynamic", 4: "static", 5: "default",
    6: "broker logger", 7: "client metrics", 8: "group",
}  # fmt: skip
KINDS: Final = {1: "boolean", 2: "string", 3: "int", 4: "short", 5: "long", 6: "double",
                7: "list", 8: "class", 9: "password"}  # fmt: skip
DEFAULT: Final = 5
DESCRIBE_VERSION: Final = 4
ALTER_VERSION: Final = 1
SET, DELETE = 0, 1


async def configs(request: HttpRequest, visitor: Visitor, console: Console) -> HttpAnswer:
    """GET configs: every key of a resource; secrets come without their value."""
    kind = text_of(request, "type", "broker")
    name = text_of(request, "name", str(console.services.node_id) if kind == "broker" else None)
    resource = DescribeConfigsResource(
        resource_type=_type(kind), resource_name=name, configuration_keys=None
    )
    asked = DescribeConfigsRequest(
        resources=[resource], include_synonyms=True, include_documentation=True
    )
    answer = await console.inquiry.ask(visitor, ApiKey.DESCRIBE_CONFIGS, DESCRIBE_VERSION, asked)
    found = answer.results[0]
    check(found.error_code, found.error_message)
    return data({"type": kind, "name": name, "configs": [_row(one) for one in found.configs]})


def _row(one: Any) -> dict[str, Any]:
    default = next((each.value for each in one.synonyms if each.source == DEFAULT), None)
    return {
        "name": one.name,
        "value": one.value,
        "source": SOURCES.get(one.config_source, str(one.config_source)),
        "differs": one.config_source != DEFAULT,
        "default": default,
        "read_only": one.read_only,
        "is_sensitive": one.is_sensitive,
        "kind": KINDS.get(one.config_type, ""),
        "documentation": one.documentation or "",
    }


def _type(kind: str) -> int:
    if kind not in TYPES:
        raise bad(f"type is {kind[:40]!r}, expected one of {', '.join(TYPES)}")
    return TYPES[kind]


async def alter(request: HttpRequest, visitor: Visitor, console: Console) -> HttpAnswer:
    """POST configs/alter: `set` by name, `delete` names; with `dry_run`, only check."""
    body = body_of(request)
    kind, name = field(body, "type", str), field(body, "name", str)
    values, deleted = field(body, "set", dict, {}), field(body, "delete", list, [])
    if not all(isinstance(one, str) for one in (*values.values(), *deleted)):
        raise bad("set has texts by name, and delete has names")
    if not values and not deleted:
        raise bad("set and delete are empty: nothing is to be changed")
    dry_run = field(body, "dry_run", bool, default=False)
    changes = [
        AlterableConfig(name=one, config_operation=SET, value=value)
        for one, value in values.items()
    ]
    changes += [AlterableConfig(name=one, config_operation=DELETE, value=None) for one in deleted]
    resource = AlterConfigsResource(resource_type=_type(kind), resource_name=name, configs=changes)
    asked = IncrementalAlterConfigsRequest(resources=[resource], validate_only=dry_run)
    key = ApiKey.INCREMENTAL_ALTER_CONFIGS
    answer = await console.inquiry.ask(visitor, key, ALTER_VERSION, asked)
    check(answer.responses[0].error_code, answer.responses[0].error_message)
    return data({"type": kind, "name": name, "dry_run": dry_run})
