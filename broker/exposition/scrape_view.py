"""The broker as one scrape sees it: its parts, and lists that several metrics walk over.

`prepare` makes the lists in small steps, since there may be thousands of partitions and groups.
What partitions have is read then, in columns, which are written faster than one by one; other
values are read when they are written. What is created or deleted meanwhile is seen by the next
scrape.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from broker.assembly import Assembly
from broker.exposition.client_walk import ClientWalk
from broker.exposition.label_text import Pieces, cut, escaped, labels
from broker.exposition.lag_history import LagHistory
from broker.exposition.pulse import Pulse
from broker.groups.committed import Committed
from broker.groups.group import Group
from broker.network.processor import Processor
from broker.partitions.partition import Partition
from broker.runtime.traffic import TopicTraffic

STEP: Final = 200
SOFTWARE_MAX: Final = 200  # names of clients' software; further ones count together

# In the order of TopicTotals.values: which of its numbers a metric shows.
RECORDS, BYTES_IN, BYTES_OUT, PRODUCES, FETCHES = range(5)


class CommittedPlace:
    """One committed offset: its labels, its value, and the lag behind the high watermark."""

    __slots__ = ("lag", "millis", "offset", "tail")

    def __init__(self, tail: str, offset: int, lag: int, millis: int | None) -> None:
        self.tail = tail
        self.offset = offset
        self.lag = lag
        self.millis = millis


class ScrapeView:
    """What the samples of one scrape are read from."""

    def __init__(
        self,
        assembly: Assembly,
        processors: Sequence[Processor],
        pulse: Pulse,
        *,
        lags: LagHistory | None = None,
        is_stopping: bool = False,
    ) -> None:
        self.assembly = assembly
        self.services = assembly.services
        self.metrics = assembly.services.metrics
        self.traffic = assembly.services.metrics.traffic
        self.processors = processors
        self.pulse = pulse
        self.is_stopping = is_stopping
        self._lags = lags
        self.partitions: list[Partition] = []
        self.tails: list[str] = []  # their labels, and in the same order:
        self.sizes: list[int] = []
        self.starts: list[int] = []
        self.ends: list[int] = []
        self.highs: list[int] = []  # high watermarks
        self.segments: list[int] = []
        self.topics: dict[str, list[int]] = {}  # totals by topic
        self.topic_partitions: dict[str, int] = {}
        self.totals = [0] * 5
        self.groups: list[tuple[str, Group]] = []
        self.group_offsets: list[CommittedPlace] = []
        self.group_sums: dict[tuple[str, str], list[int]] = {}
        self.software: dict[tuple[str, str, str], int] = {}  # name, version, listener
        self.clients = ClientWalk(assembly.services.telemetry.figures)

    def prepare(self) -> Pieces:
        """Make the lists; yields nothing but turns."""
        yield from self._walk_partitions()
        if self.services.has_groups:
            yield from self._walk_groups()
        yield from self._walk_connections()
        self.services.telemetry.expire()
        yield from self.clients.walk()

    def _walk_partitions(self) -> Pieces:
        self.partitions = self.services.partitions.all()
        gone = self.traffic.gone  # now: a partition that goes during the walk is counted below
        before = gone.records, gone.bytes_in, gone.bytes_out, gone.produces, gone.fetches
        for begin in range(0, len(self.partitions), STEP):
            yield ""
            self._read_partitions(self.partitions[begin : begin + STEP])
        self.totals = list(map(sum, zip(before, *self.topics.values(), strict=True)))

    def _read_partitions(self, partitions: Sequence[Partition]) -> None:
        logs = [partition.log for partition in partitions]
        self.sizes += [log.size_bytes for log in logs]
        self.starts += [log.start_offset for log in logs]
        self.ends += [log.end_offset for log in logs]
        self.highs += [log.high_watermark for log in logs]
        self.segments += [len(log.segments) for log in logs]
        name, head, sums = "", "", [0] * 5
        for partition, log in zip(partitions, logs, strict=True):
            if log.topic != name:
                name = log.topic
                head = f'{{topic="{escaped(name)}",partition="'
                sums = self.topics.setdefault(name, [0] * 5)
                self.topic_partitions.setdefault(name, 0)
            self.tails.append(f'{head}{log.partition}"}}')
            self.topic_partitions[name] += 1
            sums[RECORDS] += log.end_offset - log.opened_at
            sums[BYTES_IN] += log.appended_bytes
            sums[BYTES_OUT] += log.read_bytes
            sums[PRODUCES] += partition.produces
            sums[FETCHES] += partition.fetches

    def _walk_connections(self) -> Pieces:
        found = self.software
        for processor in self.processors:
            for count, connection in enumerate(tuple(processor.connections)):
                if count % STEP == STEP - 1:
                    yield ""
                info = connection.info
                name, version = cut(info.software_name), cut(info.software_version)
                key = (name, version, info.listener.name)
                if key not in found and len(found) >= SOFTWARE_MAX:
                    key = ("other", "other", info.listener.name)
                found[key] = found.get(key, 0) + 1

    def _walk_groups(self) -> Pieces:
        for registry in tuple(self.services.groups.registries()):
            self.groups += registry.groups.items()
            for group_id in tuple(registry.offsets.group_ids()):
                yield ""
                for topic, offsets in tuple(registry.offsets.topics(group_id).items()):
                    yield from self._walk_offsets(group_id, topic, dict(offsets))

    def _walk_offsets(self, group_id: str, topic: str, offsets: Mapping[int, Committed]) -> Pieces:
        partitions, now_ms = self.services.partitions, self.services.clock.now_ms()
        sums = self.group_sums.setdefault((group_id, topic), [0, 0])
        for count, (number, committed) in enumerate(offsets.items()):
            if count % STEP == STEP - 1:
                yield ""
            offset = committed.offset
            lag, millis = 0, None
            if partitions.has(topic, number):
                lag = max(0, partitions.get(topic, number).log.high_watermark - offset)
                if self._lags is not None:
                    millis = self._lags.behind_ms(topic, number, offset, now_ms)
            tail = labels(consumergroup=group_id, topic=topic, partition=number)
            self.group_offsets.append(CommittedPlace(tail, offset, lag, millis))
            sums[0] += offset
            sums[1] += lag

    def failures(self, topic: str) -> TopicTraffic | None:
        """Return the failures of a topic, if there are any."""
        return self.traffic.topics.get(topic)
