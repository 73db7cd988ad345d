"""The examples of docs/testing.md in Java and Go, run as a reader would run them.

The command `barnabas` is the one of this environment. JUnit comes from Maven; what cannot be had
skips its test with the reason.
"""

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.interop.go_program import SOURCE, fetch, run
from tests.interop.oracle.kafka import libs, need_javac

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "testing.md").read_text()
JUNIT = "org.junit.platform:junit-platform-console-standalone:1.11.4"

pytestmark = pytest.mark.interop


def example(language):
    """Return the only example in a language."""
    (found,) = re.findall(rf"<!-- example: {language} -->\n```{language}\n(.*?)```", PAGE, re.S)
    return found


@pytest.fixture
def paths(tmp_path):
    """A PATH with the command `barnabas` of this tree, and a TMPDIR for its directories."""
    command = tmp_path / "bin" / "barnabas"
    command.parent.mkdir()
    python = shlex.quote(sys.executable)
    command.write_text(f'#!/bin/sh\nPYTHONPATH={ROOT} exec {python} -P -m barnabas "$@"\n')
    command.chmod(0o755)
    (tmp_path / "temporary").mkdir()
    return {
        "PATH": f"{command.parent}{os.pathsep}{os.environ['PATH']}",
        "TMPDIR": str(tmp_path / "temporary"),
    }


def test_the_example_in_java_passes(tmp_path, paths):
    kafka = f"{libs()}/*"
    need_javac()
    fetch(
        "mvn", "-q", "dependency:copy", f"-Dartifact={JUNIT}", "-DoutputDirectory=.", cwd=tmp_path
    )
    (junit,) = tmp_path.glob("junit-*.jar")
    (tmp_path / "OrdersTest.java").write_text(example("java"))
    among = f"{junit}:{kafka}"
    run("javac", "-proc:none", "-cp", among, "-d", str(tmp_path), str(tmp_path / "OrdersTest.java"))
    told = run(
        "java", "-XX:TieredStopAtLevel=1", "-Dlog4j2.level=OFF", "-jar", str(junit), "execute",
        "--class-path", os.pathsep.join((str(tmp_path), *map(str, libs().glob("*.jar")))),
        "--select-class", "OrdersTest", "--details=summary", "--fail-if-no-tests", **paths,
    )  # fmt: skip
    assert any("1 tests successful" in line for line in told), told
    assert not list((tmp_path / "temporary").iterdir())


def test_the_example_in_go_passes(tmp_path, paths):
    if shutil.which("go") is None:
        pytest.skip("needs go on the PATH")
    for name in ("go.mod", "go.sum"):
        shutil.copy(SOURCE / name, tmp_path)
    (tmp_path / "orders_test.go").write_text(example("go"))
    fetch("go", "mod", "download", cwd=tmp_path)
    told = run("go", "test", "-mod=mod", "-vet=all", "-v", ".", cwd=tmp_path, **paths)
    assert any(line.startswith("--- PASS: TestAnOrderIsSent") for line in told), told
    assert not list((tmp_path / "temporary").iterdir())
    formatted = subprocess.run(
        ["gofmt", "-l", "."], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert not formatted.stdout
