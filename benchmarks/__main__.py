"""All comparisons of brokers as processes: `python -m benchmarks`, with the options of peers.

Only the loads of prebuilt frames, three pairs, and no page: a quick check of a change to the
broker. If Apache Kafka is not available, it says so and measures Barnabas alone.
"""

from __future__ import annotations

import sys

from benchmarks import peers, restart
from tests.interop.oracle import kafka

SMALL = ("--only", "life,raw-*", "--pairs", "3", "--growth", "none", "--no-profiles", "--page", "")


def main() -> int:
    """Run the comparison, then the restarts."""
    results = str(peers.DEFAULT_DIRECTORY / "frames.json")
    options = [*SMALL, "--fresh", "--results", results, *sys.argv[1:]]
    try:
        kafka.libs()
    except kafka.OracleMissingError as missing:
        sys.stderr.write(f"no Apache Kafka to compare with: {missing}\n")
        options += ["--side", "barnabas"]
    code = peers.main(options)
    sys.stdout.write("\n")
    return restart.main([]) or code


if __name__ == "__main__":
    sys.exit(main())
