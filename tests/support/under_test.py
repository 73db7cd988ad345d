"""The broker that a test talks to: Barnabas, or Apache Kafka 4.3 to try the test itself.

BARNABAS_TEST_AGAINST=kafka starts Kafka in Barnabas's place wherever a test asks for a broker
here, so that what a test demands can be held against the original. Both kinds have the same few
members: data, port, address, pid, running, start(), stop(), kill(), output().
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
    """A broker that is not yet started, with its data below `directory`."""
    directory.mkdir(parents=True, exist_ok=True)
    if against_kafka():
        known = {key: value for key, value in (settings or {}).items() if key != "write.caching"}
        return KafkaNode(directory, settings=known)
    return BrokerProcess(directory / "data", settings)
