"""The life of a topic: the state table, its documentation, and reserved names."""

from pathlib import Path

import pytest

from broker.metadata.controller import Controller
from broker.metadata.image import TopicInfo
from broker.metadata.topic_life import (
    LIFE,
    TopicEvent,
    TopicLife,
    TopicLives,
    TopicState,
    table,
)
from broker.topic_logs import TopicLogs
from broker.topics import Topics

PAGE = Path(__file__).parents[4] / "docs" / "operations.md"
OWNERS = {"Controller": Controller, "Topics": Topics, "TopicLogs": TopicLogs}


def topic(name="t", topic_id=b"1" * 16):
    return TopicInfo(name, topic_id)


def test_the_page_shows_the_table():
    assert table() in PAGE.read_text(encoding="utf-8")


def test_each_step_has_an_owner_that_exists():
    for step in LIFE.values():
        kind, _, name = step.owner.partition(".")
        assert callable(getattr(OWNERS[kind], name)), step.owner


def test_every_state_is_reached_and_only_final_states_have_no_exit():
    reached = {step.target for step in LIFE.values()}
    assert reached == set(TopicState)
    left = {state for (state, _event), step in LIFE.items() if step.target is not state}
    assert set(TopicState) - left == {TopicState.DELETED, TopicState.UNDECIDED}


def test_a_removed_topic_is_dropped_only_once_the_removal_is_durable():
    life = TopicLife(topic())
    life.move(TopicEvent.REMOVED)
    assert not life.is_serving
    with pytest.raises(AssertionError, match="Deleting"):
        life.move(TopicEvent.DROPPED)
    for event in (TopicEvent.GONE, TopicEvent.DROPPED):
        life.move(event)
    assert life.state is TopicState.DELETED


def test_a_name_is_taken_until_its_topic_has_ended():
    lives = TopicLives()
    life = lives.begin(topic())
    assert lives.of_name("t") is life is lives.of(topic())
    assert list(lives) == [life]
    with pytest.raises(AssertionError, match="has not ended"):
        lives.begin(topic(topic_id=b"2" * 16))
    with pytest.raises(AssertionError, match="has not ended"):
        lives.end(life)
    for event in (TopicEvent.REMOVED, TopicEvent.GONE, TopicEvent.DROPPED):
        life.move(event)
    lives.end(life)
    assert lives.of_name("t") is None
    assert lives.begin(topic(topic_id=b"2" * 16)).state is TopicState.CREATING
