"""A pytest of its own, in a process of its own, with the kit as a plugin."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def start(directory: Path, source: str, *arguments: str) -> subprocess.Popen[str]:
    """Run the tests of `source` in `directory`."""
    (directory / "test_inner.py").write_text(source)
    (directory / "pytest.ini").write_text("[pytest]\n")
    python_path = os.pathsep.join((str(ROOT), str(ROOT / "testing")))
    return subprocess.Popen(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider",
         "-p", "no:barnabas", "-p", "pytest_barnabas.plugin", *arguments],  # installed or not
        cwd=directory,
        env={**os.environ, "PYTHONPATH": python_path, "TMPDIR": str(directory)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )  # fmt: skip


def run(directory: Path, source: str, *arguments: str) -> tuple[int, str]:
    """Run the tests of `source` to their end; return the exit code and the output."""
    process = start(directory, source, *arguments)
    output, _ = process.communicate(timeout=120)
    return process.returncode, output
