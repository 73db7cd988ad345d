"""The reading of a fetch of many partitions, in steps, so that no other client waits for it.

To look 100,000 partitions up and to answer for them takes more than a second, and a consumer of
5,000 some 30 ms. So above `LARGE` partitions the answer is made in steps (`broker.runtime.steps`).
It does not describe one moment then, but its steps: in Kafka, too, other threads continue.

To count what there is to read takes a fraction of that, and is one step. But a round of flushes may
wake such a fetch a thousand times: `Purgatory` has it count once in a turn of the loop.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import GeneratorType
from typing import Final

from broker.partitions.fetch_asked import Resolved
from broker.partitions.fetch_counts import count_failures
from broker.partitions.fetch_reading import TOPIC_ID_VERSION, FetchReading, answers_of
from broker.runtime.steps import Steps
from broker.runtime.turns import names_more_than
from protocol.messages.fetch import FetchPartition, FetchResponse, FetchTopic, PartitionData
from storage.segments.cold import without_waiting

LARGE: Final = 200  # partitions, above which a fetch is handled in steps
PER_STEP: Final = 50
ANSWER_BYTES: Final = 50  # of a partition without records, about


def is_large(topics: list[FetchTopic]) -> bool:
    """Whether a request names so many partitions that it is handled in steps."""
    if len(topics) == 1:  # the usual request
        return len(topics[0].partitions) > LARGE
    return names_more_than(topics, LARGE)


class LargeReading(FetchReading):
    """A reading whose answer is made in steps."""

    __slots__ = ()

    def read_or_load(self) -> Steps:
        """Return the steps of reading."""
        return self._read_in_steps()

    def _read_in_steps(self) -> Steps:
        self._topics = self._view.topics()
        yield 0
        response = self._begin_answer()
        by_id = self._request.header.api_version >= TOPIC_ID_VERSION
        count = 0
        for topic, partitions in self._topics:
            answers = answers_of(topic, response, by_id=by_id)
            for start in range(0, len(partitions), PER_STEP):
                some = partitions[start : start + PER_STEP]
                self._read_hot(some, answers)
                count += len(some)
                if count >= PER_STEP:
                    yield ANSWER_BYTES * count
                    count = 0
        result = self._loaded_if_cold(response)
        if type(result) is GeneratorType:
            return (yield from result)
        return result

    def _read_hot(
        self, partitions: Sequence[tuple[FetchPartition, Resolved]], answers: list[PartitionData]
    ) -> None:
        if self._pulled.starts_left:
            with without_waiting(self._pulled):
                self._read_some(partitions, answers)
        else:
            self._read_some(partitions, answers)

    def _whole(self, response: FetchResponse) -> Steps:
        traffic, count = self._metrics.traffic, 0
        if self._has_errors:
            for topic, answered in zip(self._topics, response.responses, strict=True):
                count_failures([topic], FetchResponse(responses=[answered]), traffic)
                count += len(answered.partitions)
                if count >= PER_STEP:
                    yield 0
                    count = 0
        result = response if self._aborted is None else self._aborted.whole(response)
        if type(result) is GeneratorType:
            return (yield from result)
        return result
