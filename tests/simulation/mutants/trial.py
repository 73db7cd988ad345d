"""One process, one bug: histories of seeds, one after the other, until the simulator objects.

    python -m tests.simulation.mutants.trial NAME FIRST LAST

Each line of the output is one JSON object: `{"seed": n}` when a history begins, and at the end
`{"seed": n, "failures": […]}` of the first history that failed, or `{"over": true}`. The name
`unchanged` stands for the product as it is.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from tests.simulation.mutants.hunt import UNCHANGED, all_mutants
from tests.simulation.mutants.loading import plant


def main(name: str, first: int, last: int) -> None:
    """Tell the histories of the seeds from `first` to `last` with the bug of that name."""
    if name != UNCHANGED:
        plant(all_mutants()[name])
    # Only now: these import the product.
    from tests.simulation.history import tell
    from tests.simulation.plan import write_plan

    for seed in range(first, last + 1):
        _say({"seed": seed})
        try:
            failures = tell(write_plan(str(seed))).failures
        except BaseException as error:  # whatever a bug does to the simulator, it was noticed
            failures = [f"crash: {type(error).__name__}: {error}"]
        if failures:
            _say({"seed": seed, "failures": failures})
            return
    _say({"over": True})


def _say(what: dict[str, Any]) -> None:
    sys.__stdout__.write(json.dumps(what) + "\n")  # type: ignore[union-attr]
    sys.__stdout__.flush()  # type: ignore[union-attr]


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
