"""Retention: which old segments are deleted, and why (Kafka's UnifiedLog.deleteOldSegments)."""

from typing import NamedTuple

import pytest

from storage.retention import RetentionRules, breaches


class Facts(NamedTuple):
    base_offset: int
    size: int
    max_timestamp: int
    created_ms: int = 0


# Three full segments and the active one; 100 records per segment.
FOUR = [Facts(0, 1000, 100), Facts(100, 1000, 200), Facts(200, 1000, 300), Facts(300, 500, 400)]
KEEP = RetentionRules(deletes=True, retention_ms=-1, retention_bytes=-1)


def run(segments=FOUR, rules=KEEP, *, now_ms=0, start=0, high_watermark=350, end=350):
    found = breaches(
        segments,
        rules,
        now_ms=now_ms,
        start_offset=start,
        high_watermark=high_watermark,
        end_offset=end,
    )
    return [(breach.segment_count, breach.reason.split(" breach")[0]) for breach in found]


@pytest.mark.parametrize(
    ("name", "now_ms", "gone"),
    [
        ("at the limit stays", 150, 0),
        ("past it goes", 151, 1),
        ("two", 251, 2),
        ("the active one too, by Kafka's rule", 451, 4),
    ],
)
def test_time(name, now_ms, gone):
    rules = KEEP._replace(retention_ms=50)
    wanted = [(gone, "log retention time 50ms")] if gone else []
    assert run(rules=rules, now_ms=now_ms) == wanted, name


def test_a_record_from_the_future_keeps_its_segment_and_all_later_ones():
    segments = [FOUR[0], FOUR[1]._replace(max_timestamp=10**15), *FOUR[2:]]
    assert run(segments, KEEP._replace(retention_ms=50), now_ms=10_000)[0][0] == 1


@pytest.mark.parametrize(
    ("name", "limit", "gone"),
    [
        ("under the limit", 3501, 0),
        ("exactly the limit", 3500, 0),
        ("one less: the first is still needed", 3499, 0),
        ("a segment's size less", 2500, 1),
        ("two segments' size less", 1500, 2),
        ("room for the active one only", 500, 3),
        ("no room at all", 0, 4),
    ],
)
def test_size(name, limit, gone):
    wanted = [(gone, f"log retention size {limit}")] if gone else []
    assert run(rules=KEEP._replace(retention_bytes=limit)) == wanted, name


@pytest.mark.parametrize(
    ("name", "start", "gone"),
    [
        ("inside the first", 99, 0),
        ("at the second", 100, 1),
        ("inside the third", 250, 2),
        ("at the end: the active one stays", 350, 3),
    ],
)
@pytest.mark.parametrize("deletes", [True, False])
def test_the_log_start_offset_applies_under_every_policy(name, start, gone, deletes):
    wanted = [(gone, f"log start offset {start}")] if gone else []
    assert run(rules=KEEP._replace(deletes=deletes), start=start) == wanted, name


def test_without_the_delete_policy_time_and_size_do_not_apply():
    rules = RetentionRules(deletes=False, retention_ms=0, retention_bytes=0)
    assert run(rules=rules, now_ms=10**9) == []


def test_the_rules_apply_in_order():
    rules = RetentionRules(deletes=True, retention_ms=50, retention_bytes=1500)
    assert run(rules=rules, start=100, now_ms=351) == [
        (1, "log start offset 100"),
        (1, "log retention size 1500"),
        (1, "log retention time 50ms"),
    ]


def test_segments_above_the_high_watermark_stay():
    assert run(rules=KEEP._replace(retention_bytes=0), high_watermark=199) == [
        (1, "log retention size 0")
    ]


def test_an_empty_active_segment_stays():
    segments = [FOUR[0], Facts(100, 0, -1)]
    rules = KEEP._replace(retention_ms=0)
    assert run(segments, rules, now_ms=10**9, high_watermark=100, end=100)[0][0] == 1
    assert run([Facts(0, 0, -1)], rules, now_ms=10**9, high_watermark=0, end=0) == []


def test_without_timestamps_the_age_of_the_segment_counts():
    rules = KEEP._replace(retention_ms=50)
    segments = [Facts(0, 1000, -1, created_ms=1000), Facts(100, 1000, -1, created_ms=1000)]
    assert run(segments, rules, now_ms=1050, high_watermark=200, end=200) == []
    assert run(segments, rules, now_ms=1051, high_watermark=200, end=200)[0][0] == 2
