"""The budget reports its two thresholds, once each, with a gap between them."""

from broker.network.byte_budget import ByteBudget
from broker.runtime.metrics import Metrics


def test_each_crossing_is_reported_once_and_counted() -> None:
    metrics = Metrics()
    budget = ByteBudget(1_000, metrics, "budget_full_waits")
    heard: list[bool] = []
    budget.listen(heard.append)
    steps = [
        ("take", 1_000, []),  # at the limit is not over it
        ("take", 1, [True]),
        ("take", 500, [True]),
        ("give", 700, [True]),  # 801 of 1,000: not yet enough room
        ("give", 51, [True, False]),
        ("take", 400, [True, False, True]),
    ]
    for what, count, expected in steps:
        (budget.take if what == "take" else budget.give_back)(count)
        assert heard == expected
    assert metrics.budget_full_waits == 2
    assert budget.used_bytes == 1_150


def test_without_a_limit_it_only_counts() -> None:
    budget = ByteBudget(-1, Metrics(), "answers_full_waits")
    budget.take(10**12)
    assert not budget.full
    assert budget.used_bytes == 10**12
