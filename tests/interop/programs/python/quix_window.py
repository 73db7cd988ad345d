"""Quix Streams: counts records in a window, exactly once, in a store with a changelog topic.

python quix_window.py COUNT    with BROKER and STATE, a directory, in the environment
"""

import os
import sys

from quixstreams import Application

app = Application(
    broker_address=os.environ["BROKER"],
    consumer_group="quix",
    auto_offset_reset="earliest",
    state_dir=os.environ["STATE"],
    processing_guarantee="exactly-once",
    commit_interval=0.5,
)
read = app.topic("numbers", value_deserializer="str")
written = app.topic("windows", value_serializer="json")
frame = app.dataframe(read)
frame = frame.apply(int).tumbling_window(duration_ms=10_000_000_000).count().current()
frame.to_topic(written)
app.run(count=int(sys.argv[1]), timeout=120)
