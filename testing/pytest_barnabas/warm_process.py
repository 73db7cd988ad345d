"""The warm process that forks the brokers of this process: started once, ended with it.

It runs `python -P -m barnabas nursery`, in a session of its own, so that Ctrl-C and the end of a
process group leave it time to remove what it has made. It ends when its standard input does. `-P`
keeps a `click.py` in the present directory from being imported in place of the package.

A process that was forked from this one gets a warm process of its own. Each answer has the number
of its command: a test that a signal interrupts leaves an answer behind, which nobody waits for.
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
RECEIVE_BYTES: Final = 64 * 1024


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
        self._count = 0
        self._received = b""
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
        return self.is_of_this_process and self._process.poll() is None

    @property
    def is_of_this_process(self) -> bool:
        """Whether this process has started it, and not one that has forked this one."""
        return self._owner == os.getpid()

    def ask(self, do: str, **fields: Any) -> dict[str, Any]:
        """Have a command obeyed; return its answer. Raises BarnabasError."""
        if not self.is_of_this_process:
            raise BarnabasError(
                f"the broker belongs to process {self._owner}, which has forked this one:"
                " make a Barnabas of its own here"
            )
        with self._turn:
            answer = self._exchange({"do": do, **fields})
        if answer is None:
            code = self._process.poll()
            raise BarnabasError(
                f"`{' '.join(map(str, self._process.args))}` has ended with {code}: "  # type: ignore[arg-type]
                "is the package barnabas installed in this environment?"
            )
        if "refused" in answer:
            raise BarnabasError(answer["refused"])
        return answer

    def _exchange(self, command: dict[str, Any]) -> dict[str, Any] | None:
        """Return the answer to a command; None if the warm process has ended."""
        assert self._process.stdin is not None
        self._count += 1
        number = self._count
        try:
            self._process.stdin.write(json.dumps({**command, "id": number}).encode() + b"\n")
            self._process.stdin.flush()
            while True:
                try:
                    answer: dict[str, Any] = json.loads(self._line())
                except ValueError:  # the rest of a line whose begin a signal has lost
                    continue
                if answer.pop("id", None) == number:
                    return answer
        except OSError:
            return None

    def _line(self) -> bytes:
        """Return the next line of the answers. Raises OSError if there is none."""
        assert self._process.stdout is not None
        while b"\n" not in self._received:
            data = os.read(self._process.stdout.fileno(), RECEIVE_BYTES)
            if not data:
                raise BrokenPipeError
            self._received += data
        line, _, self._received = self._received.partition(b"\n")
        return line

    def close(self) -> None:
        """End it, and all its brokers."""
        if not self.is_of_this_process:
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
