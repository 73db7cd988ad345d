"""The example of docs/testing.md for PySpark, run with the test kit and pytest of its own."""

import os
import re
import subprocess
import sys
from pathlib import Path

from pyspark_barnabas.java import use_java

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "testing.md").read_text()


def test_the_example_passes(tmp_path):
    use_java()
    (example,) = re.findall(r"<!-- example: pyspark -->\n```python\n(.*?)```", PAGE, re.S)
    (tmp_path / "test_orders.py").write_text(example)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    (tmp_path / "temporary").mkdir()
    path = os.pathsep.join(str(ROOT / part) for part in ("", "testing", "pipelines"))
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider",
         "-p", "no:barnabas", "-p", "pytest_barnabas.plugin"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": path, "TMPDIR": str(tmp_path / "temporary")},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-3000:]
    assert "1 passed" in done.stdout
    assert not list((tmp_path / "temporary").glob("barnabas-*"))
