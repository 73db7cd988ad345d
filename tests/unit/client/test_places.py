"""Names of partitions."""

from client.places import Place


def test_a_partition_is_named_like_its_directory_in_kafka():
    place = Place("orders-by-day", 3)
    assert str(place) == f"{place}" == "orders-by-day-3"


def test_partitions_are_ordered_by_topic_and_then_by_number():
    assert sorted([Place("b", 0), Place("a", 10), Place("a", 9)]) == [
        ("a", 9),
        ("a", 10),
        ("b", 0),
    ]
