"""The broker that a test uses: Barnabas, or Apache Kafka 4.3 to check the test itself.

With BARNABAS_TEST_AGAINST=kafka, tests that get their broker here run against Kafka, which shows
whether the original meets their assertions. Both brokers have the same few members: data, port,
address, pid, running, start(), stop(), kill(), output().
"""

import os
from collections.abc import Mapping
from pathlib import Path

from tests.interop.oracle.kafka import KafkaNode
from tests.support.broker_process import BrokerProcess

AGAINST_VARIABLE = "BARNABAS_TEST_AGAINST"


def against_kafka() -> bool:
    """Whether the tests run against Apache Kafka."""
    return os.environ.get(AGAINST_VARIABLE) == "kafka"


def broker_on(
    directory: Path, settings: Mapping[str, str] | None = None
) -> BrokerProcess | KafkaNode:
    """Return a broker that is not yet started, with its data below `directory`."""
    directory.mkdir(parents=True, exist_ok=True)
    if against_kafka():
        known = {key: value for key, value in (settings or {}).items() if key != "write.caching"}
        return KafkaNode(directory, settings=known)
    return BrokerProcess(directory / "data", settings)
