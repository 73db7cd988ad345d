"""One forked broker, as its parent sees it: started, asked, killed, waited for.

The parent is a single thread that waits for one answer at a time, with an end for each wait. A
child that has ended closes its socket, so no wait lasts longer than the child.
"""

from __future__ import annotations

import os
import select
import signal
import socket
from collections import deque
from typing import Final

from broker.testing.command_refused import CommandRefused
from broker.testing.message_line import Message, MessageReader, line_of

READY_SECONDS: Final = 60.0  # also of a recovery
ANSWER_SECONDS: Final = 60.0
STOP_SECONDS: Final = 30.0
LOG_TAIL_BYTES: Final = 2_000
RECEIVE_BYTES: Final = 256 * 1024


class Hatched:
    """A child process with a broker in it, and the socket to it."""

    def __init__(self, pid: int, sock: socket.socket, log_path: str) -> None:
        self.pid = pid
        self._sock = sock
        self._log_path = log_path
        self._reader = MessageReader()
        self._arrived: deque[Message] = deque()
        self._count = 0
        self._exit_code: int | None = None

    def fileno(self) -> int:
        """Return the descriptor of the socket, for a selector."""
        return self._sock.fileno()

    @property
    def exit_code(self) -> int | None:
        """The code with which the child has ended, negative for a signal; None while it runs."""
        if self._exit_code is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self._ended(status)
        return self._exit_code

    def ready(self) -> Message:
        """Wait until the broker listens; return what it says. Raises CommandRefused."""
        message = self._receive(READY_SECONDS)
        if message is None:
            code = self.kill()
            raise CommandRefused(f"the broker did not start, exit code {code}: {self._log_tail()}")
        return message

    def ask(self, command: Message, seconds: float = ANSWER_SECONDS) -> Message:
        """Return the answer to a command. Raises CommandRefused.

        Answers to earlier ones, which have come too late, are passed over by their numbers.
        """
        self._count += 1
        try:
            self._sock.sendall(line_of({**command, "id": self._count}))
            answer = self._receive(seconds)
            while answer is not None and answer.pop("id", self._count) != self._count:
                answer = self._receive(seconds)
        except OSError:
            answer = None
        if answer is None:
            raise CommandRefused(f"the broker has ended: {self._log_tail()}")
        if "refused" in answer:
            raise CommandRefused(str(answer["refused"]))
        return answer

    def signal(self, number: signal.Signals) -> None:
        """Send a signal, if the child runs."""
        if self.exit_code is None:
            os.kill(self.pid, number)

    def kill(self) -> int:
        """End the child at once; return its exit code."""
        self.signal(signal.SIGKILL)
        return self._wait()

    def stop(self) -> int:
        """Stop the broker in order; return its exit code."""
        self.signal(signal.SIGTERM)
        waited = select.poll()
        waited.register(self._sock, select.POLLHUP)
        if not waited.poll(STOP_SECONDS * 1000):
            self.signal(signal.SIGKILL)
        return self._wait()

    def _wait(self) -> int:
        if self._exit_code is None:
            _, status = os.waitpid(self.pid, 0)
            self._ended(status)
        assert self._exit_code is not None
        return self._exit_code

    def _ended(self, status: int) -> None:
        self._exit_code = os.waitstatus_to_exitcode(status)
        self._sock.close()

    def _receive(self, seconds: float) -> Message | None:
        """Return the next message; None if the child has ended. Raises CommandRefused."""
        self._sock.settimeout(seconds)
        while not self._arrived:
            try:
                data = self._sock.recv(RECEIVE_BYTES)
            except TimeoutError:
                raise CommandRefused(
                    f"the broker has not answered within {seconds:.0f} s: {self._log_tail()}"
                ) from None
            except ConnectionResetError:
                return None
            if not data:
                return None
            self._arrived.extend(self._reader.feed(data))
        return self._arrived.popleft()

    def _log_tail(self) -> str:
        try:
            with open(self._log_path, "rb") as file:
                file.seek(max(0, os.path.getsize(self._log_path) - LOG_TAIL_BYTES))
                return file.read().decode(errors="replace").strip() or "it has logged nothing"
        except OSError:
            return "see its log"
