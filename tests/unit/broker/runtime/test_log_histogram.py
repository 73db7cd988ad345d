"""Quantiles of the last minutes, and counts in fixed buckets."""

import random

import pytest

from broker.runtime.log_histogram import WINDOW_NS, Buckets, RecentTimes


def test_a_quantile_is_at_most_an_eighth_above_the_truth() -> None:
    drawn = random.Random(7)
    values = sorted(int(drawn.lognormvariate(10, 3)) + 8 for _ in range(5_000))
    times = RecentTimes()
    for value in values:
        times.add(value, 1)
    shares = (0.5, 0.75, 0.95, 0.98, 0.99, 0.999, 1.0)
    for share, found in zip(shares, times.quantiles(shares, 1), strict=True):
        truth = values[max(0, int(share * len(values)) - 1)]
        assert truth <= found * 1.01
        assert found <= truth * 9 / 8 * 1.02
    assert (times.count, times.sum_ns) == (5_000, sum(values))


@pytest.mark.parametrize("value", [0, 1, 7, 8, 9, 15, 16, 1_000, 2**40, 2**62])
def test_every_value_has_a_bucket(value: int) -> None:
    times = RecentTimes()
    times.add(value, 1)
    (found,) = times.quantiles([0.5], 1)
    assert found == 0 if value < 8 else value <= found <= value * 9 / 8


def test_quantiles_forget_what_is_older_than_two_windows() -> None:
    times = RecentTimes()
    assert times.quantiles([0.5], 1) == [0]
    times.add(1_000, 1)
    now_ns = 2 + WINDOW_NS
    times.add(2_000_000, now_ns)
    low, high = times.quantiles([0.5, 1.0], now_ns)
    assert low < 1_200
    assert high >= 2_000_000
    (low,) = times.quantiles([0.1], now_ns + WINDOW_NS)
    assert low >= 2_000_000
    assert times.quantiles([0.5], now_ns + 3 * WINDOW_NS) == [0]
    assert times.count == 2


def test_buckets_count_up_to_their_bounds() -> None:
    buckets = Buckets((10, 20))
    for value in (0, 10, 11, 20, 21, 1_000):
        buckets.add(value)
    assert buckets.counts == [2, 2, 2]
    assert buckets.sum == 1_062
