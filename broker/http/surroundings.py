"""What a page may look at: the parts of the broker, and whether it is stopping."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from broker.assembly import Assembly
from broker.exposition.pulse import Pulse
from broker.network.processor import Processor


@dataclass(slots=True)
class Surroundings:
    """The running broker as pages see it."""

    assembly: Assembly
    processors: Sequence[Processor]
    pulse: Pulse
    is_stopping: bool = False
