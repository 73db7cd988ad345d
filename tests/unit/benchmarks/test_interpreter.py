"""The build options of an interpreter, derived from its own configuration."""

import platform

import pytest

from benchmarks import interpreter


@pytest.mark.parametrize(
    ("configured", "flags", "schemes", "expected"),
    [
        ("'--prefix=/opt' '--enable-shared'", "-O3 -Wall", ("posix_prefix",), False),
        ("'--enable-optimizations' '--with-lto'", "-O3", ("posix_prefix",), True),
        ("", "-O3 -fprofile-use -fprofile-correction", ("posix_prefix",), True),
        ("'--prefix=/usr'", "-g -O2", ("deb_system", "posix_prefix"), True),
    ],
)
def test_optimisation_is_recognized(configured, flags, schemes, expected):
    assert interpreter.is_optimised(configured, flags, schemes) is expected


@pytest.mark.parametrize("configured", ["'--enable-shared'", "'--enable-optimizations'"])
def test_an_unoptimised_interpreter_causes_a_warning(configured, monkeypatch, capsys):
    known = {"CONFIG_ARGS": configured}
    monkeypatch.setattr(interpreter.sysconfig, "get_config_var", known.get)
    monkeypatch.setattr(interpreter.sysconfig, "get_scheme_names", lambda: ("posix_prefix",))
    interpreter.announce.__wrapped__()
    said = capsys.readouterr().err
    assert said.startswith(f"measured with Python {platform.python_version()}, ")
    assert ("!! This Python was not configured" in said) == ("optimizations" not in configured)
