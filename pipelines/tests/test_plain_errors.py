"""Errors that leave a worker without a trace, and do not hide other errors."""

from __future__ import annotations

import inspect
import os
import sys
import traceback
from types import SimpleNamespace

import pytest

from pyspark_barnabas.plain_errors import HIDE_TRACEBACK, plainly
from pyspark_barnabas.wire.errors import BadOption


@plainly
class Source:
    def plan(self, start=None, limit=None):
        return self._deep(BadOption("no such option"))

    def read(self, error):
        yield 1
        self._deep(error)

    def _deep(self, error):
        try:
            raise OSError("beneath")
        except OSError:
            raise error  # noqa: B904 - what it is about


@pytest.fixture
def worker(monkeypatch):
    """This process, as if Spark had started it."""
    monkeypatch.setenv(HIDE_TRACEBACK, "")
    monkeypatch.setattr(sys.modules["__main__"], "__spec__", SimpleNamespace(name="pyspark.daemon"))


@pytest.mark.parametrize("call", [Source().plan, lambda: list(Source().read(BadOption("no")))])
def test_an_error_that_a_user_can_act_on_has_no_trace(worker, call):
    with pytest.raises(BadOption) as found:
        call()
    assert os.environ[HIDE_TRACEBACK]
    shown = "".join(traceback.format_exception(found.value))
    assert "_deep" not in shown
    assert "beneath" not in shown


def test_a_mistake_of_ours_keeps_its_trace(worker):
    with pytest.raises(KeyError) as found:
        list(Source().read(KeyError("oh")))
    assert not os.environ[HIDE_TRACEBACK]
    assert "_deep" in "".join(traceback.format_exception(found.value))


def test_outside_of_spark_no_switch_is_turned(monkeypatch):
    monkeypatch.setenv(HIDE_TRACEBACK, "")
    with pytest.raises(BadOption):
        Source().plan()
    assert not os.environ[HIDE_TRACEBACK]


def test_spark_sees_the_parameters_that_a_method_has():
    """Spark checks whether latestOffset takes any."""
    assert list(inspect.signature(Source().plan).parameters) == ["start", "limit"]
    assert inspect.isgeneratorfunction(Source.read)
