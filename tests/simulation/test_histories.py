"""Histories are the same in every process, and the plan of one survives its file."""

import os
import subprocess
import sys
from pathlib import Path

from tests.simulation.plan import Plan, write_plan
from tests.support.thorough import examples

ROOT = Path(__file__).parents[2]
SEEDS = examples(20)
# Neither hash seeds nor the histories before may show in a history: the second process goes
# through the seeds backwards.
DIGESTS = """
import sys
from tests.simulation.history import tell
from tests.simulation.plan import write_plan
for seed in range(int(sys.argv[1]))[:: int(sys.argv[2])]:
    print(seed, tell(write_plan(f"same {seed}")).digest)
"""


def test_a_seed_is_one_history_in_every_process() -> None:
    running = [
        subprocess.Popen(
            [sys.executable, "-c", DIGESTS, str(SEEDS), step],
            cwd=ROOT,
            env=os.environ | {"PYTHONHASHSEED": hash_seed, "PYTHONPATH": str(ROOT)},
            stdout=subprocess.PIPE,
            text=True,
        )
        for hash_seed, step in (("1", "1"), ("2", "-1"))
    ]
    first, second = (sorted(process.communicate()[0].splitlines()) for process in running)
    assert len(first) == SEEDS
    assert first == second


def test_a_plan_survives_its_file() -> None:
    plan = write_plan("1")
    assert Plan.from_json(plan.to_json()) == plan
