"""kafka-python's own integration suite, from its source distribution, against Barnabas.

The tests that do not pass must be those of `NOT_PASSED`, each with its reason; one that comes to
pass must leave the table. docs/conformance.md has the commands to run it by hand.
"""

import os
import subprocess
import sys
import tarfile
import xml.etree.ElementTree as ET
from importlib.metadata import version
from pathlib import Path

import pytest

from config.authorizer_keys import STANDARD_AUTHORIZER
from tests.support.broker_process import BrokerProcess

pytestmark = pytest.mark.interop

FILES = ("admin", "producer", "consumer")

NOT_PASSED = {
    "test_alter_replica_log_dirs": "there is one log directory",
}

# The distribution lacks this; the broker runs already, so there is nothing to start.
SERVICE = """
class ExternalService:
    def __init__(self, host, port=0):
        self.host, self.port = host, port
    def open(self): pass
    def close(self): pass

class SpawnedService: pass
"""


@pytest.fixture
def suite(tmp_path: Path) -> Path:
    """Fetch the source of the installed kafka-python, and complete its directory `test`."""
    wanted = f"kafka-python=={version('kafka-python')}"
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
    done = subprocess.run(
        [*pip, "--no-binary", ":all:", "--dest", str(tmp_path), wanted],
        capture_output=True,
        text=True,
        check=False,
    )
    archives = list(tmp_path.glob("*.tar.gz"))
    if not archives:
        pytest.skip(f"the source of {wanted} cannot be fetched: {done.stderr[-300:]}")
    with tarfile.open(archives[0]) as archive:
        archive.extractall(tmp_path, filter="data")
    (root,) = (path for path in tmp_path.iterdir() if path.is_dir())
    (root / "test" / "__init__.py").touch()
    (root / "test" / "service.py").write_text(SERVICE)
    return root


def outcomes(report: Path) -> dict[str, set[str]]:
    """Return the names of the tests by outcome."""
    found: dict[str, set[str]] = {"passed": set(), "skipped": set(), "not passed": set()}
    for case in ET.parse(report).iter("testcase"):
        kinds = {child.tag for child in case}
        outcome = "not passed" if kinds & {"failure", "error"} else "passed"
        found["skipped" if "skipped" in kinds else outcome].add(case.attrib["name"])
    return found


def test_what_passes_of_kafka_pythons_suite(suite: Path, tmp_path: Path) -> None:
    report = tmp_path / "report.xml"
    broker = BrokerProcess(tmp_path / "data")
    # One test assigns replicas to broker 0, one has sessions of three seconds; and their own broker
    # has its addresses told.
    broker.settings |= {
        "node.id": "0",
        "num.partitions": "4",
        "authorizer.class.name": STANDARD_AUTHORIZER,
        "super.users": "User:ANONYMOUS",
        "group.min.session.timeout.ms": "1000",
        "advertised.listeners": broker.settings["listeners"],
    }
    with broker:
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-o", "addopts=", f"--junit-xml={report}"]
            + [f"test/integration/test_{name}_integration.py" for name in FILES],
            cwd=suite,
            env={
                **os.environ,
                "PYTHONPATH": str(suite),
                "KAFKA_VERSION": "4.3.0",
                "KAFKA_URI": f"kafka://{broker.address}",
                "KAFKA_ROOT": str(tmp_path),
            },
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
    assert report.exists(), done.stdout[-3000:] + done.stderr[-3000:]
    found = outcomes(report)
    assert found["not passed"] == set(NOT_PASSED), done.stdout[-6000:]
    assert len(found["passed"]) >= 50
