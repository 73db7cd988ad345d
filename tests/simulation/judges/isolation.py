"""Isolation: what a fault harms is answered there, and nowhere else.

    codes         an error that only a broken disk explains is answered for a partition that the
                  disk has failed, from then on; for a topic, if one of its partitions, the metadata
                  log or a file outside of the partitions has failed. UNKNOWN_SERVER_ERROR means
                  that nobody foresaw what happened, and is never right
    connections   the broker ends a client's connection only for a reason that it counts

`Harm` is the memory of what the disk has failed: the disk itself forgets at the next healing. A log
that has failed stays so until the broker starts again, and a flipped bit for ever.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from broker.runtime.metrics import Metrics
from protocol.errors import ErrorCode
from storage.files import filenames
from tests.simulation.record import Refusal

LISTED_MAX: Final = 8
UNKNOWN: Final = int(ErrorCode.UNKNOWN_SERVER_ERROR)
# A produce request may be refused as corrupt for its own batch.
OF_THE_DISK: Final = {
    int(ErrorCode.KAFKA_STORAGE_ERROR): (),
    int(ErrorCode.CORRUPT_MESSAGE): ("produce",),
}
NOWHERE: Final = ""  # the disk's name for files outside of the partitions
# APIs whose answer for one partition also needs files outside of it.
WIDE_APIS: Final = ("delete records",)


@dataclass(slots=True)
class Harm:
    """When the disk failed which partition, by the name of its directory."""

    spans: dict[str, list[tuple[int, int | None]]] = field(default_factory=dict)
    _looked_ns: int = 0

    def look(self, harmed: Collection[str], now_ns: int) -> None:
        """Note what is harmed now; it happened at any time since the last look."""
        for name in sorted(harmed):
            spans = self.spans.setdefault(name, [])
            if not spans or spans[-1][1] is not None:
                spans.append((self._looked_ns, None))
        self._looked_ns = now_ns

    def started_anew(self, now_ns: int, still: Collection[str] = ()) -> None:
        """Note that a broker has started on a healed disk, where only `still` is harmed."""
        for name, spans in self.spans.items():
            if name not in still and spans[-1][1] is None:
                spans[-1] = (spans[-1][0], now_ns)

    def explains(self, name: str, at_ns: int, since_ns: int | None = None) -> bool:
        """Whether a failure of that directory explains an answer at a time.

        The answer came on a connection that was opened at `since_ns`. It may have been under way
        while the broker that gave it was killed and another one started.
        """
        since_ns = at_ns if since_ns is None else since_ns
        return any(
            began <= at_ns and (until is None or since_ns <= until)
            for began, until in self.spans.get(name, ())
        )


def judge(refusals: Iterable[Refusal], harm: Harm) -> list[str]:
    """Object to error codes that no fault explains."""
    found: dict[str, None] = {}
    for one in refusals:
        where = f"{one.topic}-{one.partition}" if one.partition >= 0 else one.topic
        if one.code == UNKNOWN:
            found[f"{one.api} of {where}: UNKNOWN_SERVER_ERROR at {one.at_ns} ns"] = None
        elif one.code not in OF_THE_DISK or one.api in OF_THE_DISK[one.code]:
            continue
        elif not _is_explained(one, harm):
            name = ErrorCode(one.code).name
            found[f"{one.api} of {where}: {name} at {one.at_ns} ns, its disk is sound"] = None
    return _listed(list(found))


def _is_explained(one: Refusal, harm: Harm) -> bool:
    if one.partition >= 0:
        name = filenames.partition_directory(one.topic, one.partition)
        names = [name, *([NOWHERE] if one.api in WIDE_APIS else [])]
    else:
        names = [NOWHERE, filenames.METADATA_DIRECTORY]
        names += [name for name in harm.spans if name.rpartition("-")[0] == one.topic]
    return any(harm.explains(name, one.at_ns, one.since_ns) for name in names)


# -- Connections --------------------------------------------------------------------------


class Served(NamedTuple):
    """The time in which one broker served, until it was told to stop or killed; its counters."""

    since_ns: int
    until_ns: int
    metrics: Metrics


def connections(ended: Sequence[tuple[int, str, str]], served: Iterable[Served]) -> list[str]:
    """Object to connections that the broker ended and did not count.

    `ended`: when the broker closed it, whose and how, of clients that send nothing wrong. What the
    network cuts and what ends with a killed process is not among them.
    """
    found: list[str] = []
    for life in served:
        here = [one for one in ended if life.since_ns <= one[0] < life.until_ns]
        found += _uncounted(here, life.metrics)
    return _listed(found)


def _uncounted(ended: Sequence[tuple[int, str, str]], metrics: Metrics) -> Iterator[str]:
    counted = (
        metrics.connections_closed_idle
        + metrics.protocol_errors  # frames that time out among them
        + metrics.connections_refused
    )
    if len(ended) > counted:
        when, who, why = ended[-1]
        yield (
            f"{len(ended)} connections were ended, {counted} are counted; the last was that of "
            f"{who} at {when} ns ({why})"
        )


def _listed(found: Sequence[str]) -> list[str]:
    more = len(found) - LISTED_MAX
    return [*found[:LISTED_MAX], *([f"and {more} more"] if more > 0 else [])]
