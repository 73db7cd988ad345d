"""A broker process, a new topic for each test, and a local Spark."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from broker_process import BrokerProcess
from topics import PARTITIONS, Topic

from pyspark_barnabas.java import use_java

PIPELINES = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def broker(tmp_path_factory):
    settings = {"num.partitions": str(PARTITIONS), "log.retention.ms": "-1"}
    with BrokerProcess(tmp_path_factory.mktemp("broker") / "data", settings) as started:
        yield started


@pytest.fixture
def topic(broker):
    with Topic(broker.address) as made:
        yield made


@pytest.fixture(scope="session")
def spark(tmp_path_factory):
    """One session of local[2] for all tests, on the machine's Java or one from PyPI."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    use_java()
    os.environ["PYTHONPATH"] = f"{PIPELINES}:{os.environ.get('PYTHONPATH', '')}"
    from pyspark.sql import SparkSession

    session = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.driver.memory", "800m")
        .config("spark.driver.extraJavaOptions", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.warehouse.dir", str(tmp_path_factory.mktemp("warehouse")))
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()
