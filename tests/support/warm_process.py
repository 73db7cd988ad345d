"""Processes of the product, forked from a warm one: as if started by the same command.

    tests ── command, environment, descriptors ──> warm process ── fork ──> broker, broker, …
          <─ process id; the exit code, once asked ─

Nearly all of a start is the import of the same modules. The warm process imports them once, has one
thread and no event loop, and serves one request at a time. Its child runs the module that the
command names, as `python -m` does, with nothing of its parent's but memory.

It ends when the tests that started it end, and its children with it.
"""

from __future__ import annotations

import atexit
import ctypes
import gc
import json
import os
import pkgutil
import runpy
import select
import signal
import socket
import subprocess
import sys
import threading
import traceback
from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, Final, NoReturn

ROOT: Final = Path(__file__).resolve().parents[2]
MODULE: Final = "tests.support.warm_process"  # tests of pipelines/ import it by another name
REQUEST_BYTES_MAX: Final = 1 << 20
PR_SET_PDEATHSIG: Final = 1  # linux/prctl.h
# What it runs. Other modules change the product before it is imported.
MODULES: Final = ("tests.support.guarded_broker", "client.cli")
# Variables that the interpreter or a library reads when it starts.
READ_AT_START: Final = ("PYTHON", "LD_", "MALLOC_", "GLIBC_")


class ForkedProcess:
    """A child of the warm process, with what tests use of `subprocess.Popen`."""

    def __init__(self, warm: WarmProcess, args: Sequence[str], pid: int) -> None:
        self.args = args
        self.pid = pid
        self.returncode: int | None = None
        self._warm = warm
        self._descriptor = os.pidfd_open(pid)  # it has not been waited for, so the id is its own

    def poll(self) -> int | None:
        """Return its exit code, negative for a signal; None while it runs."""
        return self._ended(0)

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end; return its exit code."""
        code = self._ended(timeout)
        if code is None:
            raise subprocess.TimeoutExpired(list(self.args), timeout or 0)
        return code

    def send_signal(self, number: signal.Signals) -> None:
        """Send it a signal, if it runs."""
        if self.poll() is None:
            signal.pidfd_send_signal(self._descriptor, number)

    def _ended(self, timeout: float | None) -> int | None:
        if self.returncode is None:
            poller = select.poll()
            poller.register(self._descriptor, select.POLLIN)
            if poller.poll(None if timeout is None else timeout * 1000):
                self.returncode = self._warm.exit_code(self.pid)
                os.close(self._descriptor)
        return self.returncode


class WarmProcess:
    """The warm process, as the tests that started it see it."""

    def __init__(self) -> None:
        ours, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", MODULE, str(theirs.fileno())],
                cwd=ROOT,
                stdin=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
            )
        self._socket = ours
        self._lock = threading.Lock()
        self.owner = os.getpid()
        atexit.register(self._end)

    def start(
        self, command: Sequence[str], environment: Mapping[str, str], *streams: int
    ) -> ForkedProcess:
        """Start a command that `can_fork`, with descriptors of its input, output and errors."""
        asked = {"words": command[2:], "environment": dict(environment)}
        return ForkedProcess(self, command, self._ask(asked, *streams))

    def exit_code(self, pid: int) -> int:
        """Wait for a child that has ended; return its exit code."""
        return self._ask({"ended": pid})

    def _end(self) -> None:
        if self.owner == os.getpid():
            self._socket.close()
            self._process.kill()
            self._process.wait()

    def _ask(self, message: dict[str, Any], *descriptors: int) -> int:
        data = json.dumps(message).encode() + b"\n"
        answer = b""
        with self._lock:
            sent = socket.send_fds(self._socket, [data], list(descriptors))
            self._socket.sendall(data[sent:])
            while not answer.endswith(b"\n"):
                piece = self._socket.recv(100)
                assert piece, f"the warm process has ended: {self._process.wait()}"
                answer += piece
        return int(answer)


_warm: WarmProcess | None = None


def warm_process() -> WarmProcess:
    """Return this process's own, started when it is first asked for."""
    global _warm
    if _warm is None or _warm.owner != os.getpid():
        _warm = WarmProcess()
    return _warm


def run(
    command: Sequence[str],
    *,
    given: bytes = b"",
    environment: Mapping[str, str] | None = None,
    timeout: float = 240.0,
) -> subprocess.CompletedProcess[bytes]:
    """Run a command to its end, in the warm process if it can; return what it wrote.

    `given` is its input, `environment` all its variables, if not those of this process.
    """
    variables = os.environ if environment is None else environment
    if not can_fork(command, {}):
        return subprocess.run(
            command, input=given, env=variables, cwd=ROOT, capture_output=True, timeout=timeout,
            check=False,
        )  # fmt: skip
    with TemporaryFile() as stdin, TemporaryFile() as stdout, TemporaryFile() as stderr:
        stdin.write(given)
        stdin.seek(0)
        streams = (stdin.fileno(), stdout.fileno(), stderr.fileno())
        code = warm_process().start(command, variables, *streams).wait(timeout)
        said = []
        for file in (stdout, stderr):
            file.seek(0)
            said.append(file.read())
    return subprocess.CompletedProcess(command, code, *said)


def can_fork(command: Sequence[str], more: Mapping[str, str]) -> bool:
    """Whether the warm process can run a command, which has the variables `more` of its own."""
    return (
        list(command[:2]) == [sys.executable, "-m"]
        and command[2] in MODULES
        and hasattr(os, "pidfd_open")
        and not any(name.startswith(READ_AT_START) for name in more)
    )


# -- In the warm process -------------------------------------------------------------------------


def _serve(connection: socket.socket) -> None:
    """Fork and wait on request, until the tests close their end."""
    while True:
        data, streams, _, _ = socket.recv_fds(connection, REQUEST_BYTES_MAX, 3)
        while data and not data.endswith(b"\n"):
            data += connection.recv(REQUEST_BYTES_MAX)
        if not data:
            return
        message = json.loads(data)
        if "ended" in message:
            _, status = os.waitpid(message["ended"], 0)
            answer = os.waitstatus_to_exitcode(status)
        else:
            answer = os.fork()
            if not answer:
                _live(message, streams)
            for descriptor in streams:
                os.close(descriptor)
        connection.sendall(b"%d\n" % answer)


def _live(message: dict[str, Any], streams: Sequence[int]) -> NoReturn:
    """Be the command's process."""
    code = 1
    try:
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        for number, descriptor in enumerate(streams):
            os.dup2(descriptor, number)
        os.closerange(3, max(map(int, os.listdir("/proc/self/fd"))) + 1)
        os.environ.clear()
        os.environ.update(message["environment"])
        gc.enable()
        module, *arguments = message["words"]
        sys.argv = [module, *arguments]
        sys.modules.pop(module, None)  # else runpy warns that it runs a second time
        runpy.run_module(module, run_name="__main__", alter_sys=True)
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _import_all() -> None:
    """Import what brokers and commands import before they work, and with the first requests."""
    import client
    from broker.testing import warm

    for found in pkgutil.walk_packages(client.__path__, "client."):
        with suppress(ImportError):  # what an extra would bring
            import_module(found.name)
    import_module("tests.support.loop_guard")
    warm.load()


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the tests hear it, and close their end
    with socket.socket(fileno=int(sys.argv[1])) as tests_end:
        gc.disable()  # what is imported stays
        _import_all()
        gc.freeze()
        _serve(tests_end)
