"""Leader epochs: fencing, where an epoch ended, divergence, and an epoch without records."""

from types import SimpleNamespace
from typing import Any

import pytest

from broker.partitions.epoch_fencing import UNDEFINED, divergence, end_of_epoch, epoch_at, fence
from protocol.errors import ErrorCode
from storage.leader_epochs import LeaderEpochs


def log(leader_epoch: int, end_offset: int, *entries: tuple[int, int]) -> Any:
    epochs = LeaderEpochs(entries)
    return SimpleNamespace(
        leader_epoch=leader_epoch,
        end_offset=end_offset,
        epochs=epochs,
        end_offset_for_epoch=lambda epoch: epochs.end_offset_for(epoch, end_offset),
    )


@pytest.mark.parametrize(
    ("believed", "code"),
    [
        (-1, None),
        (3, None),
        (2, ErrorCode.FENCED_LEADER_EPOCH),
        (-2, ErrorCode.FENCED_LEADER_EPOCH),
        (4, ErrorCode.UNKNOWN_LEADER_EPOCH),
    ],
)
def test_fence(believed: int, code: ErrorCode | None) -> None:
    assert fence(log(3, 0), believed) == code


@pytest.mark.parametrize(
    ("name", "of", "epoch", "expected"),
    [
        ("none", log(0, 7, (0, 0)), -1, (-1, -1)),
        ("the latest", log(0, 7, (0, 0)), 0, (0, 7)),
        ("not come yet", log(0, 7, (0, 0)), 1, (-1, -1)),
        ("below 0, as Kafka has it", log(0, 7, (0, 0)), -5, (-5, 0)),
        ("an older one", log(2, 9, (0, 0), (2, 5)), 0, (0, 5)),
        ("one that was skipped", log(2, 9, (0, 0), (2, 5)), 1, (0, 5)),
        ("before all that are known", log(4, 9, (3, 6), (4, 7)), 1, (1, 6)),
        ("empty log, the one in force", log(0, 0), 0, (0, 0)),
        ("empty log, an earlier one", log(3, 0), 1, (1, 0)),
        ("empty log, a later one", log(3, 0), 4, (-1, -1)),
        ("nothing written yet under the one in force", log(1, 7, (0, 0)), 1, (1, 7)),
        ("… and the one before", log(1, 7, (0, 0)), 0, (0, 7)),
        ("… and one between", log(5, 7, (0, 0)), 3, (0, 7)),
        ("… and none", log(5, 7, (0, 0)), -1, (-1, -1)),
    ],
)
def test_end_of_epoch(name: str, of: Any, epoch: int, expected: tuple[int, int]) -> None:
    assert end_of_epoch(of, epoch) == expected, name


@pytest.mark.parametrize(
    ("of", "offset", "epoch"),
    [
        (log(0, 0), 0, 0),
        (log(4, 0), 0, 4),
        (log(2, 9, (0, 0), (2, 5)), 4, 0),
        (log(2, 9, (0, 0), (2, 5)), 5, 2),
        (log(7, 9, (0, 0), (2, 5)), 8, 2),
        (log(7, 9, (0, 0), (2, 5)), 9, 7),
        (log(4, 9, (3, 6)), 5, -1),
    ],
)
def test_epoch_at(of: Any, offset: int, epoch: int) -> None:
    assert epoch_at(of, offset) == epoch


@pytest.mark.parametrize(
    ("name", "epoch", "offset", "expected"),
    [
        ("same history", 0, 5, None),
        ("same history, the epoch in force", 2, 9, None),
        ("read beyond the end of an epoch", 0, 6, (0, 5)),
        ("read an epoch that the log skipped", 1, 5, (0, 5)),
        ("read beyond the end of the log", 2, 10, (2, 9)),
        ("an epoch that has not come yet", 3, 5, UNDEFINED),
    ],
)
def test_divergence(name: str, epoch: int, offset: int, expected: tuple[int, int] | None) -> None:
    assert divergence(log(2, 9, (0, 0), (2, 5)), epoch, offset) == expected, name
