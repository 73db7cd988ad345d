"""When the panel looks at open transactions."""

from types import SimpleNamespace
from typing import Any

import pytest

from tests.simulation.judges import quiet
from tests.simulation.transaction_panel import TransactionPanel


@pytest.mark.parametrize(
    ("told_to_stop_ns", "injected", "looks"),
    [(0, set(), 1), (0, {quiet.DISK}, 0), (5, set(), 0)],
    ids=["serving", "with a bad disk", "stopping"],
)
def test_it_looks_while_the_broker_serves_on_a_sound_disk(
    told_to_stop_ns: int, injected: set[str], looks: int
) -> None:
    looked: list[int] = []
    context: Any = SimpleNamespace(
        life=SimpleNamespace(told_to_stop_ns=told_to_stop_ns),
        injected=injected,
        world=SimpleNamespace(now_ns=7),
    )
    panel = TransactionPanel(context, lambda _judge, _found: None)
    watch: Any = SimpleNamespace(look=looked.append)
    panel._watch = watch
    panel.look()
    assert looked == [7] * looks
