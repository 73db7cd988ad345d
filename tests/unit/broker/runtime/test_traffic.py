"""The counts of one broker where they are bounded, whatever clients send."""

from broker.runtime.metrics import Metrics
from broker.runtime.traffic import AnyVersions, Traffic


def test_versions_that_are_not_served_count_together() -> None:
    counts = AnyVersions(0, 4)
    for version in (0, 4, 4, 5, -1, -32768, 32767):
        counts[version] += 1
    assert dict(counts) == {0: 1, 4: 2, -1: 4}


def test_the_counts_of_a_topic_go_with_it() -> None:
    traffic = Traffic()
    traffic.topic("t").failed_fetches += 1
    assert traffic.topic("t").failed_fetches == 1
    traffic.forget("t")
    traffic.forget("t")
    assert traffic.topics == {}


def test_a_snapshot_of_the_metrics_holds_integers_alone() -> None:
    metrics = Metrics()
    assert metrics.traffic.listener("A").accepted == 0
    assert {type(value) for value in metrics.snapshot().values()} == {int}
