"""A broker with one promise broken on purpose: how, which crashes expose it, and as what."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from tests.faults.failpoints import Crash

# Where acknowledged bytes were, a log may be shorter, hold other batches, or not be readable.
LOSS = frozenset({"unseen", "vanished", "lost-write", "inconsistent-offsets", "unreadable"})


@dataclass(frozen=True, slots=True)
class Variant:
    """One broken promise. `kind` is the campaign that detects it.

    `shows_as` names every way in which the break can show: one of them is enough.
    """

    apply: Callable[[], None]
    kind: str
    crashes: Sequence[Crash]
    shows_as: frozenset[str] = field(default=LOSS)
    transactional: bool = False  # its clients are
