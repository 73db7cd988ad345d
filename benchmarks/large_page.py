"""The console's page over much: 5,000 partitions, 1,000 groups, records of 10 MiB.

    BARNABAS_PLAYWRIGHT=DIR BARNABAS_AXE=FILE python -m benchmarks.large_page [SCREENSHOTS]

Each view is opened anew in a headless Chromium. The time is from the request to its first content:
a row, a chart, or the words that there is nothing. It wants what tests/interop/test_page.py wants.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from pathlib import Path

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from tests.interop.page_browser import Served, launched

TOPICS, PARTITIONS, GROUPS = 500, 10, 1_000
LARGE_BYTES = 10 * 1024 * 1024
VIEWS = (
    ("overview", ".chart canvas"), ("topics", "tbody tr"),
    ("topics/topic-7", ".messages .row, .empty"),
    ("topics/large", ".messages .row"), ("groups", "tbody tr"), ("groups/group-7", "tbody tr"),
    ("configs", ".configs dt, .empty"), ("disk", "tbody tr"), ("clients", "main h2, .empty"),
)  # fmt: skip


def main() -> None:
    """Print the milliseconds until each view's first content."""
    with tempfile.TemporaryDirectory() as home:
        served = Served(Path(home) / "data")
        served.start()
        try:
            _fill(served)
            with launched() as browser:
                for view, content in VIEWS:
                    page = browser.new_page(viewport={"width": 1280, "height": 900})
                    begun = time.perf_counter()
                    page.goto(f"http://127.0.0.1:{served.http}/#/{view}")
                    page.wait_for_selector(content)
                    print(f"{view:20} {1e3 * (time.perf_counter() - begun):6.0f} ms")
                    if len(sys.argv) > 1:
                        page.wait_for_timeout(1_000)
                        name = view.replace("/", "-")
                        page.screenshot(path=f"{sys.argv[1]}/{name}.png", full_page=True)
                    page.close()
        finally:
            served.kill()


def _fill(served: Served) -> None:
    settings: dict[str, str | int | float | bool] = {
        "bootstrap.servers": f"127.0.0.1:{served.kafka}"
    }
    admin = AdminClient(settings)
    many = [NewTopic(f"topic-{number}", PARTITIONS) for number in range(TOPICS)]
    for begin in range(0, TOPICS, 100):
        for made in admin.create_topics(many[begin : begin + 100]).values():
            made.result(60)
    large = NewTopic("large", 1, config={"max.message.bytes": str(2 * LARGE_BYTES)})
    admin.create_topics([large])["large"].result(60)
    producer = Producer({**settings, "message.max.bytes": 2 * LARGE_BYTES})
    for number in range(TOPICS):
        producer.produce(f"topic-{number}", key=f"{number}", value="x" * 100)
    for _ in range(8):
        producer.produce("large", value=os.urandom(LARGE_BYTES))
        producer.flush(60)
    for number in range(GROUPS):
        consumer = Consumer({**settings, "group.id": f"group-{number}"})
        places = [TopicPartition(f"topic-{(number + n) % TOPICS}", 0, 0) for n in range(5)]
        consumer.commit(offsets=places, asynchronous=False)
        consumer.close()


if __name__ == "__main__":
    main()
