"""What a fresh broker costs a test: forked by the test kit against spawned as a command.

    python -m benchmarks.bench_fresh_broker [ROUNDS]

Both are timed in turns in one run, from the call to the first answer of ApiVersions by the msgpack
dialect; so is a restore of 10 topics of 4 partitions each. Medians, in milliseconds.
"""

import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "testing"))

from pytest_barnabas import Barnabas  # noqa: E402
from pytest_barnabas.msgpack_caller import MsgpackCaller  # noqa: E402

TOPICS, PARTITIONS = 10, 4
WHO = {"client_software_name": "bench", "client_software_version": "1"}
WARM_SECONDS = 3  # codecs are compiled while nothing is asked


def ask(address: str) -> None:
    """Ask until the broker answers."""
    host, _, port = address.rpartition(":")
    while True:
        caller = MsgpackCaller((host, int(port)))
        try:
            caller.call("api_versions", WHO)
        except OSError:
            time.sleep(0.001)
        else:
            return
        finally:
            caller.close()


def spawned(number: int) -> float:
    """Return the time of `barnabas serve` as a process of its own."""
    port = 21_000 + number
    with tempfile.TemporaryDirectory() as directory:
        began = time.perf_counter()
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "barnabas", "serve", "--data", f"{directory}/data",
             "--set", f"listeners=MSGPACK://127.0.0.1:{port}",
             "--set", "barnabas.http.listener=127.0.0.1:0"],
            stderr=subprocess.DEVNULL,
            env=dict(os.environ),
        )  # fmt: skip
        ask(f"127.0.0.1:{port}")
        took = time.perf_counter() - began
        process.kill()
        process.wait()
    return took


def forked() -> float:
    """Return the time of a broker of the kit."""
    began = time.perf_counter()
    with Barnabas() as broker:
        ask(broker.msgpack)
        return time.perf_counter() - began


def restored(broker: Barnabas) -> float:
    """Return the time of a restore."""
    began = time.perf_counter()
    broker.restore()
    ask(broker.msgpack)
    return time.perf_counter() - began


def main() -> None:
    """Print the three medians."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 15
    with Barnabas() as broker:
        for number in range(TOPICS):
            topic = broker.topic(f"t{number}", PARTITIONS)
            for partition in range(PARTITIONS):
                broker.produce(topic, *[b"v" * 1_000] * 100, partition=partition)
        broker.snapshot()
        time.sleep(WARM_SECONDS)
        figures: dict[str, list[float]] = {"spawned": [], "forked": [], "restored": []}
        for number in range(rounds):
            figures["spawned"].append(spawned(number))
            figures["forked"].append(forked())
            figures["restored"].append(restored(broker))
    for name, times in figures.items():
        median, best = statistics.median(times) * 1_000, min(times) * 1_000
        print(f"{name:9} median {median:7.1f} ms, least {best:7.1f} ms, {rounds} rounds")


if __name__ == "__main__":
    main()
