"""One process, one bug: the histories of seeds, one after the other, until the simulator objects.

    python -m tests.simulation.mutants.trial NAME SEED …

Each line of the output is one JSON object: `{"seed": n}` when a history begins, and at the end
`{"seed": n, "failures": […]}` of the first history that failed, or `{"over": true}`. The name
`unchanged` stands for the product as it is. Its process goes on behind a failure, and says at the
end of every history which bugs it reached: `{"seed": n, "failures": […], "reached": […]}`.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

from tests.simulation.mutants.hunt import UNCHANGED, all_mutants
from tests.simulation.mutants.loading import plant
from tests.simulation.mutants.places import Probes


def main(name: str, seeds: list[int]) -> None:
    """Tell the histories of these seeds with the bug of that name."""
    cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {cores[os.getpid() % len(cores)]})  # threads hand over fastest
    if name != UNCHANGED:
        plant(all_mutants()[name])
        for seed in seeds:
            _say({"seed": seed})
            if failures := _failures_of(seed):
                _say({"seed": seed, "failures": failures})
                return
    else:
        probes = Probes(all_mutants().values())
        probes.plant()
        for seed in seeds:
            _say({"seed": seed})
            probes.clear()
            failures = _failures_of(seed)
            _say({"seed": seed, "failures": failures, "reached": probes.reached()})
    _say({"over": True})


def _failures_of(seed: int) -> list[str]:
    # Only now: these import the product.
    from tests.simulation.history import tell
    from tests.simulation.plan import write_plan

    try:
        return tell(write_plan(str(seed))).failures
    except BaseException as error:  # whatever a bug does to the simulator, it was noticed
        return [f"crash: {type(error).__name__}: {error}"]


def _say(what: dict[str, Any]) -> None:
    sys.__stdout__.write(json.dumps(what) + "\n")  # type: ignore[union-attr]
    sys.__stdout__.flush()  # type: ignore[union-attr]


if __name__ == "__main__":
    main(sys.argv[1], [int(seed) for seed in sys.argv[2:]])
