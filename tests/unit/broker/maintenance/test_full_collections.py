"""Full collections: when one is made, and when it waits for objects to become fewer."""

import gc
import sys
import weakref

from broker.maintenance.full_collections import (
    GROWN_MAX,
    NEVER,
    PROMOTIONS_MIN,
    PUT_OFF_MAX,
    QUICK_BLOCKS,
    Collector,
    FullCollections,
)

LARGE = 4 * QUICK_BLOCKS
EXEMPT = 1_000


class Objects(Collector):
    """A collector, so many blocks of memory, and what it leaves of them."""

    def __init__(self) -> None:
        self.count = self.left = 1_000
        self.promotions = PROMOTIONS_MIN
        self.threshold = NEVER
        self.collected = 0
        self.serving = False
        self.enabled = True

    def isenabled(self) -> bool:
        return self.enabled

    def get_threshold(self) -> tuple[int, int, int]:
        return 700, 10, self.threshold

    def get_count(self) -> tuple[int, int, int]:
        return 0, 0, self.promotions

    def blocks(self) -> int:
        return EXEMPT + self.count * self.serving

    def collect(self) -> int:
        self.collected += 1
        self.count = self.left
        return 0


def collections_of(objects: Objects) -> FullCollections:
    objects.serving = False
    collections = FullCollections(objects, objects.blocks)
    objects.serving = True
    return collections


def looked(objects: Objects, turns: int = 1) -> int:
    """Return how many collections have been made after so many turns."""
    look(collections_of(objects), turns)
    return objects.collected


def look(collections: FullCollections, turns: int) -> None:
    for _ in range(turns):
        collections.look()


def test_one_comes_when_a_quarter_has_come_to_what_was_left() -> None:
    objects = Objects()
    collections = collections_of(objects)
    for count, collected in ((1_000, 1), (1_249, 1), (1_250, 2), (1_100, 2)):
        objects.count = count
        collections.look()
        assert objects.collected == collected, count
    objects.count = 400  # fewer than there were: what comes now is new
    collections.look()
    objects.count = 550
    collections.look()
    assert objects.collected == 3


def test_what_exists_from_the_start_may_be_replaced() -> None:
    """By as much, it seems to be nothing, and each turn made a collection of 80 ms."""
    objects = Objects()
    objects.count = objects.left = LARGE
    collections = collections_of(objects)
    look(collections, PUT_OFF_MAX + 1)
    for count in (-EXEMPT // 2, -EXEMPT // 2 + 10):  # fewer than there were before it served
        objects.count = objects.left = count
        look(collections, 20)
    assert objects.collected == 1, "nothing has come"
    objects.count = objects.left = LARGE
    look(collections, PUT_OFF_MAX)
    assert objects.collected == 1, "not taken for few"
    look(collections, 20)
    assert objects.collected == 2, "once"


def test_none_comes_before_enough_young_objects_have_become_old() -> None:
    objects = Objects()
    objects.promotions -= 1
    assert not looked(objects)


def test_the_collections_of_another_process_are_its_own() -> None:
    objects = Objects()
    objects.threshold = 10
    assert not looked(objects)


def test_none_comes_where_the_collector_is_off() -> None:
    """As in a simulated history: finalizers would run in the middle of it."""
    objects = Objects()
    objects.enabled = False
    assert not looked(objects)


def test_what_a_large_request_names_is_waited_for() -> None:
    objects = Objects()
    collections = collections_of(objects)
    collections.look()
    for _ in range(3):  # requests, one after the other
        objects.count = LARGE
        for _ in range(PUT_OFF_MAX):
            collections.look()
        objects.count = 1_100
        collections.look()
    assert objects.collected == 1


def test_what_stays_is_not_waited_for_for_ever() -> None:
    objects = Objects()
    objects.count = objects.left = LARGE
    assert not looked(objects, PUT_OFF_MAX)
    assert looked(objects, PUT_OFF_MAX + 1) == 1
    collections = collections_of(objects)
    objects.count = GROWN_MAX + 1
    collections.look()
    assert objects.collected == 2, "at once"


class Circle:
    """What only a collection frees."""

    def __init__(self) -> None:
        self.itself = self


class Due(Objects):
    """Python's own collector, at a time when one is due."""

    def collect(self) -> int:
        return gc.collect()


def test_a_collection_frees_circles() -> None:
    before = sys.getallocatedblocks()
    collections = FullCollections(Due(), lambda: sys.getallocatedblocks() - before)
    one = Circle()
    circle = weakref.ref(one)
    kept = [[number] for number in range(QUICK_BLOCKS)]  # it becomes old meanwhile
    del one
    look(collections, PUT_OFF_MAX + 1)
    assert circle() is None
    assert kept
