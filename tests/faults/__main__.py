"""Crash a broker again and again, and report the findings.

    .venv/bin/python -m tests.faults kill 50        kills at random moments and at every failpoint
    .venv/bin/python -m tests.faults power 50       power cuts in the three shapes of ext4; as root
    .venv/bin/python -m tests.faults flip 4         kills, and a bit of an old batch flips
    .venv/bin/python -m tests.faults kill 50 --transactions   transactional clients; power, too
    .venv/bin/python -m tests.faults kill 8 --broken NAME     a broker that must be detected

`make test` or `make faults` sets .venv up; another Python lacks what the broker needs. Each
directory goes through ten crashes. The last line is the tally; the exit code is 1 if anything was
wrong, and then the directory is kept. `--seed` repeats the choices, not the timing.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

try:
    from tests.faults.broken_brokers import VARIANTS
    from tests.faults.campaign import Campaign
except ModuleNotFoundError as error:
    sys.exit(
        f"{sys.executable} has no {error.name}: `make faults` sets an environment up, in which this"
        " is `.venv/bin/python -m tests.faults`"
    )


def main() -> int:
    """Parse the arguments, enter a mount namespace for power cuts, and run."""
    parser = argparse.ArgumentParser(prog=".venv/bin/python -m tests.faults")
    parser.add_argument("kind", choices=("kill", "power", "flip"))
    parser.add_argument("cycles", type=int)
    parser.add_argument("--transactions", action="store_true", help="clients of transactions")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--broken", choices=sorted(VARIANTS), default="")
    parser.add_argument("--directory", type=Path, help="where to work; default: a new one")
    parser.add_argument(
        "--keep-going", action="store_true", help="do not stop at the first finding"
    )
    options = parser.parse_args()
    if options.kind == "power" and "BARNABAS_FAULTS_UNSHARED" not in os.environ:
        command = ["unshare", "-m", sys.executable, "-m", "tests.faults", *sys.argv[1:]]
        environment = {**os.environ, "BARNABAS_FAULTS_UNSHARED": "1"}
        return subprocess.run(command, env=environment, check=False).returncode
    directory = options.directory or Path(tempfile.mkdtemp(prefix="barnabas-faults-"))
    campaign = Campaign(
        directory,
        options.kind,
        options.seed,
        broken=options.broken,
        transactional=options.transactions,
    )
    tally = asyncio.run(campaign.run(options.cycles, keep_going=options.keep_going))
    print(tally.summary())
    if not tally.found:
        shutil.rmtree(directory, ignore_errors=True)
    return 1 if tally.found else 0


if __name__ == "__main__":
    sys.exit(main())
