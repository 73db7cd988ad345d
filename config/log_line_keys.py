"""The broker's keys for its own log lines, after those of config/http_keys.py.

All are Barnabas's own. Log lines are what the broker writes about itself; a log is a partition's.
"""

from __future__ import annotations

from dataclasses import dataclass

from config.checks import one_of
from config.http_keys import HttpKeys
from config.keys import Update, key
from config.values import Kind


@dataclass(frozen=True, slots=True, kw_only=True, init=False, repr=False, eq=False)
class LogLineKeys(HttpKeys):
    """One field a key; the attribute of a key is its name with underscores.

    A part of BrokerConfig, the only one of which there are objects.
    """

    barnabas_log_file: str | None = key(
        "barnabas.log.file",
        None,
        Kind.STRING,
        doc="The file that the broker appends its own log lines to, instead of standard error. It"
        " is opened again at SIGHUP, so that logrotate may rename it. Not inside the data"
        " directory.",
    )
    barnabas_log_format: str = key(
        "barnabas.log.format",
        "text",
        Kind.STRING,
        check=one_of("text", "json"),
        doc="The format of the broker's own log lines.",
    )
    barnabas_log_level: str = key(
        "barnabas.log.level",
        "INFO",
        Kind.STRING,
        check=one_of("DEBUG", "INFO", "WARNING", "ERROR"),
        update=Update.CLUSTER_WIDE,
        doc="The lowest level of the broker's own log lines.",
    )
