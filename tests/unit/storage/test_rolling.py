"""Rolling: each rule at its edge (Kafka: LogSegment.shouldRoll)."""

from types import SimpleNamespace

import pytest

from config.topic import TopicConfig
from storage.rolling import is_roll_due, roll_after_ms


def segment(first=1000, created=5000, *, full=False, path="/d/t-0/0.log"):
    return SimpleNamespace(
        first_timestamp=first,
        created_ms=created,
        indexes=SimpleNamespace(unindexed_bytes=4097, interval_bytes=4096, is_full=full),
        last_offset_max=2**31 - 1,
        log_file=SimpleNamespace(path=path),
    )


@pytest.mark.parametrize(
    ("name", "active", "last_offset", "timestamp", "now_ms", "due"),
    [
        ("young", segment(), 5, 1100, 9999, False),
        ("one ms too old, by the records", segment(), 5, 1101, 0, True),
        ("our clock does not count", segment(), 5, 1000, 10**15, False),
        ("no timestamps: our clock counts", segment(first=-1), 5, -1, 5101, True),
        ("no timestamps, young", segment(first=-1), 5, -1, 5100, False),
        ("not read yet", segment(first=None), 5, 10**9, 5100, False),
        ("index full", segment(full=True), 5, 1000, 0, True),
        ("last offset that fits", segment(), 2**31 - 1, 1000, 0, False),
        ("first that does not", segment(), 2**31, 1000, 0, True),
    ],
)
def test_rules(name, active, last_offset, timestamp, now_ms, due):
    assert is_roll_due(active, 100, last_offset, timestamp, now_ms) is due, name


def test_jitter_shortens_the_age_and_is_the_same_after_a_restart():
    plain = TopicConfig(segment_ms=1000)
    assert roll_after_ms(plain, segment()) == 1000
    config = TopicConfig(segment_ms=1000, segment_jitter_ms=400)
    ages = [roll_after_ms(config, segment(path=f"/d/t-{n}/0.log")) for n in range(50)]
    assert all(600 < age <= 1000 for age in ages)
    assert len(set(ages)) > 20
    assert ages[0] == roll_after_ms(config, segment(path="/d/t-0/0.log"))


def test_jitter_is_bounded_by_the_age():
    config = TopicConfig(segment_ms=10, segment_jitter_ms=10**9)
    assert 0 < roll_after_ms(config, segment()) <= 10
