"""The stories that a `Teller` tells of fetch sessions, on topics of their own."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

from client.kafka.connection import Connection
from tests.interop.both_brokers import TIMEOUT_S
from tests.interop.fetch_teller import BY_NAME, Teller


def quiet(on: Teller) -> None:
    """Nothing has happened: nothing is answered."""
    on.make("t")
    on.full(("t", 0, 0), ("t", 1, 0))
    on.more()
    on.more()


def records_come(on: Teller) -> None:
    """Only what has records is answered, again until the offset moves."""
    on.make("t")
    on.full(("t", 0, 0), ("t", 1, 0), ("t", 2, 0))
    on.put("t", 1)
    on.more()
    on.more()
    on.more(("t", 1, 1))
    on.put("t", 1)
    on.put("t", 2)
    on.more()
    on.more(("t", 1, 2), ("t", 2, 1))
    on.more()


def there_from_the_start(on: Teller) -> None:
    """Records of the first answer come again, if the offset does not move."""
    on.make("t")
    on.put("t", 0)
    on.full(("t", 0, 0), ("t", 1, 0))
    on.more()
    on.more(("t", 0, 1))
    on.more()


def no_room(on: Teller) -> None:
    """A partition without room for its records is answered for its high watermark."""
    on.make("t")
    on.full(("t", 0, 0), ("t", 1, 0), ("t", 2, 0))
    on.put("t", 0)
    on.put("t", 1)
    on.more(max_bytes=1)
    on.more(max_bytes=1)
    on.more(("t", 1, 1), max_bytes=1)
    on.more(max_bytes=1)


def in_turn(on: Teller) -> None:
    """What had records goes to the end, so that no partition starves."""
    on.make("t", 4)
    for number in range(4):
        on.put("t", number)
        on.put("t", number)
    on.full(*(("t", number, 0) for number in range(4)), max_bytes=1)
    for _ in range(9):
        on.more(max_bytes=1)
    on.more(("t", 2, 2), max_bytes=1)
    for _ in range(5):
        on.more(max_bytes=1)
    on.more(max_bytes=2_500)
    on.more(max_bytes=2_500)


def two_topics_in_turn(on: Teller) -> None:
    """The order goes across topics."""
    on.make("t", 2)
    on.make("u", 2)
    for number in range(2):
        on.put("t", number)
        on.put("u", number)
    on.full(("t", 0, 0), ("u", 0, 0), ("t", 1, 0), ("u", 1, 0), max_bytes=1)
    for _ in range(7):
        on.more(max_bytes=1)
    on.more(max_bytes=2_500)
    on.more(max_bytes=2_500)


def added_and_forgotten(on: Teller) -> None:
    """Partitions join and leave."""
    on.make("t")
    on.full(("t", 0, 0))
    on.put("t", 0)
    on.put("t", 1)
    on.more(("t", 1, 0))
    on.more(forget=(("t", 0),))
    on.put("t", 0)
    on.more(("t", 1, 1))
    on.more(("t", 0, 0), forget=(("t", 2), ("t", 7)))
    on.more(("t", 2, 0), forget=(("t", 2),))
    on.put("t", 2)
    on.more()


def all_forgotten(on: Teller) -> None:
    """A session without partitions is over."""
    on.make("t")
    on.put("t", 0)
    on.full(("t", 0, 0))
    session_id = on.session_id
    on.more(("t", 0, 0), forget=(("t", 0),))
    on.stray(session_id, 2)
    on.stray(session_id, 1)


def named_twice(on: Teller) -> None:
    """The last entry counts."""
    on.make("t")
    on.put("t", 0)
    on.full(("t", 0, 5), ("t", 1, 0), ("t", 0, 0))
    on.more(("t", 0, 0), ("t", 0, 1))
    on.more()


def wrong_epochs(on: Teller) -> None:
    """Another epoch than the next is refused, and changes nothing."""
    on.make("t")
    on.full(("t", 0, 0))
    session_id = on.session_id
    on.put("t", 0)
    on.stray(session_id, 2, ("t", 1, 0))
    on.stray(session_id, 7)
    on.stray(session_id, -2)
    on.more()
    on.stray(session_id, 1)
    on.more(("t", 0, 1))
    on.stray(session_id ^ 1, 1)
    on.stray(0, 1)
    on.stray(0, 5, ("t", 0, 0))
    on.more()


def replaced(on: Teller) -> None:
    """A full fetch ends the session that it names."""
    on.make("t")
    on.full(("t", 0, 0))
    first = on.session_id
    on.full(("t", 0, 0))
    on.stray(first, 1)
    second = on.session_id
    on.more()
    on.final(("t", 0, 0))
    on.stray(second, 2)


def full_of_nothing(on: Teller) -> None:
    """A session without partitions, from the start."""
    on.make("t")
    on.full()
    on.more()
    on.full()
    on.more(("t", 0, 0))


def out_of_range(on: Teller) -> None:
    """An error is answered each time, and what follows it once."""
    on.make("t")
    on.full(("t", 0, 7), ("t", 1, 0))
    on.more()
    on.more()
    on.more(("t", 0, 0))
    on.more()
    on.more(("t", 1, 9))
    on.more(("t", 1, 0))
    on.more()


def records_deleted(on: Teller) -> None:
    """A new start of the log is told once, and what lies below it is out of range."""
    on.make("t")
    on.put("t", 0)
    on.put("t", 0)
    on.put("t", 1)
    on.full(("t", 0, 2), ("t", 1, 0), ("t", 2, 0))
    on.more(("t", 1, 1))
    on.cut("t", 0, 1)
    on.more()
    on.more()
    on.more(("t", 0, 1))
    on.more(("t", 0, 1))
    on.cut("t", 0, 2)
    on.more()
    on.more(("t", 0, 2))
    on.more()


def an_unknown_topic(on: Teller) -> None:
    """A topic that does not exist is in error until it is made."""
    on.make("t")
    on.full(("t", 0, 0), ("not", 0, 0))
    on.more()
    on.more()
    if on.version == BY_NAME:
        on.make("not")
        on.more()
        on.more()
        on.put("not", 0)
        on.more()


def an_unknown_partition(on: Teller) -> None:
    """A partition that does not exist is in error each time."""
    on.make("t", 1)
    on.full(("t", 0, 0), ("t", 5, 0))
    on.more()
    on.more(forget=(("t", 5),))
    on.more()


def nothing_known(on: Teller) -> None:
    """A fetch of nothing that can be read does not wait."""
    on.make("t", 1)
    on.full(("not", 0, 0))
    begun = time.monotonic()
    on.more(max_wait_ms=3_000, min_bytes=1)
    on.told.append(time.monotonic() - begun < 2)


def a_topic_deleted(on: Teller) -> None:
    """A deleted topic is in error each time; its namesake is another topic."""
    on.make("t")
    on.make("u")
    on.put("t", 0)
    on.full(("t", 0, 1), ("t", 1, 0), ("u", 0, 0))
    on.drop("t")
    on.more()
    on.more()
    on.put("u", 0)
    on.more()
    old = on._ids["t"]
    on.make("t")
    new, on._ids["t"] = on._ids["t"], old
    on.put("t", 1)
    on.more()
    on.more()
    on.more(forget=(("t", 0), ("t", 1)))
    on._ids["t"] = new
    on.more(("t", 1, 0))
    on.more(("t", 1, 1))


def by_name_and_by_id(on: Teller) -> None:
    """A session goes by names or by ids, and does not change."""
    on.make("t")
    on.full(("t", 0, 0))
    on.more(version=13 if on.version == BY_NAME else BY_NAME)
    on.session_id = 0
    on.full(("t", 0, 0))
    on.more(version=7 if on.version == BY_NAME else 14)


def isolation(on: Teller) -> None:
    """Both levels within one session."""
    on.make("t")
    on.full(("t", 0, 0), isolation_level=1)
    on.put("t", 0)
    on.more(isolation_level=1)
    on.more(isolation_level=0)
    on.more(("t", 0, 1), isolation_level=1)
    on.more(isolation_level=0)


def waiting(on: Teller) -> None:
    """A fetch that waits ends with the records of a partition that it does not name."""
    on.make("t")
    on.full(("t", 0, 0), ("t", 1, 0), ("t", 2, 0))
    on.more()
    with Connection(on.connection.address, TIMEOUT_S) as other:
        offsets = [0, 0, 0]
        for number in (1, 2, 1, 0):
            later = threading.Timer(0.3, on.put, ("t", number), {"connection": other})
            later.start()
            begun = time.monotonic()
            on.more(max_wait_ms=8_000, min_bytes=1)
            on.told.append(0.2 < time.monotonic() - begun < 5)
            later.join()
            offsets[number] += 1
            on.more(("t", number, offsets[number]))


def waiting_for_more(on: Teller) -> None:
    """min_bytes is counted over all partitions."""
    on.make("t")
    on.full(("t", 0, 0), ("t", 1, 0), ("t", 2, 0))
    on.more()
    with Connection(on.connection.address, TIMEOUT_S) as other:

        def both() -> None:
            time.sleep(0.3)
            on.put("t", 2, connection=other)
            time.sleep(0.3)
            on.put("t", 0, connection=other)

        later = threading.Thread(target=both)
        later.start()
        begun = time.monotonic()
        on.more(max_wait_ms=8_000, min_bytes=1_500)
        on.told.append(0.5 < time.monotonic() - begun < 5)
        later.join()
        on.more(("t", 0, 1), ("t", 2, 1))
        on.more()


def waiting_in_vain(on: Teller) -> None:
    """A start of the log that moves does not end the wait, but is told at its end."""
    on.make("t")
    on.put("t", 0)
    on.full(("t", 0, 1), ("t", 1, 0))
    on.more()
    on.cut("t", 0, 1)
    begun = time.monotonic()
    on.more(max_wait_ms=700, min_bytes=1)
    on.told.append(0.6 < time.monotonic() - begun < 3)
    on.more()


def an_error_does_not_end_the_wait(on: Teller) -> None:
    """A partition that does not exist is told at the end of the wait."""
    on.make("t")
    on.full(("t", 0, 0), ("t", 7, 0))
    begun = time.monotonic()
    on.more(max_wait_ms=700, min_bytes=1)
    on.told.append(0.6 < time.monotonic() - begun < 3)


def an_offset_out_of_range_ends_the_wait(on: Teller) -> None:
    """As it is an error of a partition that is there."""
    on.make("t")
    on.full(("t", 0, 0), ("t", 1, 0))
    begun = time.monotonic()
    on.more(("t", 1, 7), max_wait_ms=7_000, min_bytes=1)
    on.told.append(time.monotonic() - begun < 3)


def another_connection(on: Teller) -> None:
    """A session belongs to its id, not to its connection; a fetch that it overtakes fails."""
    on.make("t")
    on.full(("t", 0, 0))
    session_id = on.session_id
    with Connection(on.connection.address, TIMEOUT_S) as other:
        first, on.connection = on.connection, other
        on.put("t", 0)
        on.more()
        on.more(("t", 0, 1))

        def overtake() -> None:
            time.sleep(0.4)
            second = Teller(first, on._story, on.version)
            second.session_id, second.epoch, second._ids = session_id, 4, on._ids
            second.more()
            overtaken.extend(second.told)

        overtaken: list[Any] = []
        later = threading.Thread(target=overtake)
        later.start()
        on.more(max_wait_ms=1_500, min_bytes=1)
        later.join()
        on.told += overtaken
        on.connection = first


STORIES: dict[str, Callable[[Teller], None]] = {
    story.__name__: story
    for story in (
        quiet,
        records_come,
        there_from_the_start,
        no_room,
        in_turn,
        two_topics_in_turn,
        added_and_forgotten,
        all_forgotten,
        named_twice,
        wrong_epochs,
        replaced,
        full_of_nothing,
        out_of_range,
        records_deleted,
        an_unknown_topic,
        an_unknown_partition,
        nothing_known,
        a_topic_deleted,
        by_name_and_by_id,
        isolation,
        waiting,
        waiting_for_more,
        waiting_in_vain,
        an_error_does_not_end_the_wait,
        an_offset_out_of_range_ends_the_wait,
        another_connection,
    )
}
