"""The Python that runs the benchmarks, and whether it was built with optimisation.

An interpreter without profile-guided optimisation (pyenv's default) needs more CPU for the same
work, so figures from one must not be compared with figures
from another. Debian builds with it, and leaves no trace of that in `sysconfig`.
"""

from __future__ import annotations

import platform
import sys
import sysconfig
from functools import cache

NOT_OPTIMISED = "built without optimisation"


def is_optimised(configured: str, flags: str, schemes: tuple[str, ...]) -> bool:
    """Return whether CONFIG_ARGS, the compiler's flags or the distribution indicate it."""
    return (
        "--enable-optimizations" in configured
        or "-fprofile-use" in flags
        or "-fprofile-instr-use" in flags
        or "deb_system" in schemes
    )


def described() -> str:
    """Return the version, and how it was built."""
    configured, flags = (
        str(sysconfig.get_config_var(name) or "") for name in ("CONFIG_ARGS", "PY_CORE_CFLAGS")
    )
    optimised = is_optimised(configured, flags, sysconfig.get_scheme_names())
    return f"{platform.python_version()}, {'optimised' if optimised else NOT_OPTIMISED}"


@cache
def announce() -> None:
    """Print once, on standard error, which Python is used; warn if it is unsuitable."""
    told = described()
    sys.stderr.write(f"measured with Python {told}\n")
    if told.endswith(NOT_OPTIMISED):
        sys.stderr.write(
            "!! This Python was not configured with --enable-optimizations: its figures are worse\n"
            "!! than those of the Python that users have. Set the environment up with another:\n"
            "!! `make clean`, then `make bench PYTHON=/usr/bin/python3`.\n"
        )
