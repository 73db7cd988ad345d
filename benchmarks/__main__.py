"""All that compares brokers as processes: `python -m benchmarks`, with the options of peers.

Where Apache Kafka cannot be had, says so and measures Barnabas alone.
"""

from __future__ import annotations

import sys

from benchmarks import peers, restart
from tests.interop.oracle import kafka


def main() -> int:
    """Run the comparison, then the restarts."""
    options = sys.argv[1:]
    try:
        kafka.libs()
    except kafka.OracleMissingError as missing:
        sys.stderr.write(f"no Apache Kafka to compare with: {missing}\n")
        options += ["--only", "barnabas"]
    peers.main(options)
    sys.stdout.write("\n")
    return restart.main([])


if __name__ == "__main__":
    sys.exit(main())
