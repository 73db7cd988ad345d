"""What a test is interrupted in, what threads do at once, and what a fork has of its parent's."""

import os
import signal
import threading
from contextlib import suppress

import pytest

from pytest_barnabas import Barnabas, BarnabasError


class Interrupted(Exception):
    """A signal has come, as of a time limit of tests."""


@pytest.fixture
def alarm():
    """Raise in the main thread after a while."""

    def interrupt(*_):
        raise Interrupted

    before = signal.signal(signal.SIGALRM, interrupt)
    yield lambda seconds: signal.setitimer(signal.ITIMER_REAL, seconds)
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


def restart_for_ever(broker):
    while True:
        broker.restart()


def test_an_interrupted_command_leaves_no_answer_for_the_next(barnabas, alarm):
    alarm(0.05)
    with pytest.raises(Interrupted):
        restart_for_ever(barnabas)
    with Barnabas() as other:
        assert other.bootstrap != barnabas.bootstrap
    assert barnabas.requests() == []


def test_an_interrupted_call_leaves_no_answer_for_the_next(barnabas, alarm):
    barnabas.rule(api="metadata", client="pytest-barnabas", delay=0.5, nth=2)
    topic = barnabas.topic()
    barnabas.records(topic, 0)
    alarm(0.05)
    with pytest.raises(Interrupted):
        barnabas.records(topic, 0)
    assert barnabas.produce(topic, "v") == 0
    assert [record.value for record in barnabas.records(topic)] == [b"v"]


def test_threads_share_a_broker(barnabas):
    topic, failed = barnabas.topic(), []

    def write():
        try:
            for _ in range(20):
                barnabas.produce(topic, "v")
                barnabas.requests()
        except Exception as error:
            failed.append(error)

    threads = [threading.Thread(target=write) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
    assert len(barnabas.records(topic)) == 80


def test_a_fork_writes_and_does_not_end_its_parents_broker(barnabas):
    topic = barnabas.topic()
    child = os.fork()
    if not child:
        code = 1
        try:
            barnabas.produce(topic, "of the child")
            with pytest.raises(BarnabasError, match="has forked this one"):
                barnabas.requests()
            barnabas.close()
            with Barnabas() as own:
                own.topic(topic)
            code = 0
        finally:
            os._exit(code)
    assert os.waitpid(child, 0)[1] == 0
    barnabas.produce(topic, "of the parent")
    values = [record.value for record in barnabas.records(topic)]
    assert values == [b"of the child", b"of the parent"]


@pytest.mark.slow
def test_a_stuck_broker_is_killed_all_the_same(barnabas):
    topic = barnabas.topic()
    barnabas.rule(call="pwrite", file=f"{topic}-0/*.log", delay=600, nth=1)
    writing = threading.Thread(target=lambda: _ignored(lambda: barnabas.produce(topic, "v")))
    writing.start()
    writing.join(0.5)  # the broker's loop waits for its disk now
    barnabas.kill()
    writing.join(10)
    barnabas.restart()
    assert barnabas.produce(topic, "w") >= 0


def _ignored(call):
    with suppress(OSError):
        call()
