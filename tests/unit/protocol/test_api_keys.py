"""The keys against the tables of two other implementations."""

import re
import warnings

from kio.schema.index import api_key_map

from protocol.api_keys import ApiKey

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # its schemas use a deprecated interface
    from kafka.protocol.api_key import ApiKey as KafkaPythonApiKey

# kafka-python has only keys that Kafka 4.3 has; kio lacks the four that were removed with
# ZooKeeper (KIP-500).
REMOVED = {
    ApiKey.LEADER_AND_ISR,
    ApiKey.STOP_REPLICA,
    ApiKey.UPDATE_METADATA,
    ApiKey.CONTROLLED_SHUTDOWN,
}


def upper_snake(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).upper()


def test_same_as_kafka_python() -> None:
    assert {key.name: key.value for key in ApiKey} == {
        upper_snake(key.name): key.value for key in KafkaPythonApiKey
    }


def test_same_as_kio() -> None:
    assert set(ApiKey) - REMOVED == set(api_key_map)


def test_keys_of_kafka_4_3_without_gaps() -> None:
    assert sorted(ApiKey) == list(range(93))
