"""Whether there is enough for a fetch; test_fetch_reading.py asks more of it."""

from broker.partitions.fetch_asked import have_enough
from protocol.errors import ErrorCode
from protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic


def test_only_unknown_partitions_do_not_wait_and_other_errors_never_do() -> None:
    body = FetchRequest(max_wait_ms=0, min_bytes=1, max_bytes=100)
    asked = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1)
    unknown = (FetchTopic(topic="t"), [(asked, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)])
    fenced = (FetchTopic(topic="t"), [(asked, ErrorCode.FENCED_LEADER_EPOCH)])
    assert have_enough([unknown], body, 100)  # type: ignore[list-item]
    assert have_enough([unknown, fenced], body, 100)  # type: ignore[list-item]
