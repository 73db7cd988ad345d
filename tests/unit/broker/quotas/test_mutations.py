"""The quota of changes to topics, as Apache Kafka 4.3 counts it."""

import pytest

from broker.metadata.topic_rules import TopicError
from broker.quotas.mutations import MutationQuota
from broker.quotas.windowed_rate import TokenBucket, Windows
from broker.runtime.clock import ManualClock
from protocol.errors import ErrorCode

RATE = 1.0


class Rig:
    def __init__(self) -> None:
        self.clock = ManualClock()
        self.bucket = TokenBucket(Windows(11, 1_000))

    def request(self, *counts: int, strict: bool = True) -> tuple[list[bool], int]:
        """Return which changes were made, and the throttle time."""
        quota = MutationQuota(self.bucket, RATE, self.clock, is_strict=strict)
        quota.begin()
        made = []
        for count in counts:
            try:
                quota.charge(count)
            except TopicError as error:
                made.append(error.code != ErrorCode.THROTTLING_QUOTA_EXCEEDED)
            else:
                made.append(True)
        quota.settle()
        return made, quota.throttle_ms()


def test_a_burst_passes_and_its_debt_is_waited_for() -> None:
    rig = Rig()
    assert rig.request(20) == ([True], 0)
    assert rig.request(20) == ([False], 9_000)
    rig.clock.advance(8_000)
    assert rig.request(1) == ([False], 1_000)
    rig.clock.advance(1_000)
    assert rig.request(1) == ([True], 0)
    assert rig.request(1) == ([False], 1_000)


def test_a_refusal_does_not_count() -> None:
    rig = Rig()
    assert rig.request(15, 5, 5) == ([True, False, False], 4_000)
    assert rig.request(1) == ([False], 4_000)


def test_older_versions_make_the_change_and_throttle() -> None:
    rig = Rig()
    assert rig.request(11, strict=False) == ([True], 0)
    assert rig.request(3, 4, strict=False) == ([True, True], 7_000)
    assert rig.request(1) == ([False], 7_000)


def test_time_that_passed_since_the_refusal_is_waited_for() -> None:
    rig = Rig()
    rig.request(15)
    quota = MutationQuota(rig.bucket, RATE, rig.clock, is_strict=True)
    quota.begin()
    with pytest.raises(TopicError):
        quota.charge(1)
    rig.clock.advance(1_500)
    assert quota.throttle_ms() == 2_500
    rig.clock.advance(60_000)
    assert quota.throttle_ms() == 0
