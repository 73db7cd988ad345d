"""A topic on a running broker, filled with hand-made batches and read back."""

from __future__ import annotations

import uuid

from pyspark_barnabas.options import source_options
from pyspark_barnabas.source.reader import WireReader
from pyspark_barnabas.wire import protocol
from pyspark_barnabas.wire.brokers import ClusterOptions
from pyspark_barnabas.wire.cluster import Cluster
from pyspark_barnabas.wire.encode import build_batch
from pyspark_barnabas.wire.error_codes import check
from pyspark_barnabas.wire.primitives import array, parse, string

DELETE_TOPICS = 20
protocol.ADMIN_VERSIONS[DELETE_TOPICS] = 3
PARTITIONS = 3  # of a topic that the broker creates automatically


class Topic:
    """A topic on a running broker: a new one unless it is named."""

    def __init__(self, address, name=""):
        self.address = address
        self.name = name or f"t-{uuid.uuid4().hex[:8]}"
        host, port = address.split(":")
        self.cluster = Cluster(ClusterOptions(((host, int(port)),), "test", 10_000, 10_000))
        self.cluster.topics([self.name], create=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.cluster.close()

    def recreate(self):
        """Delete the topic and create it again under the same name."""
        body = array([string(self.name)]) + (10_000).to_bytes(4, "big")

        def read(reader):
            reader.int32()
            return reader.array(lambda: (reader.string(), reader.int16()))

        found = self.cluster.ask("deleting the topic", DELETE_TOPICS, body, read)
        assert found == [(self.name, 0)]
        self.cluster.topics([self.name], create=True)

    def append(self, partition, records, **settings):
        """Write one batch, again until the broker leads the partition: a new one on Kafka waits."""
        at = (self.name, partition)
        body = protocol.produce_request(-1, 10_000, {at: build_batch(records, **settings)})

        def attempt():
            leader = self.cluster.leader(*at)
            answer = parse(protocol.read_produce, leader.call(protocol.PRODUCE, body))
            check(answer[at].error, "writing", answer[at].said)

        self.cluster.persist("writing", attempt)

    def options(self, **options):
        return {"kafka.bootstrap.servers": self.address, "subscribe": self.name} | {
            name.replace("_", "."): value for name, value in options.items()
        }

    def rows(self, columns=("value",), **options):
        """Read the topic as a batch query's tasks do; partition after partition."""
        reader = WireReader(columns, source_options(self.options(**options), streaming=False))
        found = []
        for partition in reader.partitions():
            for table in reader.read(partition):
                found += zip(*(table[name].to_pylist() for name in columns), strict=True)
        return found
