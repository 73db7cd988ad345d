"""Where the broker spends time on its hot paths: py-spy beside a load of prebuilt frames.

For each path a fresh broker, warmed, is sampled while the load runs. The result is the share of the
samples whose innermost Python frame is a given function, so a system call or a C function counts
for its caller. Samples measure time and not CPU: on a machine with few cores the send
that wakes the client looks more expensive than it is, because the client then takes the core. The
kernel's share, from /proc, is shown for comparison.

Needs py-spy (requirements-bench.lock) and permission to trace a process.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks import cells, servers
from benchmarks.bench import Bench
from benchmarks.results import Results
from benchmarks.servers import CHECKOUT

PATHS = {
    "raw-small": "one record a request, acks 1",
    "raw-one-1x5-fsync": "one record a request, acks all, durable",
    "raw-16k": "produce of 16 KiB batches, acks 1",
    "raw-1m-fsync": "produce of 1 MB batches, acks all, durable",
    "raw-fetch-16k": "fetch, 16 KiB a request",
    "raw-fetch-1m": "fetch, 1 MiB a request",
}
SECONDS = 6.0
RATE = 400
ROWS = 8
WAITING = "_worker (concurrent/futures/thread.py"


def tool() -> str | None:
    """Return py-spy from this environment or from the path."""
    beside = Path(sys.executable).with_name("py-spy")
    return str(beside) if beside.exists() else shutil.which("py-spy")


def top(samples: str) -> list[tuple[str, float]]:
    """Return the sampled functions, named by their hottest line, with their shares.

    Threads of a pool that wait for work are left out: py-spy counts them as busy.
    """
    functions: Counter[str] = Counter()
    lines: dict[str, Counter[str]] = defaultdict(Counter)
    for sample in samples.splitlines():
        stack, _, count = sample.rpartition(" ")
        place = stack.rpartition(";")[2].replace(f"{CHECKOUT}/", "")
        if not place.startswith(WAITING):
            function, _, line = place.rstrip(")").rpartition(":")
            functions[function] += int(count)
            lines[function][line] += int(count)
    total = sum(functions.values())
    return [
        (f"{function}:{lines[function].most_common(1)[0][0]})", count / total)
        for function, count in functions.most_common(ROWS)
    ]


def profile(place: Path, name: str, py_spy: str) -> dict[str, Any]:
    """Profile one path on a broker of its own; `kernel` is the share of its CPU there."""
    cell = next(cell for cell in cells.CELLS if cell.name == name)
    server = servers.barnabas(place, write_caching=not cell.fsynced)
    samples = place.parent / f"{name}.raw"
    try:
        server.start()
        cell.run(server, Bench(1.0), kafka=False)
        command = [py_spy, "record", "--pid", str(server.pid), "--format", "raw"]
        command += ["--rate", str(RATE), "--duration", str(int(SECONDS)), "--output", str(samples)]
        before, kernel = server.cpu_seconds(), server.kernel_seconds()
        sampling = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        cell.run(server, Bench(SECONDS), kafka=False)
        share = (server.kernel_seconds() - kernel) / (server.cpu_seconds() - before)
        output, _ = sampling.communicate(timeout=60)
        if sampling.returncode != 0:
            raise RuntimeError(output.decode()[-300:])
        return {"kernel": share, "rows": top(samples.read_text())}
    finally:
        server.stop()
        shutil.rmtree(place, ignore_errors=True)


def take(results: Results, place: Path, deadline: float, say: Callable[[str], None]) -> None:
    """Profile the paths that are missing in the results."""
    py_spy = tool()
    if py_spy is None:
        say("no py-spy: no profiles")
        return
    kept = results.part("profiles") or {}
    for name in PATHS:
        if name in kept or time.monotonic() > deadline:
            continue
        say(f"profile of {name}")
        try:
            kept[name] = profile(place / f"profile-{name}", name, py_spy)
        except Exception as error:
            say(f"  given up: {error}")
            continue
        results.put("profiles", kept)


def tables(results: Results) -> str:
    """Format the profiles as Markdown."""
    parts = []
    for name, found in (results.part("profiles") or {}).items():
        title = f"{PATHS[name]}; {found['kernel']:.0%} of the CPU in the kernel"
        lines = [f"| {title} | share |", "|---|---:|"]
        lines += [f"| `{where}` | {share:.0%} |" for where, share in found["rows"]]
        parts.append("\n".join(lines))
    return "\n\n".join(parts)
