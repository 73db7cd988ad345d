"""What SIGHUP does: open the log file again, read the configuration again, reload certificates.

    the log file        is opened again, in a thread: logrotate has renamed it
    certificates        of all listeners are read again (`broker.security.tls.tls_listeners`)
    the configuration   is read from the same file, environment and command line. Changed keys that
                        can change at run time take effect; those that need a restart are named.
                        What `barnabas config set` has set stays, and still overrides

A file that cannot be used changes nothing, and the log says why. Signals that arrive during a
reload cause one more.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from broker.runtime import log_lines
from broker.runtime.line_file import LineFile
from broker.security.tls.tls_errors import TlsError
from broker.services import Services
from config.broker import BrokerConfig
from config.errors import ConfigError
from config.load import Loaded

logger = logging.getLogger("barnabas.server")


class Reloading:
    """Reloads whenever an event is set.

    `read` reads the configuration again. `lines` is the log file, if there is one.
    """

    def __init__(self, read: Callable[[], Loaded], lines: LineFile | None) -> None:
        self._read = read
        self._lines = lines

    async def run(self, services: Services, asked: asyncio.Event) -> None:
        """Reload each time `asked` is set."""
        services.configs.settings.listen(_set_level)
        while True:
            await asked.wait()
            asked.clear()
            await self._reopen(services)
            if services.tls is not None:
                services.tls.ask_for_reload()
            await self._configure(services)

    async def _reopen(self, services: Services) -> None:
        if self._lines is None:
            return
        try:
            await services.pool.run(self._lines.reopen)
        except OSError as error:
            logger.error(
                "SIGHUP: %(error)s. Lines go on to the file that is open", {"error": error.strerror}
            )
        else:
            logger.info("SIGHUP: %(file)s is open again", {"file": self._lines.path})

    async def _configure(self, services: Services) -> None:
        try:
            other = await services.pool.run(self._read)
            change = await services.configs.use_static(other)
        except (ConfigError, TlsError) as error:
            logger.error("SIGHUP: the configuration is kept as it is: %(error)s", {"error": error})
            return
        for warning in other.warnings:
            logger.warning("%(warning)s", {"warning": warning})
        overridden = [
            name for name in change.now if name in services.configs.settings.loaded.dynamic
        ]
        named = {"changed": ", ".join(change.now) or "nothing that can change while it runs"}
        logger.info("SIGHUP: the configuration was read again; changed: %(changed)s", named)
        if overridden:
            named = {"overridden": ", ".join(overridden)}
            logger.warning("still overridden by values set at run time: %(overridden)s", named)
        if change.at_restart:
            named = {"restart": ", ".join(change.at_restart)}
            logger.warning("changed, but only a restart makes it so: %(restart)s", named)


def _set_level(config: BrokerConfig) -> None:
    log_lines.set_level(config.barnabas_log_level)
