"""The brokers under comparison as processes: start, time to the first answer, CPU and memory.

Each is an argv and a port; CPU is utime + stime of the process and its descendants from /proc, all
threads included; memory is VmRSS, and the part of it that maps no file.
"""

from __future__ import annotations

import contextlib
import ctypes
import mmap
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

from benchmarks import frames, load
from benchmarks.frames import LoadError
from tests.interop.oracle.kafka import KafkaNode, free_ports

START_SECONDS_MAX = 60.0
POLL_SECONDS = 0.001
CHECKOUT = Path(__file__).resolve().parents[1]
DEFAULT_DIRECTORY = CHECKOUT / "build" / "benchmarks"
CACHED_SHARE_MAX = 0.01
DROP_SECONDS_MAX = 10.0
TICKS = os.sysconf("SC_CLK_TCK")
DELETE_DELAY_MS = "100"  # deleted topics free their pages between runs; Kafka's default: 60 s


class Server:
    """One broker process on one directory."""

    def __init__(
        self, name: str, command: list[str], port: int, data: Path, checkout: Path = CHECKOUT
    ) -> None:
        self.name = name
        self.port = port
        self._checkout = checkout
        self._command = command
        self._data = data
        self._output = data.parent / "output"
        self._process: subprocess.Popen[bytes] | None = None
        self.first_answer_seconds = 0.0
        self.first_ack_seconds = 0.0
        self.idle_cpu_share = 0.0  # of one core, without requests

    def start(self) -> None:
        """Start; time the first answer to ApiVersions, and the first acknowledged record."""
        begun = self.launch()
        self.create_topic("first", 1)
        batch = frames.record_batch([b"first"], time.time_ns() // 1_000_000)
        load.fill(self.port, "first", batch, 1, count=1)
        self.first_ack_seconds = time.perf_counter() - begun

    def launch(self, seconds_max: float = START_SECONDS_MAX) -> float:
        """Start, and measure until ApiVersions is answered; return when the process was started."""
        begun = time.perf_counter()
        with self._output.open("ab") as output:
            self._process = subprocess.Popen(
                self._command,
                cwd=self._checkout,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
            )
        while True:
            with contextlib.suppress(OSError, LoadError), load.connect(self.port) as sock:
                load.exchange(sock, frames.api_versions())
                break
            if self._process.poll() is not None or time.perf_counter() - begun > seconds_max:
                raise RuntimeError(f"{self.name} did not start: {self._output.read_text()[-2000:]}")
            time.sleep(POLL_SECONDS)
        self.first_answer_seconds = time.perf_counter() - begun
        return begun

    @property
    def pid(self) -> int:
        """The process."""
        assert self._process is not None, "not started"
        return self._process.pid

    def stop(self) -> None:
        """Terminate it; kill it if it does not exit within a minute."""
        if self._process is None:
            return
        self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(60)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(10)
        self._process = None

    def kill(self) -> None:
        """Kill it, as a crash would."""
        if self._process is not None:
            self._process.kill()
            self._process.wait(10)
        self._process = None

    def create_topic(
        self, topic: str, partitions: int, configs: Mapping[str, str] | None = None
    ) -> None:
        """Create a topic and return when every partition can be read."""
        deadline = time.perf_counter() + 30
        request = frames.create_topic(topic, partitions, configs or {})
        with load.connect(self.port) as sock:
            while True:
                code = frames.topic_error(load.exchange(sock, request), topic)
                if code in (0, 36):  # TOPIC_ALREADY_EXISTS: an earlier attempt succeeded late
                    break
                if time.perf_counter() > deadline:
                    raise LoadError(f"{self.name} answers {code} to CreateTopics of {topic}")
                time.sleep(0.05)
            for partition in range(partitions):
                ask, _ = frames.fetch(topic, partition, 0, 1024, 0)
                while True:
                    try:
                        frames.fetched(memoryview(load.exchange(sock, ask)), topic)
                        break
                    except LoadError:
                        if time.perf_counter() > deadline:
                            raise
                        time.sleep(0.001)

    def delete_topic(self, topic: str) -> None:
        """Delete a topic and return when its files are gone and its pages free for the next run."""
        with load.connect(self.port) as sock:
            code = frames.topic_error(load.exchange(sock, frames.delete_topic(topic)), topic)
        if code != 0:
            raise LoadError(f"{self.name} answers {code} to DeleteTopics of {topic}")
        # Kafka begins to delete files 30 s after its start (log.initial.task.delay.ms).
        deadline = time.perf_counter() + 60
        while any(name.startswith(f"{topic}-") for name in os.listdir(self._data)):
            if time.perf_counter() > deadline:
                raise LoadError(f"{self.name} still has files of {topic} in {self._data}")
            time.sleep(0.05)

    def drop_cached(self, topic: str) -> None:
        """Drop the topic's files from the page cache; raises LoadError for pages that stay."""
        os.sync()
        for path in sorted(self._data.glob(f"{topic}-*/*.log")):
            drop_pages(path)

    def cpu_seconds(self) -> float:
        """Processor seconds used so far, user and system, with descendants."""
        assert self._process is not None
        total, todo = 0, [self._process.pid]
        while todo:
            pid = todo.pop()
            with contextlib.suppress(OSError):
                stat = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
                total += int(stat[11]) + int(stat[12])
                for task in os.listdir(f"/proc/{pid}/task"):
                    children = Path(f"/proc/{pid}/task/{task}/children").read_text()
                    todo += [int(child) for child in children.split()]
        return total / TICKS

    def kernel_seconds(self) -> float:
        """The part of the processor seconds that was spent in the kernel."""
        stat = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return int(stat[12]) / TICKS

    def measure_idle(self, seconds: float) -> None:
        """Measure its CPU use without requests."""
        before = self.cpu_seconds()
        time.sleep(seconds)
        self.idle_cpu_share = (self.cpu_seconds() - before) / seconds

    def memory_bytes(self) -> tuple[int, int]:
        """(VmRSS, RssAnon): all resident memory, and the part that maps no file."""
        assert self._process is not None
        status = Path(f"/proc/{self._process.pid}/status").read_text().splitlines()
        found = {line.split(":")[0]: line.split() for line in status}
        return int(found["VmRSS"][1]) * 1024, int(found["RssAnon"][1]) * 1024


def drop_pages(path: Path) -> None:
    """Drop a synced file from the page cache; raises LoadError if it stays.

    Pages that were synced a moment ago may stay a little longer.
    """
    deadline = time.perf_counter() + DROP_SECONDS_MAX
    file = os.open(path, os.O_RDONLY)
    try:
        while True:
            os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
            share = cached_share(file)
            if share <= CACHED_SHARE_MAX:
                return
            if time.perf_counter() > deadline:
                raise LoadError(f"{share:.0%} of {path} stay in the page cache")
            time.sleep(0.1)
    finally:
        os.close(file)


def cached_share(file: int) -> float:
    """The share of a file's pages that are in the page cache, by mincore(2)."""
    size = os.fstat(file).st_size
    if size == 0:
        return 0.0
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mincore.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p)
    with mmap.mmap(file, size, mmap.MAP_PRIVATE, mmap.PROT_READ | mmap.PROT_WRITE) as mapped:
        pages = (ctypes.c_ubyte * -(-size // mmap.PAGESIZE))()
        start = ctypes.c_char.from_buffer(mapped)
        failed = libc.mincore(ctypes.addressof(start), size, pages)
        del start
    if failed:
        raise OSError(ctypes.get_errno(), "mincore")
    return sum(page & 1 for page in pages) / len(pages)


def kafka(directory: Path, more: Mapping[str, str] | None = None) -> Server:
    """Apache Kafka 4.3 with its own default flags, formatted and not yet started.

    `more` are further settings.
    """
    settings = {"log.segment.delete.delay.ms": DELETE_DELAY_MS, **(more or {})}
    node = KafkaNode(directory, settings=settings)
    return Server("Apache Kafka 4.3", node.prepare(), node.port, node.data)


def barnabas(
    directory: Path,
    *,
    write_caching: bool = False,
    msgpack_port: int | None = None,
    more: Mapping[str, str] | None = None,
    checkout: Path = CHECKOUT,
) -> Server:
    """Barnabas as `barnabas serve` starts it, with a listener for msgpack where one is wanted.

    `more` are further settings; another `checkout` is another version.
    """
    directory.mkdir(parents=True, exist_ok=True)
    port = free_ports(1)[0]
    listeners = f"PLAINTEXT://127.0.0.1:{port}"
    if msgpack_port is not None:
        listeners += f",MSGPACK://127.0.0.1:{msgpack_port}"
    settings = {
        "listeners": listeners,
        "log.segment.delete.delay.ms": DELETE_DELAY_MS,
        **(more or {}),
    }
    if write_caching:
        settings["write.caching"] = "true"
    command = [sys.executable, "-m", "client.cli", "serve", "--data", str(directory / "data")]
    for key, value in settings.items():
        command += ["--set", f"{key}={value}"]
    name = "Barnabas, page cache" if write_caching else "Barnabas, durable"
    return Server(name, command, port, directory / "data", checkout)
