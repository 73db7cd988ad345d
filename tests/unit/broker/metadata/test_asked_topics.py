"""Topics that Metadata addresses by name or id."""

import pytest

from broker.metadata.asked_topics import is_addressed
from protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from protocol.wire import ZERO_UUID

ID = b"i" * 16


@pytest.mark.parametrize(
    ("name", "topic_id", "before_12", "since_12"),
    [
        ("t", ZERO_UUID, True, True),
        ("t", ID, False, True),
        (None, ID, False, True),
        (None, ZERO_UUID, False, False),
    ],
)
def test_each_way_belongs_to_versions(
    name: str | None, topic_id: bytes, *, before_12: bool, since_12: bool
) -> None:
    topics = [MetadataRequestTopic(name=name, topic_id=topic_id)]
    body = MetadataRequest(topics=[MetadataRequestTopic(name="good"), *topics])
    assert is_addressed(body, 11) is before_12
    assert is_addressed(body, 12) is since_12


@pytest.mark.parametrize("topics", [None, []])
def test_no_list_is_addressed(topics: list[MetadataRequestTopic] | None) -> None:
    assert is_addressed(MetadataRequest(topics=topics), 13)
