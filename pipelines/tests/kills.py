"""kill -9 at random moments of a pipeline's processes and its broker.

    driver      the Python program that was started
    jvm         Spark's, which the program started: with local[2] driver and executor at once
    executor    a JVM of Spark's that only runs tasks: with local-cluster
    worker      a Python process that a JVM started, for tasks or for planning
    all         all of them at once
    broker      the broker, which is restarted at once

`under_kills` restarts a command after each kill, until it ends by itself with exit code 0. Most
kills wait until the command is working, that is until `progress()`, a number that grows with its
work, has moved since the start; one in five comes earlier.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

PIPELINES = Path(__file__).parents[1]
LIFE_S_MAX = 240  # for a command to show progress; on an idle machine Spark starts in ten


def environment():
    paths = [str(PIPELINES), *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
    return {
        **os.environ,
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONPATH": os.pathsep.join(path for path in paths if path),
    }


def pipeline(*words):
    return [sys.executable, "-m", "pyspark_barnabas.jobs.cli", *map(str, words)]


def descendants(pid):
    """Return (pid, command line) of every process below `pid`, parents first."""
    children, lines = {}, {}
    for entry in os.scandir("/proc"):
        if entry.name.isdigit():
            try:
                parent = int(Path(entry, "stat").read_text().rpartition(")")[2].split()[1])
                lines[int(entry.name)] = Path(entry, "cmdline").read_text()
            except OSError:
                continue  # it has ended
            children.setdefault(parent, []).append(int(entry.name))
    found, left = [], [pid]
    while left:
        for child in children.get(left.pop(0), []):
            found.append((child, lines[child]))
            left.append(child)
    return found


def victims(pid, kind):
    """Return a command's processes of one kind."""
    below = descendants(pid)
    executors = [child for child, line in below if "CoarseGrainedExecutorBackend" in line]
    jvms = [child for child, line in below if "org.apache.spark" in line and child not in executors]
    return {
        "driver": [pid],
        "jvm": jvms,
        "executor": executors,
        "worker": [child for child, line in below if "pyspark" in line and "java" not in line
                   and "org.apache.spark" not in line],
        "all": [pid, *(child for child, _ in below)],
    }[kind]  # fmt: skip


def kill(pids):
    for pid in pids:
        try:
            line = Path(f"/proc/{pid}/cmdline").read_text()
            if "python" in line or "spark" in line:  # the process id may have been reused
                os.kill(pid, signal.SIGKILL)
        except (ProcessLookupError, FileNotFoundError):
            continue


class Kills:
    """What was killed, and how often the command was started."""

    def __init__(self):
        self.counts = Counter()
        self.starts = 0

    def __str__(self):
        kinds = ", ".join(f"{kind} {count}" for kind, count in sorted(self.counts.items()))
        return f"{sum(self.counts.values())} kills ({kinds}), {self.starts} starts"


def under_kills(command, broker, progress, *, kills, kinds, seed, output, longest_s=1.5):
    """Run `command` to its end under this many kills; return what was done.

    `output` is a file for the command's output. Raises AssertionError if it ends in another way
    than by a kill, or before the last kill.
    """
    dice = random.Random(seed)
    # Each kind gets its share, in random order.
    waiting = [kinds[index % len(kinds)] for index in range(kills)]
    dice.shuffle(waiting)
    done = Kills()
    process, everyone = None, set()
    try:
        while True:
            if process is None or process.poll() is not None:
                if process is not None and process.returncode == 0:
                    assert not waiting, f"it ended before {waiting}: {done}"
                    return done
                assert done.starts <= 2 * kills, f"it ends by itself: {output.read_text()[-3000:]}"
                process = start(command, output)
                done.starts += 1
                before, began = progress(), time.monotonic()
                early_s = dice.uniform(0, 12) if dice.random() < 0.2 else None
            if not waiting:
                process.wait(1200)
                continue
            if early_s is None:
                if progress() == before and process.poll() is None:
                    assert time.monotonic() - began < LIFE_S_MAX, output.read_text()[-3000:]
                    time.sleep(0.02)
                    continue
                time.sleep(dice.uniform(0, longest_s))
            else:
                time.sleep(early_s)
            if process.poll() is not None:
                continue
            kind = waiting[-1]
            everyone |= set(victims(process.pid, "all"))
            if kind == "broker":
                broker.kill()
                time.sleep(dice.uniform(0, 1))
                broker.start()
            else:
                found = victims(process.pid, kind)
                if not found:  # not started yet, or gone
                    early_s, before = None, progress()
                    continue
                kill(found if kind == "all" else [dice.choice(found)])
            waiting.pop()
            done.counts[kind] += 1
            _give_time(process, kind)
            before, began, early_s = progress(), time.monotonic(), None
    finally:
        if process is not None and process.poll() is None:
            everyone |= set(victims(process.pid, "all"))
            kill(everyone)


def start(command, output):
    with output.open("ab") as written:
        return subprocess.Popen(
            command, env=environment(), cwd=PIPELINES, stdin=subprocess.DEVNULL,
            stdout=written, stderr=written,
        )  # fmt: skip


def _give_time(process, kind):
    """Give the command time to notice; it may survive the loss of a broker or worker."""
    if kind in ("driver", "all"):
        process.wait(20)
        return
    deadline = time.monotonic() + (90 if kind == "jvm" else 3)
    while process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.05)
    assert kind != "jvm" or process.poll() is not None, "it goes on without its JVM"
