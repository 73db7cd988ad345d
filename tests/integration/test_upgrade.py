"""Replacing a broker whose sockets a service manager keeps: no client is refused, nothing is lost.

The test is the service manager: it binds the socket, passes it to one broker after the other, and
takes their notifications. A producer and clients that connect anew run all the while. `-s` shows
the longest time without an acknowledgement; it is no condition, since machines differ.
"""

import itertools
import os
import queue
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from tests.support.broker_process import COMMAND, ROOT
from tests.support.patience import Limit, stretch
from tests.support.raw_client import RawClient

confluent_kafka = pytest.importorskip("confluent_kafka")

UPGRADES = int(os.environ.get("UPGRADES", "2"))
# In bash: other shells take no descriptor of two digits. LISTEN_PID is the id of the process that
# calls exec, and descriptor 3 is the socket.
PASSED_ON = 'export LISTEN_PID=$$; exec "$@" 3<&{fd} {fd}<&-'


class Manager:
    """Starts and stops brokers on one socket."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.listening = socket.socket()
        self.listening.bind(("127.0.0.1", 0))
        self.listening.listen(4096)  # as in the unit that `barnabas unit` prints
        self.port = self.listening.getsockname()[1]
        self._told = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._told.bind(str(folder / "notify"))
        self._lines: queue.Queue[str] = queue.Queue()
        # A manager reads at once: few datagrams wait, and the broker does not wait for room.
        threading.Thread(target=self._read, daemon=True).start()

    def start(self) -> subprocess.Popen[bytes]:
        fd = self.listening.fileno()
        broker = [
            *COMMAND, "--data", str(self._folder / "data"), "--set", "barnabas.http.listener=",
            "--set", f"listeners=PLAINTEXT://127.0.0.1:{self.port}",
        ]  # fmt: skip
        environment = {
            **os.environ,
            "LISTEN_FDS": "1",
            "NOTIFY_SOCKET": str(self._folder / "notify"),
            "WATCHDOG_USEC": "400000",
        }
        with (self._folder / "output").open("ab") as output:
            process = subprocess.Popen(
                ["bash", "-c", PASSED_ON.format(fd=fd), "bash", *broker],
                cwd=ROOT, env=environment, pass_fds=[fd], stdout=output, stderr=output,
            )  # fmt: skip
        self.until("READY=1")
        self.until("WATCHDOG=1")
        return process

    def stop(self, process: subprocess.Popen[bytes]) -> None:
        process.terminate()
        self.until("STOPPING=1")
        assert process.wait(60) == 0, self.output()

    def until(self, line: str) -> None:
        while self._lines.get(timeout=60 * stretch()) != line:
            pass

    def _read(self) -> None:
        while data := self._told.recv(1000):
            for line in data.decode().split("\n"):
                self._lines.put(line)

    def output(self) -> str:
        return (self._folder / "output").read_text()

    def close(self) -> None:
        self.listening.close()
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as last:
            last.sendto(b"", str(self._folder / "notify"))
        self._told.close()


class Load:
    """A producer with acks=all, and a client that connects anew each time."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._over = threading.Event()
        self.acknowledged_s: list[float] = []
        self.connected_count = 0
        self.failures: list[object] = []
        self._threads = [threading.Thread(target=run) for run in (self._produce, self._connect)]
        for thread in self._threads:
            thread.start()

    def _produce(self) -> None:
        producer = confluent_kafka.Producer(
            {"bootstrap.servers": f"127.0.0.1:{self._port}", "acks": "all", "linger.ms": 1}
            | {"reconnect.backoff.ms": 5, "reconnect.backoff.max.ms": 20, "log_level": 0}
        )

        def delivered(error: object, _message: object) -> None:
            if error:
                self.failures.append(error)
            self.acknowledged_s.append(time.monotonic())

        while not self._over.is_set():
            producer.produce("t", b"value", on_delivery=delivered)
            producer.poll(0)
            time.sleep(0.002)
        if producer.flush(60):
            self.failures.append("not all was acknowledged")

    def _connect(self) -> None:
        while not self._over.is_set():
            try:
                with socket.create_connection(("127.0.0.1", self._port), 60):
                    self.connected_count += 1
            except OSError as error:
                self.failures.append(error)
            time.sleep(0.001)

    def stop(self) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join(90)


def test_no_client_is_refused_while_the_broker_is_replaced(tmp_path: Path) -> None:
    manager = Manager(tmp_path)
    process = manager.start()
    try:
        load = Load(manager.port)
        try:
            limit = Limit(60)
            while len(load.acknowledged_s) < 50:
                assert not limit.is_over
                time.sleep(0.01)
            for _ in range(UPGRADES):
                manager.stop(process)
                before = load.connected_count
                while load.connected_count < before + 20:  # into the backlog: nobody accepts
                    time.sleep(0.001)
                process = manager.start()
                count = len(load.acknowledged_s)
                while len(load.acknowledged_s) < count + 50:
                    time.sleep(0.01)
        finally:
            load.stop()
        assert load.failures == []
        times = load.acknowledged_s
        pauses = [after - before for before, after in itertools.pairwise(times)]
        sys.stdout.write(f"longest pause {max(pauses):.3f} s of {UPGRADES} upgrades\n")
        with RawClient("127.0.0.1", manager.port) as client:
            client.api_versions()
        assert "its socket was passed on" in manager.output()
        manager.stop(process)
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()
        manager.close()
