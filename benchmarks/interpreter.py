"""Which Python measures, and whether it was built with optimisation.

An interpreter that was built without profile-guided optimisation, as pyenv builds them unless told
otherwise, needs more CPU for the same work: figures from one are not to be put
beside figures from another. Debian builds with it, and leaves no trace of that in `sysconfig`.
"""

from __future__ import annotations

import platform
import sys
import sysconfig
from functools import cache

NOT_OPTIMISED = "built without optimisation"


def is_optimised(configured: str, flags: str, schemes: tuple[str, ...]) -> bool:
    """Whether CONFIG_ARGS, the compiler's flags or the distribution speak for it."""
    return (
        "--enable-optimizations" in configured
        or "-fprofile-use" in flags
        or "-fprofile-instr-use" in flags
        or "deb_system" in schemes
    )


def described() -> str:
    """The version, and how it was built."""
    configured, flags = (
        str(sysconfig.get_config_var(name) or "") for name in ("CONFIG_ARGS", "PY_CORE_CFLAGS")
    )
    optimised = is_optimised(configured, flags, sysconfig.get_scheme_names())
    return f"{platform.python_version()}, {'optimised' if optimised else NOT_OPTIMISED}"


@cache
def announce() -> None:
    """Say once, on standard error, which Python measures: loudly, if it should not."""
    told = described()
    sys.stderr.write(f"measured with Python {told}\n")
    if told.endswith(NOT_OPTIMISED):
        sys.stderr.write(
            "!! This Python was not configured with --enable-optimizations: its figures are worse\n"
            "!! than those of the Python that users have. Set the environment up with another:\n"
            "!! `make clean`, then `make bench PYTHON=/usr/bin/python3`.\n"
        )
