"""Brokers with Kafka's protocol for tests: a fresh one in milliseconds, that can be made to fail.

    def test_something(barnabas):           # a fixture of pytest: a fresh broker for each test
        connect_to(barnabas.bootstrap)

    with Barnabas() as broker:              # the same without pytest
        connect_to(broker.bootstrap)

A broker is a process of its own, forked from a warm one that lives as long as this process does.
The package `barnabas` is never imported here.
"""

from pytest_barnabas.barnabas import Barnabas
from pytest_barnabas.errors import BarnabasError, BrokerError
from pytest_barnabas.kafka_records import Record
from pytest_barnabas.rules import Asked, Rule, RuleNotMet

__all__ = [
    "Asked",
    "Barnabas",
    "BarnabasError",
    "BrokerError",
    "Record",
    "Rule",
    "RuleNotMet",
]
