"""The plugin in a pytest of its own: reports, and workers side by side."""

from tests.kit import inner_pytest

FOUR = """
import os, pytest
@pytest.mark.parametrize("number", range(8))
def test_alone(barnabas, number):
    topic = barnabas.topic("mine")
    barnabas.produce(topic, str(number))
    assert [record.value for record in barnabas.records(topic)] == [str(number).encode()]
    open(f"worker-{os.environ['PYTEST_XDIST_WORKER']}", "a").close()
"""


def test_four_workers_have_brokers_of_their_own(tmp_path):
    code, output = inner_pytest.run(tmp_path, FOUR, "-p", "xdist", "-n", "4")
    assert code == 0, output
    assert "8 passed" in output
    assert len(list(tmp_path.glob("worker-*"))) == 4
    assert list(tmp_path.glob("barnabas-*")) == []


LOGS = """
import pytest
def test_fails(barnabas):
    assert barnabas.topic() == 1
def test_closed(barnabas):
    barnabas.close()
    assert 0
@pytest.fixture
def broken(barnabas):
    raise RuntimeError
def test_setup(broken): pass
def test_session(barnabas_session):
    assert 0
def test_met(barnabas):
    barnabas.rule(api="produce", error="REQUEST_TIMED_OUT", must_be_met=True)
    barnabas.close()
def test_last(barnabas):
    barnabas.topic()
"""


def test_a_failure_shows_the_brokers_log_also_after_close_in_setup_and_of_the_session(tmp_path):
    code, output = inner_pytest.run(tmp_path, LOGS)
    assert code == 1
    assert "4 failed, 1 passed, 1 error" in output
    assert output.count("Kafka Server started") == 5
    assert output.count("Broker log") == 5
    assert "was never met" in output
