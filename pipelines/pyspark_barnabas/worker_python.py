"""Which Python Spark's workers run: a warning where it is one without this package.

Spark starts `python3` of the PATH, whatever Python runs the program, unless PYSPARK_PYTHON or
`spark.pyspark.python` names another. Where an environment is not activated that is the system's,
and all that Spark says is DATA_SOURCE_NOT_FOUND. Nothing of this package runs in such a worker; so
it is looked at beforehand, in the driver, by who asks for a Java (`pyspark_barnabas.java`).

This looks at the machine it runs on. Nothing is set: on a cluster another path may be right.
"""

from __future__ import annotations

import logging
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from typing import Final

ANSWER_SECONDS_MAX: Final = 60
_NEEDED: Final = ("pyspark_barnabas", "pyarrow")
_QUESTION: Final = (
    "import sys; from importlib.util import find_spec; "
    f"sys.exit(not all(map(find_spec, {_NEEDED})))"
)

_log = logging.getLogger(__name__)


def warn_of_other_python(environment: Mapping[str, str]) -> None:
    """Log a warning if workers that are started with this environment lack this package."""
    if environment.get("PYSPARK_PYTHON"):
        return
    program = shutil.which("python3", path=environment.get("PATH"))
    if program is None or not _serves(program, environment):
        _log.warning(
            "Spark's workers run %s, which lacks %s: activate the environment, or set "
            "PYSPARK_PYTHON=%s before the session is made",
            program or "python3 of the PATH, which is not there",
            " or ".join(_NEEDED),
            sys.executable,
        )


def _serves(program: str, environment: Mapping[str, str]) -> bool:
    try:
        asked = subprocess.run(  # noqa: S603 - the program that Spark would run
            [program, "-c", _QUESTION],
            env=dict(environment),
            cwd=os.sep,  # what lies in the working directory is not installed
            check=False,
            capture_output=True,
            timeout=ANSWER_SECONDS_MAX,
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return asked.returncode == 0
