"""What the console costs: the start, memory, viewers, scrapes, `barnabas top`, and a first visit.

    python -m benchmarks.console

A broker starts with the HTTP listener open, gets 1,000 partitions in 100 topics, and ten viewers
have the overview open: they read its events and ask for the lists beside it, as the page does. Then
it is scraped with 1,000 and with 5,000 partitions. CPU is the process's own, so other load on the
machine does not count. `python -m benchmarks.watched` measures what clients notice.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import pty
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from typing import Any

TOPICS, PARTITIONS = 100, 10
VIEWERS = 10
SECONDS = 20.0
LISTS_EACH_SECONDS = 5.0
SCRAPES = 10
TICKS = os.sysconf("SC_CLK_TCK")
# Kept whatever the environment says: to compile 350 modules takes longer than all else of a start.
BYTECODE = {"PYTHONDONTWRITEBYTECODE": ""}
FIRST_VISIT = (
    "/", "/assets/style.css", "/assets/page.js", "/assets/kit.js", "/assets/overview.js",
    "/assets/charts.js", "/assets/login.js", "/assets/icon.svg",
    "/assets/vendor/preact-htm-3.1.1.js", "/assets/vendor/uplot-1.6.32.js",
    "/assets/vendor/uplot-1.6.32.css",
)  # fmt: skip


def main() -> None:
    """Print one line for each figure."""
    with served(free_port(), free_port()):  # compiles the modules, as an installation has done
        pass
    port = free_port()
    started = time.perf_counter()
    with served(port, free_port()) as pid:
        print(f"first answer after          {time.perf_counter() - started:8.2f} s")
        print(f"CPU until then              {cpu(pid):8.2f} s")
        time.sleep(5)
        print(f"idle memory                 {memory(pid):8.1f} MiB")
        _measure(pid, port)


@contextlib.contextmanager
def served(port: int, kafka: int) -> Iterator[int]:
    """Run a broker of its own, with its console at `port`; give its process id once it answers."""
    with tempfile.TemporaryDirectory() as home:
        process = subprocess.Popen(
            [
                sys.executable, "-m", "client.cli", "serve", "--data", f"{home}/data",
                "--set", f"barnabas.http.listener=127.0.0.1:{port}",
                "--set", f"listeners=PLAINTEXT://127.0.0.1:{kafka}",
            ],
            env={**os.environ, **BYTECODE},
            stderr=subprocess.DEVNULL,
        )  # fmt: skip
        try:
            wait(port)
            yield process.pid
        finally:
            process.kill()
            process.wait()


def _measure(pid: int, port: int) -> None:
    sizes = [_size(port, path) for path in FIRST_VISIT]
    print(f"first visit                 {sum(sizes) / 1000:8.1f} kB")
    ask(port, "GET", "/metrics")
    print(f"memory with page and scrape {memory(pid):8.1f} MiB")
    for number in range(TOPICS):
        body = {"name": f"topic-{number}", "partitions": PARTITIONS}
        ask(port, "POST", "/api/v1/topics/create", body)
    time.sleep(5)
    idle = _share(pid)
    print(f"CPU, no viewer              {100 * idle:8.2f} % of a core")
    ends = time.monotonic() + SECONDS + 4
    viewers = [threading.Thread(target=view, args=(port, ends)) for _ in range(VIEWERS)]
    for viewer in viewers:
        viewer.start()
    time.sleep(2)
    watched = _share(pid)
    print(f"CPU, {VIEWERS} viewers             {100 * watched:8.2f} % of a core")
    print(f"memory, {VIEWERS} viewers          {memory(pid):8.1f} MiB")
    for viewer in viewers:
        viewer.join()
    _scrape(pid, port, 1_000)
    body = {"name": "many", "partitions": 4_000}
    ask(port, "POST", "/api/v1/topics/create", body)
    _scrape(pid, port, 5_000)
    _top(port)


def _scrape(pid: int, port: int, partitions: int) -> None:
    before = cpu(pid)
    for _ in range(SCRAPES):
        size = len(ask(port, "GET", "/metrics"))
    each = (cpu(pid) - before) / SCRAPES
    print(f"scrape of {partitions:,} partitions {1e3 * each:11.1f} ms CPU, {size / 1e6:.1f} MB")


def _top(port: int) -> None:
    """`barnabas top` in a terminal of its own, for a while."""
    main_end, end = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "client.cli", "top", "--http", f"127.0.0.1:{port}"],
        stdin=end, stdout=end, stderr=end, env={**os.environ, "TERM": "xterm", "COLUMNS": "120"},
    )  # fmt: skip
    threading.Thread(target=_drain, args=(main_end,), daemon=True).start()
    time.sleep(4)
    share = _share(process.pid)
    print(
        f"barnabas top                {100 * share:8.2f} % of a core, {memory(process.pid):.1f} MiB"
    )
    process.kill()
    process.wait()


def _drain(end: int) -> None:
    with contextlib.suppress(OSError):
        while os.read(end, 65_536):
            pass


def _share(pid: int) -> float:
    before, begun = cpu(pid), time.monotonic()
    time.sleep(SECONDS)
    return (cpu(pid) - before) / (time.monotonic() - begun)


def view(port: int, ends: float) -> None:
    """Have the overview open until then, as the page has it."""
    client = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    client.request("GET", "/api/v1/events")
    answer = client.getresponse()
    asked = 0.0
    while time.monotonic() < ends:
        answer.read1()
        if time.monotonic() - asked >= LISTS_EACH_SECONDS:
            asked = time.monotonic()
            ask(port, "GET", "/api/v1/topics?sort=bytes&limit=6")
            ask(port, "GET", "/api/v1/groups?limit=6")
    client.close()


def ask(port: int, method: str, path: str, body: dict[str, Any] | None = None) -> bytes:
    """Ask on a connection of its own, and return the answer."""
    client = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    headers = {"Accept-Encoding": "gzip"}
    if body is not None:
        headers |= {
            "Content-Type": "application/json",
            "X-Barnabas": "1",
            "Origin": f"http://127.0.0.1:{port}",
        }
    client.request(method, path, json.dumps(body) if body else None, headers)
    answer = client.getresponse()
    found = answer.read()
    if answer.status != 200:
        raise SystemExit(f"{path}: {answer.status} {found[:200]!r}")
    client.close()
    return found


def _size(port: int, path: str) -> int:
    return len(ask(port, "GET", path))


def cpu(pid: int) -> float:
    """Return the seconds of CPU that a process has used."""
    with open(f"/proc/{pid}/stat", encoding="ascii") as file:
        fields = file.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def memory(pid: int) -> float:
    """Return the resident memory of a process in MiB."""
    with open(f"/proc/{pid}/status", encoding="ascii") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("VmRSS")) / 1024


def free_port() -> int:
    """Return a port that was free a moment ago."""
    with socket.create_server(("127.0.0.1", 0)) as sock:
        port: int = sock.getsockname()[1]
        return port


def wait(port: int) -> None:
    """Wait until the broker answers."""
    while True:
        try:
            ask(port, "GET", "/healthz")
        except OSError:
            time.sleep(0.005)
        else:
            return


if __name__ == "__main__":
    main()
