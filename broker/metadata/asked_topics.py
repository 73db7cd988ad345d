"""The ways in which Metadata may address topics: by name, or from version 12 on by id (KIP-516)."""

from __future__ import annotations

from typing import Final

from protocol.messages.metadata import MetadataRequest
from protocol.wire import ZERO_UUID

BY_ID_VERSION: Final = 12  # ids are in the schema from 10 on, and refused before 12


def is_addressed(body: MetadataRequest, version: int) -> bool:
    """Return whether each topic is addressed as `version` allows; else the request is invalid."""
    wanted = body.topics or ()
    if version < BY_ID_VERSION:
        return all(topic.name is not None and topic.topic_id == ZERO_UUID for topic in wanted)
    return all(topic.name is not None or topic.topic_id != ZERO_UUID for topic in wanted)
