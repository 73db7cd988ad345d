"""Which Python Spark's workers run: a warning if it lacks this package.

Spark starts the `python3` on the PATH, whatever Python runs the program, unless PYSPARK_PYTHON or
`spark.pyspark.python` names another. If no environment is activated, that is the system's Python,
and Spark only reports DATA_SOURCE_NOT_FOUND. Nothing of this package runs in such a worker, so
`use_java` (`pyspark_barnabas.java`) checks beforehand, in the driver.

The check covers the machine it runs on, and sets nothing: on a cluster another path may be right.
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
    """Log a warning if workers started with this environment lack this package."""
    if environment.get("PYSPARK_PYTHON"):
        return
    program = shutil.which("python3", path=environment.get("PATH"))
    if program is None or not _serves(program, environment):
        _log.warning(
            "Spark's workers run %s: activate the environment, or set "
            "PYSPARK_PYTHON=%s before the session is created",
            f"{program}, which lacks {' or '.join(_NEEDED)}"
            if program
            else "python3, and none is on the PATH",
            sys.executable,
        )


def _serves(program: str, environment: Mapping[str, str]) -> bool:
    try:
        asked = subprocess.run(  # noqa: S603 - the program that Spark would run
            [program, "-c", _QUESTION],
            env=dict(environment),
            cwd=os.sep,  # a package in the working directory is not installed
            check=False,
            capture_output=True,
            timeout=ANSWER_SECONDS_MAX,
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return asked.returncode == 0
