"""Backups move both ways: Apache Kafka 4.3 starts on one of ours, and we on one of a running Kafka.

Producers, transactions and a group use the broker meanwhile. See `tests.support.backup_load` for
what the broker on the restored directory must have.
"""

import time
from pathlib import Path

import pytest

from tests.integration.test_backup import SETTINGS, barnabas
from tests.interop.oracle import kafka
from tests.interop.oracle.kafka import KafkaNode
from tests.support.backup_load import BackupLoad, check_backup
from tests.support.broker_process import BrokerProcess

pytestmark = pytest.mark.interop

KAFKAS = {
    "offsets.topic.num.partitions": "3",
    "transaction.state.log.num.partitions": "3",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
    "transaction.max.timeout.ms": "900000",
    "log.cleaner.backoff.ms": "200",
    "log.retention.check.interval.ms": "300",
}


@pytest.mark.parametrize("is_kafkas", [False, True])
def test_a_backup_of_a_busy_broker_is_served_by_the_other(tmp_path: Path, is_kafkas: bool) -> None:
    kafka.libs()
    source: BrokerProcess | KafkaNode
    target: BrokerProcess | KafkaNode
    if is_kafkas:
        source = KafkaNode(tmp_path / "source", settings=KAFKAS)
        target = BrokerProcess(tmp_path / "target" / "data", SETTINGS)
    else:
        source = BrokerProcess(tmp_path / "source" / "data", SETTINGS)
        target = KafkaNode(tmp_path / "target", settings=KAFKAS)
    source.data.parent.mkdir(exist_ok=True)
    target.data.parent.mkdir(exist_ok=True)
    source.start()
    load = BackupLoad(source.address)
    try:
        load.start()
        time.sleep(3)
        barnabas("backup", source.data, tmp_path / "backups")
        before = load.acknowledged()
        assert before.ids
        done = barnabas("backup", source.data, tmp_path / "backups")
        load.stop()
    finally:
        source.stop()
    barnabas("restore", done["path"], target.data)
    target.start()
    try:
        assert check_backup(target.address, before) > 0
    finally:
        assert target.stop() in (0, 143), target.output()
