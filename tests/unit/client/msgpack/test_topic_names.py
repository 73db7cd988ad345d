"""Names of topic ids: requested once, and forgotten when not needed."""

from __future__ import annotations

import pytest

from client.msgpack.membership import Partition
from client.msgpack.topic_names import TopicNames
from client.places import Place

OLD, NEW, UNKNOWN = b"o" * 16, b"n" * 16, b"u" * 16


class Metadata:
    """A transport that knows the names of two ids: a topic, and the same topic recreated."""

    def __init__(self):
        self.asked = []

    async def call(self, api, body):
        assert api == "metadata"
        assert body["allow_auto_topic_creation"] is False
        ids = [topic["topic_id"] for topic in body["topics"]]
        self.asked.append(ids)
        return {
            "topics": [
                {"topic_id": one, "name": "t", "error_code": 100 if one == UNKNOWN else 0}
                for one in ids
            ]
        }


async def test_a_name_is_requested_once_and_an_unknown_one_again():
    transport = Metadata()
    names = TopicNames(transport)
    for _ in range(2):
        await names.learn({OLD, UNKNOWN})
    assert [sorted(ids) for ids in transport.asked] == [[OLD, UNKNOWN], [UNKNOWN]]
    assert list(names.known) == [OLD]
    assert names.place(Partition(OLD, 3)) == Place("t", 3)
    with pytest.raises(KeyError):
        names.place(Partition(UNKNOWN, 0))


async def test_a_recreated_topic_has_two_ids_until_the_old_one_is_dropped():
    names = TopicNames(Metadata())
    await names.learn({OLD, NEW})
    assert set(names.partitions(Place("t", 1))) == {Partition(OLD, 1), Partition(NEW, 1)}
    assert names.partitions(Place("s", 1)) == []
    await names.learn({NEW})
    assert names.partitions(Place("t", 1)) == [Partition(NEW, 1)]
    assert names.places([Partition(NEW, 2), Partition(NEW, 0)]) == [Place("t", 0), Place("t", 2)]
