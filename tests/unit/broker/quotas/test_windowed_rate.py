"""Rates and buckets, with the throttle times that Apache Kafka 4.3 computes for the same use."""

import pytest

from broker.quotas.windowed_rate import TokenBucket, WindowedRate, Windows, rounded

ELEVEN = Windows(11, 1_000)


def test_ten_full_windows_pass_at_once_and_the_excess_is_waited_for() -> None:
    rate = WindowedRate(ELEVEN)
    found = []
    for now_ms in (0, 1, 2):
        rate.record(50_050, now_ms)
        found.append(rate.throttle_ms(10_000, now_ms))
    assert found == [0, 9, 5_013]  # Kafka, with a request's header: 0, 20, 5009


def test_a_limit_near_zero_throttles_for_the_longest_time() -> None:
    rate = WindowedRate(ELEVEN)
    rate.record(1e6, 0)
    assert rate.throttle_ms(1e-310, 0) == rounded(float("inf")) == 2**31 - 1


def test_waiting_hardly_lowers_a_rate_before_its_oldest_window_is_ten_windows_old() -> None:
    rate = WindowedRate(ELEVEN)
    rate.record(200_000, 0)
    found = [rate.throttle_ms(10_000, now_ms) for now_ms in (0, 500, 5_000, 10_000, 10_999)]
    assert found == [10_000, 9_500, 10_000, 10_000, 9_001]  # Kafka's formula: 10 s and a part
    assert rate.throttle_ms(10_000, 11_000) == 0


def test_a_window_counts_until_all_windows_have_passed_since_its_last_value() -> None:
    rate = WindowedRate(ELEVEN)
    rate.record(1_000_000, 0)
    rate.record(1, 999)  # still the same window
    assert rate.throttle_ms(1, 999 + 10_999) > 0
    assert not rate.is_idle(999 + 10_999)
    assert rate.throttle_ms(1, 999 + 11_000) == 0
    assert rate.is_idle(999 + 11_000)


def test_the_time_since_the_oldest_window_counts_once_it_is_longer_than_ten_windows() -> None:
    rate = WindowedRate(ELEVEN)
    for second in range(30):
        rate.record(10_000, second * 1_000)
        assert rate.throttle_ms(11_000, second * 1_000) == 0
    # Eleven windows of 10,000 over 10 s: the newest has just begun.
    assert rate.throttle_ms(10_000, 29_000) == rounded(1_000 / 10_000 * 10_000)


def test_what_is_taken_back_does_not_count() -> None:
    rate = WindowedRate(ELEVEN)
    rate.record(500_000, 0)
    rate.record(-500_000, 0)
    assert rate.throttle_ms(1, 0) == 0


@pytest.mark.parametrize("windows", [Windows(1, 1_000), Windows(2, 5_000)])
def test_few_windows(windows: Windows) -> None:
    rate = WindowedRate(windows)
    rate.record(20_000, 0)
    span_s = max(1, (windows.number - 1) * windows.window_ms / 1_000)
    assert rate.throttle_ms(1_000, 0) == (20_000 / span_s - 1_000) / 1_000 * span_s * 1_000


def test_samples_are_bounded() -> None:
    rate = WindowedRate(ELEVEN)
    for second in range(1_000):
        rate.record(1, second * 1_000)
    assert len(rate._samples) == 12


def test_a_bucket_is_full_at_first_goes_below_zero_and_fills_again() -> None:
    bucket = TokenBucket(ELEVEN)
    assert bucket.tokens(2, 5_000) == 22
    assert bucket.is_idle(2, 5_000)
    bucket.take(30, 2, 5_000)
    assert bucket.tokens(2, 5_000) == -8
    assert bucket.tokens(2, 9_000) == 0
    assert not bucket.is_idle(2, 19_999)
    assert bucket.is_idle(2, 20_000)
    assert bucket.tokens(2, 10**9) == 22


def test_a_throttle_time_fits_into_its_field() -> None:
    assert rounded(2.5) == 3
    assert rounded(1e300) == 2**31 - 1
