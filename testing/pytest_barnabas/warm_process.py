"""The warm process that forks the brokers of this process: started once, ended with it.

It runs `python -P -m barnabas nursery`, in a session of its own, so that Ctrl-C and the end of a
process group leave it time to remove what it has made. It ends when its standard input does. `-P`
keeps a `click.py` in the present directory from being imported in place of the package.

A process that was forked from this one gets a warm process of its own.
"""

from __future__ import annotations

import atexit
import json
import os
import subprocess
import sys
import threading
from typing import Any, Final

from pytest_barnabas.errors import BarnabasError

END_SECONDS: Final = 10


class WarmProcess:
    """The nursery of one process. Its methods may be called from several threads."""

    _one: WarmProcess | None = None
    _starting = threading.Lock()

    def __init__(self) -> None:
        command = [sys.executable, "-P", "-m", "barnabas", "nursery"]
        self._process = subprocess.Popen(  # noqa: S603 - a command of this environment
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
        )
        self._owner = os.getpid()
        self._turn = threading.Lock()
        atexit.register(self.close)

    @classmethod
    def of_this_process(cls) -> WarmProcess:
        """Return it; start it the first time, or if it has ended."""
        with cls._starting:
            if cls._one is None or not cls._one.is_ours:
                cls._one = WarmProcess()
            return cls._one

    @property
    def is_ours(self) -> bool:
        """Whether this process has started it, and it runs."""
        return self._owner == os.getpid() and self._process.poll() is None

    def ask(self, do: str, **fields: Any) -> dict[str, Any]:
        """Have a command obeyed; return its answer. Raises BarnabasError."""
        line = json.dumps({"do": do, **fields}).encode() + b"\n"
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with self._turn:
            try:
                self._process.stdin.write(line)
                self._process.stdin.flush()
                answered = self._process.stdout.readline()
            except OSError:
                answered = b""
        if not answered:
            code = self._process.poll()
            raise BarnabasError(
                f"`{' '.join(map(str, self._process.args))}` has ended with {code}: "  # type: ignore[arg-type]
                "is the package barnabas installed in this environment?"
            )
        answer: dict[str, Any] = json.loads(answered)
        if "refused" in answer:
            raise BarnabasError(answer["refused"])
        return answer

    def close(self) -> None:
        """End it, and all its brokers."""
        if self._owner != os.getpid():
            return
        atexit.unregister(self.close)
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()
        try:
            self._process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.terminate()
            self._process.wait()
