"""`barnabas serve` on a disk with faults: the broker's own command line, behind a few options.

    python -m tests.faults.faulty_broker [OPTION]... serve ...

    --at FAULT        from the start of the process on; also while it recovers
    --serving FAULT   once it listens
    --broken NAME     break a promise (`tests.faults.broken_brokers`)

The broker does not know of this: this module replaces the file system, and the functions whose
promises are broken on purpose, from outside.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import broker.server
from broker.lifecycle import environment
from client.cli import main as command_line
from tests.faults import broken_brokers
from tests.faults.faulty_filesystem import Fault, FaultyFileSystem
from tests.support.broker_process import BrokerProcess


class FaultyBroker(BrokerProcess):
    """A broker process with faults; they may differ from start to start."""

    def __init__(self, data: Path, settings: dict[str, str], *, broken: str = "") -> None:
        super().__init__(data, settings)
        self.broken = broken
        self.recovering: Sequence[str] = ()
        self.serving: Sequence[str] = ()

    def command(self) -> list[str]:
        """The command line, with this module instead of the product's."""
        options = [word for fault in self.recovering for word in ("--at", fault)]
        options += [word for fault in self.serving for word in ("--serving", fault)]
        if self.broken:
            options += ["--broken", self.broken]
        product = super().command()
        at = product.index("serve")
        return [sys.executable, "-m", "tests.faults.faulty_broker", *options, *product[at:]]


def main() -> None:
    """Install the faults, then run the broker."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--at", action="append", default=[], type=Fault.parse)
    parser.add_argument("--serving", action="append", default=[], type=Fault.parse)
    parser.add_argument("--broken", choices=sorted(broken_brokers.VARIANTS))
    options, rest = parser.parse_known_args()
    FaultyFileSystem.faults = tuple(options.at)
    environment.OsFileSystem = FaultyFileSystem  # type: ignore[misc]
    serve = broker.server.Broker.serve

    async def armed(self: broker.server.Broker) -> bool:
        FaultyFileSystem.faults += tuple(options.serving)
        return await serve(self)

    broker.server.Broker.serve = armed  # type: ignore[method-assign]
    if options.broken:
        broken_brokers.VARIANTS[options.broken].apply()
    sys.argv[1:] = rest
    command_line()


if __name__ == "__main__":
    main()
