"""A Java program in a process of its own, watched by the lines that it prints, and killed."""

from __future__ import annotations

import shutil
import subprocess
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Self

from tests.interop.oracle.kafka import libs

PROGRAMS = Path(__file__).parent / "programs" / "java"
FLAGS = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx256m", "-Dlog4j2.level=ERROR")
PATIENCE_S = 240.0  # on a busy machine


def compiled(name: str, directory: Path, jars: Path | None = None) -> list[str]:
    """Compile a program of `programs/java` against Kafka's jars; return how it is run."""
    assert shutil.which("javac"), "needs javac (a JDK, 17 or later) on the PATH"
    among = f"{jars or libs()}/*"
    source = str(PROGRAMS / f"{name}.java")
    build = ["javac", "-proc:none", "-cp", among, "-d", str(directory), source]
    done = subprocess.run(build, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return ["java", *FLAGS, "-cp", f"{directory}:{among}", name]


class JavaProcess:
    """One run of a program; leaving the context kills it if it still runs."""

    def __init__(self, command: Sequence[str], errors_path: Path) -> None:
        self.lines: list[str] = []
        self._errors_path = errors_path
        with errors_path.open("ab") as errors:
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors, text=True
            )
        self._watcher = threading.Thread(target=self._watch, daemon=True)
        self._watcher.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def _watch(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as lines:
            for line in lines:
                self.lines.append(line.rstrip("\n"))

    @property
    def running(self) -> bool:
        """Whether it has not ended."""
        return self._process.poll() is None

    def wait(self) -> int:
        """Wait until it ends by itself; return its exit code."""
        try:
            code = self._process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"{self.lines[-3:]} and no end: {self.errors()}") from None
        self._watcher.join(PATIENCE_S)
        return code

    def kill(self) -> None:
        """Kill it (SIGKILL)."""
        self._process.kill()
        self._process.wait(PATIENCE_S)
        self._watcher.join(PATIENCE_S)

    def errors(self) -> str:
        """Return the end of what it and its predecessors wrote to standard error."""
        return self._errors_path.read_text(errors="replace")[-3000:]
