"""The table of states: only its steps are possible."""

from pathlib import Path

import pytest

from broker.transactions.transaction_states import (
    TRANSACTIONS,
    TransactionEvent,
    TransactionState,
    diagram,
    next_state,
)


@pytest.mark.parametrize("state", TransactionState)
@pytest.mark.parametrize("event", TransactionEvent)
def test_a_step_outside_the_table_is_a_programming_error(state, event):
    if (state, event) in TRANSACTIONS:
        assert next_state(state, event) is TRANSACTIONS[state, event]
    else:
        with pytest.raises(AssertionError, match=event.name):
            next_state(state, event)


def test_the_page_shows_the_table():
    page = (Path(__file__).parents[4] / "docs" / "transactions.md").read_text(encoding="utf-8")
    assert f"```mermaid\n{diagram()}\n```" in page


def test_the_steps_are_those_of_kafkas_transaction_state():
    """Kafka declares, for each state, from which others it may be entered."""
    entered: dict[str, set[str]] = {}
    for (source, _), target in TRANSACTIONS.items():
        entered.setdefault(target.title, set()).add(source.title)
    idle = {"Empty", "CompleteCommit", "CompleteAbort"}
    assert entered == {
        "Empty": idle,
        "Ongoing": {"Ongoing", *idle},
        "PrepareCommit": {"Ongoing"},
        "PrepareAbort": {"Ongoing", *idle},
        "CompleteCommit": {"PrepareCommit"},
        "CompleteAbort": {"PrepareAbort"},
    }
