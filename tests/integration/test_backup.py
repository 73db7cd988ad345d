"""Backups of a broker that producers, transactions and a group use, and brokers on what they hold.

BACKUPS=100 makes as many of them. Each is restored and served; the last broker stops cleanly.
"""

import json
import os
import shutil
import subprocess
import time
from pathlib import Path

import pytest

from tests.support.backup_load import BackupLoad, check_backup
from tests.support.broker_process import BARNABAS, ROOT, BrokerProcess

BACKUPS = int(os.environ.get("BACKUPS", "4"))
SETTINGS = {
    "log.retention.check.interval.ms": "300",
    "log.cleaner.backoff.ms": "200",
    "offsets.topic.num.partitions": "3",
    "transaction.state.log.num.partitions": "3",
    "barnabas.http.listener": "",
    # A transaction that the cut has left open ends soon, so that readers get to the end.
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "200",
}


def barnabas(*words: object) -> dict:
    """Run a command that must succeed; return its JSON."""
    done = subprocess.run(
        [*BARNABAS, *map(str, words), "--json"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, (words, done.stdout, done.stderr)
    return json.loads(done.stdout)


@pytest.mark.slow
def test_backups_of_a_busy_broker(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path / "data", SETTINGS) as broker:
        load = BackupLoad(broker.address)
        load.start()
        try:
            time.sleep(2)
            pairs = [_one(tmp_path, broker, load) for _ in range(BACKUPS)]
        finally:
            load.stop()
    assert pairs == sorted(pairs)
    assert pairs[-1] > 0


def test_a_refused_backup_says_why_as_json(tmp_path: Path) -> None:
    done = subprocess.run(
        [*BARNABAS, "backup", str(tmp_path), str(tmp_path / "b"), "--json"],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 1
    assert "no meta.properties" in json.loads(done.stdout)["error"]
    assert list(tmp_path.iterdir()) == []


def _one(tmp_path: Path, broker: BrokerProcess, load: BackupLoad) -> int:
    before = load.acknowledged()
    done = barnabas("backup", broker.data, tmp_path / "backups", "--keep", "3")
    assert done["verified"], done
    copy = tmp_path / "copy"
    barnabas("restore", done["path"], copy)
    with BrokerProcess(copy, SETTINGS) as restored:
        pairs = check_backup(restored.address, before)
        assert restored.stop() == 0
        assert " ERROR " not in restored.output()
        assert "quarantine" not in restored.output()
    barnabas("verify", copy)
    shutil.rmtree(copy)
    restored.output_path.unlink()
    return pairs
