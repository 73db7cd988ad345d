"""Faust: counts words in a table, whose changelog another run reads, and writes each new count.

python faust_counts.py DIRECTORY worker -l warn    with BROKER in the environment
"""

import os

import faust

app = faust.App(
    "faust-counts",
    broker=f"kafka://{os.environ['BROKER']}",
    store="memory://",
    topic_partitions=2,
    datadir=os.environ["STATE"],
    web_enabled=False,
)
words = app.topic("words", value_type=bytes, value_serializer="raw", partitions=2)
counted = app.topic("counted", value_type=int, value_serializer="json", partitions=2)
counts = app.Table("counts", default=int, partitions=2)


@app.agent(words)
async def count(stream):
    async for word in stream:
        key = word.decode()
        counts[key] += 1
        await counted.send(key=key, value=counts[key])


if __name__ == "__main__":
    app.main()
