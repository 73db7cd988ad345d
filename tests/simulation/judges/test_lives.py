"""The judge of lives: how they end, their epochs, and their configs."""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest

from tests.simulation.disk_rig import disk_of
from tests.simulation.judges.lives import Lives, in_effect

MARK = "/data/.kafka_cleanshutdown"


@dataclass
class Log:
    leader_epoch: int = 0
    config: str = "as recorded"
    topic: str = "t"
    partition: int = 0


def broker(log: Log, topic_id: bytes = b"t") -> Any:
    topic_configs = SimpleNamespace(of=lambda topic: topic.config)
    topics = {"t": SimpleNamespace(topic_id=topic_id, config="as recorded")}
    controller = SimpleNamespace(image=SimpleNamespace(topics=topics), topic_configs=topic_configs)
    logs = [log, Log(topic="__cluster_metadata")]
    partitions = SimpleNamespace(all=lambda: [SimpleNamespace(log=one) for one in logs])
    services = SimpleNamespace(controller=controller, partitions=partitions)
    return SimpleNamespace(_assembly=SimpleNamespace(services=services))


def ended(lives: Lives, how: str, code: int, signals: int = 1, **more: Any) -> list[str]:
    disk = disk_of().disk
    if more.pop("is_marked", True):
        disk.replace(MARK, b"")
    return lives.ended(
        how, code, signals, disk.directory("/data"), disk_answers=more.pop("disk_answers", True)
    )


def test_a_clean_stop_is_marked() -> None:
    assert ended(Lives(), "stopped", 0) == []
    assert ended(Lives(), "stopped", 0, is_marked=False) == [
        "a broker exits with 0, and its clean mark is not on the disk"
    ]
    assert ended(Lives(), "stopped", 1, is_marked=False) == []


@pytest.mark.parametrize("how", ["left", "stopped"])
def test_the_third_signal_ends_a_broker(how: str) -> None:
    assert ended(Lives(), how, 130, 3) == []
    assert ended(Lives(), how, 130, 2) == ["the broker left with 130 after 2 signals"]
    assert ended(Lives(), how, 130, 2, disk_answers=False) == []


@pytest.mark.parametrize(
    ("is_marked", "epoch", "said"),
    [
        (True, 3, []),
        (True, 2, ["t-0 has epoch 2 after a clean stop, it had 3 before"]),
        (False, 4, []),
        (False, 3, ["t-0 has epoch 3 after an unclean end, it had 3 before"]),
    ],
)
def test_epochs(is_marked: bool, epoch: int, said: list[str]) -> None:
    lives = Lives()
    assert lives.serves(broker(Log(3))) == []
    ended(lives, "stopped", 1, is_marked=is_marked)
    assert lives.serves(broker(Log(0), b"another topic of that name")) == []
    assert lives.serves(broker(Log(epoch))) == said


def test_a_partition_that_was_made_by_the_life_before() -> None:
    lives = Lives()
    assert lives.serves(broker(Log(3), b"u")) == []
    lives.has_served(broker(Log(0)))
    ended(lives, "killed", 0, is_marked=False)
    assert len(lives.serves(broker(Log(0)))) == 1


def test_configs_in_effect() -> None:
    assert list(in_effect(broker(Log()))) == []
    assert list(in_effect(broker(Log(config="old")))) == [
        "t-0 goes by other configs than its topic's"
    ]
