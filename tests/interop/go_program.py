"""The program of franz-go (`programs/franz_go`), built: skips a test that cannot have it."""

from __future__ import annotations

import os
import shutil
import subprocess
from functools import cache
from pathlib import Path

import pytest

SOURCE = Path(__file__).parent / "programs" / "franz_go"
GO_MODULES_NEED = (1, 26)
TOOL_TIMEOUT_S = 240


def run(*command: str, cwd: Path | None = None, **environment: str) -> list[str]:
    """Run a program to its end; return its output lines."""
    done = subprocess.run(
        command,
        cwd=cwd,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=TOOL_TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0, f"{command[0]}: {done.stdout[-1000:]}{done.stderr[-3000:]}"
    return done.stdout.splitlines()


def fetch(*command: str, cwd: Path, **environment: str) -> None:
    """Run a tool that may need a registry; skip the test if it fails."""
    if shutil.which(command[0]) is None:
        pytest.skip(f"needs {command[0]} on the PATH")
    try:
        run(*command, cwd=cwd, **environment)
    except (AssertionError, subprocess.TimeoutExpired) as error:
        pytest.skip(f"{' '.join(command[:2])} could not: {str(error)[-300:]}")


@cache
def franz_go(directory: Path) -> str:
    """Build the program into a directory; return its path."""
    if shutil.which("go") is None:
        pytest.skip("needs go on the PATH")
    (found,) = run("go", "env", "GOVERSION")
    if tuple(int(one) for one in found.removeprefix("go").split(".")[:2]) < GO_MODULES_NEED:
        pytest.skip(f"franz-go needs go {'.'.join(map(str, GO_MODULES_NEED))}, found {found}")
    fetch("go", "mod", "download", cwd=SOURCE)
    program = str(directory / "franz_go")
    run("go", "build", "-mod=readonly", "-buildvcs=false", "-o", program, ".", cwd=SOURCE)
    return program
