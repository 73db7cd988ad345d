"""What `barnabas top` shows: one sample of a broker, and the rates between two."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol


@dataclass(slots=True)
class TopicLine:
    """One topic; totals since some beginning, None where the broker does not tell."""

    name: str
    partitions: int
    records: int
    size_bytes: int | None = None
    bytes_in: int | None = None
    bytes_out: int | None = None


@dataclass(slots=True)
class GroupLine:
    """One group: its members and lag, None where the broker does not tell."""

    name: str
    lag: int
    members: int | None = None
    state: str = ""


@dataclass(slots=True)
class Snapshot:
    """One sample; `facts` are words and their values for the head, `notices` need attention."""

    at_s: float  # of a monotonic clock
    title: str
    facts: list[tuple[str, str]] = field(default_factory=list)
    notices: list[str] = field(default_factory=list)
    topics: list[TopicLine] = field(default_factory=list)
    groups: list[GroupLine] = field(default_factory=list)


class Sampled(Protocol):
    """Where samples come from."""

    def sample(self) -> Snapshot:
        """Return the broker as it is now. Raises BrokerError."""
        ...


@dataclass(frozen=True, slots=True)
class TopicRates:
    """What a topic did a second between two samples; None where it is not told."""

    records: float | None
    bytes_in: float | None
    bytes_out: float | None


def rates_of(now: Snapshot, before: Snapshot | None) -> dict[str, TopicRates]:
    """Return the rates by topic. A total that has fallen is that of another life: no rate."""
    older = {one.name: one for one in before.topics} if before else {}
    seconds = now.at_s - before.at_s if before else 0.0
    found = {}
    for one in now.topics:
        was = older.get(one.name)
        if was is None or seconds <= 0:
            found[one.name] = TopicRates(None, None, None)
            continue
        found[one.name] = TopicRates(
            _rate(one.records, was.records, seconds),
            _rate(one.bytes_in, was.bytes_in, seconds),
            _rate(one.bytes_out, was.bytes_out, seconds),
        )
    return found


def _rate(now: int | None, before: int | None, seconds: float) -> float | None:
    if now is None or before is None or now < before:
        return None
    return (now - before) / seconds
