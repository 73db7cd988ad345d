"""All checks of `barnabas doctor`, in order, for one configuration.

A check that fails for a reason of its own is a finding too: the others go on.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import partial
from typing import Final

from broker.runtime.clock import SystemClock
from client.files.doctor_checks import (
    BAD,
    GOOD,
    NOTE,
    Advice,
    Check,
    check_clock,
    check_directory,
    check_file_system,
    check_keys,
    check_limits,
    check_listeners,
    check_room,
    check_sync,
)
from client.files.verify import Verification, log_bytes
from config.errors import ConfigError
from config.load import Loaded
from storage.files import filenames
from storage.files.os_filesystem import OsFileSystem

QUICK_BYTES: Final = 256 << 20  # of log that is verified whole


def examine(loaded: Loaded | ConfigError, data: str) -> list[Advice]:
    """Return the findings of all checks; `loaded` may be why the configuration was refused."""
    lock = os.path.join(data, filenames.LOCK)
    is_running = OsFileSystem().lock_holder(lock) is not None
    checks: dict[str, Check] = {}
    if isinstance(loaded, Loaded):
        checks["configuration"] = partial(check_keys, loaded)
        checks["listeners"] = partial(check_listeners, loaded, is_running=is_running)
    checks |= {
        "file system": partial(check_file_system, data),
        "room": partial(check_room, data),
        "fdatasync": partial(check_sync, data),
        "limits": check_limits,
        "clock": partial(check_clock, SystemClock().now_ms()),
        "directory": partial(check_directory, data),
        "logs": partial(check_logs, data),
    }
    found = []
    if isinstance(loaded, ConfigError):
        found.append(Advice("configuration", BAD, str(loaded), "the broker does not start"))
    for name, check in checks.items():
        try:
            found += check()
        except OSError as error:
            where = f"{error.filename}: " if error.filename else ""
            found.append(Advice(name, BAD, f"{where}{error.strerror or error}"))
    return found


def check_logs(data: str) -> Iterator[Advice]:
    """Verify the directory, or its metadata log if it is large."""
    if not os.path.exists(os.path.join(data, filenames.META_PROPERTIES)):
        return
    size = log_bytes([data])
    is_large = size > QUICK_BYTES
    path = os.path.join(data, filenames.METADATA_DIRECTORY) if is_large else data
    report = Verification(OsFileSystem()).run([path])
    bad = [one for one in report.findings if one.weight != "note"]
    for one in bad[:3]:
        yield Advice("logs", BAD, f"{one.path}: {one.found}", f"run barnabas verify {data}")
    if bad:
        return
    if is_large:
        text = f"{size >> 20:,} MiB: only the metadata log was verified, and is sound"
        yield Advice("logs", NOTE, text, f"run barnabas verify {data} for the rest")
    else:
        yield Advice("logs", GOOD, f"sound: {report.batch_count:,} batches")


def is_well(found: list[Advice]) -> bool:
    """Whether a broker can work: nothing is BAD."""
    return all(one.weight != BAD for one in found)
