"""What a page may look at: the parts of the broker, and whether it is stopping."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from broker.assembly import Assembly
from broker.exposition.history import History
from broker.exposition.pulse import Pulse
from broker.network.processor import Processor
from broker.runtime.log_tail import LogTail


@dataclass(slots=True)
class Surroundings:
    """The running broker as pages see it."""

    assembly: Assembly
    processors: Sequence[Processor]
    pulse: Pulse
    history: History
    log_tail: LogTail
    is_stopping: bool = False
    console: Any = None  # `broker.console.console.Console`, made with the first request for it
