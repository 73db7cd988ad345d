"""Whether the Python of Spark's workers has this package, with fake programs."""

from __future__ import annotations

import sys

import pytest

from pyspark_barnabas.worker_python import warn_of_other_python


@pytest.fixture
def environment(tmp_path):
    """Build a PATH with a python3 that ends with `code`, or without any for None."""

    def build(code, **more):
        if code is not None:
            program = tmp_path / "python3"
            program.write_text(f"#!/bin/sh\nexit {code}\n")
            program.chmod(0o755)
        return {"PATH": str(tmp_path), **more}

    return build


def test_a_python_without_the_package_is_named_with_the_variable_to_set(
    environment, tmp_path, caplog
):
    warn_of_other_python(environment(1))
    assert f"Spark's workers run {tmp_path}/python3, which lacks pyspark_barnabas" in caplog.text
    assert f"set PYSPARK_PYTHON={sys.executable} before the session is created" in caplog.text


def test_a_path_without_python3_is_told(environment, caplog):
    warn_of_other_python(environment(None))
    assert "python3, and none is on the PATH" in caplog.text


def test_a_python_with_the_package_and_one_that_was_chosen_are_passed_over(environment, caplog):
    warn_of_other_python(environment(0))
    warn_of_other_python(environment(1, PYSPARK_PYTHON="/some/python"))
    assert not caplog.text


def test_this_python_is_asked_for_what_it_has(tmp_path, caplog):
    """The real question to a real Python, which lacks both without its packages."""
    (tmp_path / "python3").write_text(f'#!/bin/sh\nexec {sys.executable} -S -E "$@"\n')
    (tmp_path / "python3").chmod(0o755)
    warn_of_other_python({"PATH": str(tmp_path)})
    assert "which lacks pyspark_barnabas or pyarrow" in caplog.text
