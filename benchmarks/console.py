"""What the console costs an idle broker: its start, its memory, ten viewers, and a first visit.

    python -m benchmarks.console

A broker starts with the HTTP listener open, gets 1,000 partitions, and ten viewers follow the
overview. CPU is the process's own, so other load on the machine does not count. The viewers ask as
the page does, and read every event.
"""

from __future__ import annotations

import http.client
import json
import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
from typing import Any

PARTITIONS = 1_000
VIEWERS = 10
SECONDS = 20.0
TICKS = os.sysconf("SC_CLK_TCK")
FIRST_VISIT = (
    "/", "/assets/style.css", "/assets/page.js", "/assets/kit.js", "/assets/overview.js",
    "/assets/charts.js", "/assets/login.js", "/assets/icon.svg",
    "/assets/vendor/preact-htm-3.1.1.js", "/assets/vendor/uplot-1.6.32.js",
    "/assets/vendor/uplot-1.6.32.css",
)  # fmt: skip


def main() -> None:
    """Print one line for each figure."""
    with tempfile.TemporaryDirectory() as home:
        port, kafka = _free_port(), _free_port()
        started = time.perf_counter()
        process = subprocess.Popen(
            [
                sys.executable, "-m", "client.cli", "serve", "--data", f"{home}/data",
                "--set", f"barnabas.http.listener=127.0.0.1:{port}",
                "--set", f"listeners=PLAINTEXT://127.0.0.1:{kafka}",
            ],
            stderr=subprocess.DEVNULL,
        )  # fmt: skip
        try:
            _wait(port)
            print(f"first answer after          {time.perf_counter() - started:8.2f} s")
            print(f"CPU until then              {_cpu(process.pid):8.2f} s")
            time.sleep(5)
            print(f"idle memory                 {_memory(process.pid):8.1f} MiB")
            _measure(process.pid, port)
        finally:
            process.kill()
            process.wait()


def _measure(pid: int, port: int) -> None:
    sizes = [_size(port, path) for path in FIRST_VISIT]
    print(f"first visit                 {sum(sizes) / 1000:8.1f} kB")
    _ask(port, "GET", "/metrics")
    print(f"memory with page and scrape {_memory(pid):8.1f} MiB")
    body = {"name": "many", "partitions": PARTITIONS}
    _ask(port, "POST", "/api/v1/topics/create", body)
    time.sleep(5)
    idle = _share(pid)
    print(f"CPU, no viewer              {100 * idle:8.2f} % of a core")
    ends = time.monotonic() + SECONDS + 4
    viewers = [threading.Thread(target=_view, args=(port, ends)) for _ in range(VIEWERS)]
    for viewer in viewers:
        viewer.start()
    time.sleep(2)
    watched = _share(pid)
    print(f"CPU, {VIEWERS} viewers             {100 * watched:8.2f} % of a core")
    print(f"memory, {VIEWERS} viewers          {_memory(pid):8.1f} MiB")
    for viewer in viewers:
        viewer.join()


def _share(pid: int) -> float:
    before, begun = _cpu(pid), time.monotonic()
    time.sleep(SECONDS)
    return (_cpu(pid) - before) / (time.monotonic() - begun)


def _view(port: int, ends: float) -> None:
    client = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    client.request("GET", "/api/v1/events")
    answer = client.getresponse()
    while time.monotonic() < ends:
        answer.read1()
    client.close()


def _ask(port: int, method: str, path: str, body: dict[str, Any] | None = None) -> bytes:
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
    return len(_ask(port, "GET", path))


def _cpu(pid: int) -> float:
    with open(f"/proc/{pid}/stat", encoding="ascii") as file:
        fields = file.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def _memory(pid: int) -> float:
    with open(f"/proc/{pid}/status", encoding="ascii") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("VmRSS")) / 1024


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as sock:
        port: int = sock.getsockname()[1]
        return port


def _wait(port: int) -> None:
    while True:
        try:
            _ask(port, "GET", "/healthz")
        except OSError:
            time.sleep(0.005)
        else:
            return


if __name__ == "__main__":
    main()
