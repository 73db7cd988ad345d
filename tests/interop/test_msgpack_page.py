"""The program of docs/msgpack.md in another language, run by its own interpreter.

BARNABAS_NODE_MODULES names a directory in which `npm install @msgpack/msgpack` was run.
"""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support.broker_process import BrokerProcess, free_port

PAGE = Path(__file__).parents[2] / "docs" / "msgpack.md"
PACKAGES = "BARNABAS_NODE_MODULES"

pytestmark = pytest.mark.interop


def test_the_node_program_produces_and_consumes(tmp_path: Path) -> None:
    node, packages = shutil.which("node"), os.environ.get(PACKAGES)
    if node is None or packages is None:
        pytest.skip(f"needs node, and {PACKAGES}: a directory with @msgpack/msgpack installed")
    (program,) = re.findall(r"^```javascript\n(.*?)^```", PAGE.read_text(), re.M | re.S)
    port = free_port()
    listeners = f"PLAINTEXT://127.0.0.1:0,MSGPACK://127.0.0.1:{port}"
    with BrokerProcess(tmp_path / "data", {"listeners": listeners}, port=port):
        for count in (1, 2):
            done = subprocess.run(
                [node, "-e", program.replace("9094", str(port))],
                env={**os.environ, "NODE_PATH": str(Path(packages) / "node_modules")},
                capture_output=True,
                text=True,
                timeout=30,
                check=False,
            )
            assert done.returncode == 0, done.stderr
            assert done.stdout.splitlines() == [f"{n} from Node" for n in range(count)]
