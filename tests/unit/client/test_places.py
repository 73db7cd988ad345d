"""A partition's name."""

from client.places import Place


def test_a_place_is_named_as_kafka_names_its_directory():
    place = Place("orders-by-day", 3)
    assert str(place) == f"{place}" == "orders-by-day-3"


def test_places_are_ordered_by_topic_and_then_by_number():
    assert sorted([Place("b", 0), Place("a", 10), Place("a", 9)]) == [
        ("a", 9),
        ("a", 10),
        ("b", 0),
    ]
