"""The comparison runs, small: both brokers, a tool of Kafka's, librdkafka and prebuilt frames."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.interop.oracle import kafka

CHECKOUT = Path(__file__).parents[2]
CELLS = ("raw-small", "one-1x5", "consume-hot", "e2e-1000-fsync")

pytestmark = pytest.mark.interop


def test_a_small_comparison_gives_figures_of_both_sides(tmp_path):
    kafka.libs()
    results = tmp_path / "peers.json"
    command = [sys.executable, "-m", "benchmarks.peers", "--only", ",".join(CELLS), "--pairs", "1"]
    command += ["--seconds", "0.3", "--warm-seconds", "0.1", "--touch-gib", "0", "--page", ""]
    command += ["--growth", "none", "--no-profiles", "--directory", str(tmp_path / "data")]
    done = subprocess.run(
        [*command, "--results", str(results)],
        cwd=CHECKOUT,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    cells = json.loads(results.read_text())["cells"]
    assert set(cells) == set(CELLS)
    for name, cell in cells.items():
        (pair,) = cell["pairs"]
        ours = pair["durable" if name.endswith("fsync") else "cached"]
        assert ours.keys() == pair["kafka"].keys() != set(), name
        # CPU comes in ticks of 10 ms, of which so short a run may have none.
        assert all(value > 0 for key, value in ours.items() if "CPU" not in key), name
    assert "| Barnabas ÷ Kafka (spread) |" in done.stdout
