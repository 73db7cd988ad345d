"""The state tables: only their steps are possible, and the documentation shows exactly these."""

from pathlib import Path

import pytest

from broker.groups.states import (
    CLASSIC,
    CONSUMER,
    ClassicGroupEvent,
    ClassicGroupState,
    ConsumerGroupEvent,
    ConsumerGroupState,
    diagram,
    next_state,
)

STEPS = [
    *((CLASSIC, state, event) for state in ClassicGroupState for event in ClassicGroupEvent),
    *((CONSUMER, state, event) for state in ConsumerGroupState for event in ConsumerGroupEvent),
]


@pytest.mark.parametrize(("table", "state", "event"), STEPS)
def test_a_step_outside_the_table_is_a_programming_error(table, state, event):
    if (state, event) in table:
        assert next_state(table, state, event) is table[state, event]
    else:
        with pytest.raises(AssertionError, match=event.name):
            next_state(table, state, event)


@pytest.mark.parametrize("event", ConsumerGroupEvent)
def test_a_dead_consumer_group_stays_dead(event):
    assert (ConsumerGroupState.DEAD, event) not in CONSUMER


def test_the_steps_are_those_of_kafkas_classic_group_state():
    """Kafka declares, for each state, from which others it may be entered."""
    entered = {}
    for (source, _), target in CLASSIC.items():
        entered.setdefault(target.value, set()).add(source.value)
    living = {"Empty", "PreparingRebalance", "CompletingRebalance", "Stable"}
    assert entered == {
        "Empty": {"PreparingRebalance"},
        "PreparingRebalance": {"Stable", "CompletingRebalance", "Empty"},
        "CompletingRebalance": {"PreparingRebalance"},
        "Stable": {"CompletingRebalance"},
        "Dead": living,
    }


def test_the_diagram_has_a_line_for_each_step():
    lines = diagram(CLASSIC).splitlines()
    assert lines[0] == "stateDiagram-v2"
    assert len(lines) == 1 + len(CLASSIC)
    assert "    Empty --> PreparingRebalance: a member joins, leaves or requests it" in lines


@pytest.mark.parametrize("table", [CLASSIC, CONSUMER], ids=["classic", "consumer"])
def test_the_page_shows_the_table(table):
    page = (Path(__file__).parents[4] / "docs" / "groups.md").read_text(encoding="utf-8")
    assert f"```mermaid\n{diagram(table)}\n```" in page
