"""What an answer tells of rights: names, error codes, bits, and what is listed; nothing else."""

from dataclasses import fields, is_dataclass
from typing import Any

from tests.support.rights_cases import UNKNOWN_ID

NAMES = ("name", "topic", "topic_name", "group_id", "transactional_id", "key", "resource_name")
IDS = ("partition_index", "partition", "index", "partition_id", "resource_type")
LEFT_ALONE = ("brokers", "configs", "config_resources", "nodes", "current_voters", "members")


def told(answer: Any, topic_id: bytes = b"") -> Any:
    """Return what an answer tells of rights; lists are in an order of their own."""
    if isinstance(answer, list):
        return sorted((told(one, topic_id) for one in answer), key=repr)
    if not is_dataclass(answer):
        return answer
    found: dict[str, Any] = {}
    for field in fields(answer):
        value = getattr(answer, field.name)
        if field.name in LEFT_ALONE:
            continue
        if field.name == "topic_id":
            found[field.name] = _id_told(value, topic_id)
        elif (
            field.name in (*NAMES, *IDS) or "error_code" in field.name or "operations" in field.name
        ):
            found[field.name] = told(value, topic_id) if value else value
        elif isinstance(value, list) and value and is_dataclass(value[0]):
            found[field.name] = told(value, topic_id)
    return found


def _id_told(value: bytes, topic_id: bytes) -> str:
    if value == topic_id:
        return "the id of t"
    if value in (UNKNOWN_ID, bytes(16)):
        return "no id"
    return "another id"
